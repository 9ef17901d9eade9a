"""Callbacks: a user's code, or a progress bar, inside a run.

Derive from `Callback` and override what you need; every method does nothing by itself. They are called in the thread
that trains, between steps, so that looking at ``run.model`` is always safe::

    class StopWhenGood(Callback):
        def epoch_end(self, run, row):
            if row.valid_metrics.get("accuracy", 0.0) > 0.99:
                run.stop("good enough")

    train(model, loader, valid, callbacks=[StopWhenGood()])

Order in a run: ``train_begin``; per epoch ``epoch_begin``, ``batch_end`` for each batch, ``evaluation_batch`` for each
batch of the validation, ``epoch_end``; ``saved`` for each file written (the checkpoint of an epoch is written before
its ``epoch_end`` and told after it); ``evaluation_batch`` for each batch of the test data, also after an early stop; at
last ``train_end``, however the run ended. A run that goes on with another and has nothing left to do calls none of
them. An exception from a callback ends the run (the last checkpoint stays) and reaches the caller.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nntrainer_py.training.history import EpochRow, History
from nntrainer_py.training.trainee import Trainee


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One training batch that is done.

    Attributes:
        epoch: from 1.
        batch: number in the epoch, from 1.
        step: updates done since the beginning of training, this batch's counted.
        samples: in this batch.
        samples_seen: in this epoch so far.
        loss: mean of this batch, before the update.
        mean_loss: over the samples of the epoch so far, also of the part before a resume.
        metrics: over the samples of the epoch so far (``accuracy``, or ``mae`` and ``r2``).
        learning_rate: used for this batch's update.
        seconds: spent in the epoch so far, also before a resume.
    """

    epoch: int
    batch: int
    step: int
    samples: int
    samples_seen: int
    loss: float
    mean_loss: float
    metrics: Mapping[str, float]
    learning_rate: float
    seconds: float


@dataclass(slots=True)
class RunFacts:
    """What callbacks are told about the run; attributes grow up to date as it goes.

    Attributes:
        model: the model that is trained.
        epochs: the total to reach.
        batch_size: samples of a full batch.
        batches_per_epoch, samples_per_epoch: None where the data does not know.
        valid_batches: batches of one validation; None without validation or where the data does not know.
        start_epoch, start_batch: where this process began: epoch from 1, batches of it already done. (1, 0) for a
            fresh run.
        step: updates done since the beginning of training.
        history: the epochs so far, those before a resume included.
        best_epoch: the epoch whose weights are the best so far, 0 before the first.
        seconds_to_first_step: from the call of ``train`` until the first step was done; None before that.
    """

    model: Trainee
    epochs: int
    batch_size: int
    batches_per_epoch: int | None = None
    samples_per_epoch: int | None = None
    valid_batches: int | None = None
    start_epoch: int = 1
    start_batch: int = 0
    step: int = 0
    history: History = field(default_factory=History)
    best_epoch: int = 0
    seconds_to_first_step: float | None = None
    stop_reason: str | None = None

    def stop(self, reason: str = "a callback asked for it") -> None:
        """Ask for the end of the run after the step, or the epoch, that is going on."""
        if self.stop_reason is None:
            self.stop_reason = reason


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """How a run ended.

    Attributes:
        history: all epochs.
        ended: ``epochs`` (the number asked for is done), ``early stopping``, ``stopped`` (a callback),
            ``interrupted``, ``not finite``, ``nothing to do`` or ``error``.
        reason: the same in a sentence.
        epoch, step: done in total.
        best_epoch: 0 when there was none.
        best: the row of that epoch.
        restored: the model now has the weights of ``best_epoch``.
        test: loss and metrics of the test data with the weights that the run ended with; None without, and when the run
            was cut off.
        seconds: of this process.
        seconds_to_first_step: None when no step was done.
    """

    history: History
    ended: str
    reason: str
    epoch: int
    step: int
    best_epoch: int = 0
    best: EpochRow | None = None
    restored: bool = False
    test: Mapping[str, float] | None = None
    seconds: float = 0.0
    seconds_to_first_step: float | None = None


class Callback:
    """Base of every callback; override any of the methods."""

    def train_begin(self, run: RunFacts) -> None:
        """Everything is checked, the first step comes next."""

    def epoch_begin(self, run: RunFacts, epoch: int) -> None:
        """Epoch ``epoch`` (from 1) begins, or goes on after a resume."""

    def batch_end(self, run: RunFacts, batch: BatchReport) -> None:
        """A training step is done."""

    def evaluation_batch(self, run: RunFacts, use: str, batch: int) -> None:
        """Batch ``batch`` (from 1) of the ``use`` data (``valid`` or ``test``) was evaluated."""

    def epoch_end(self, run: RunFacts, row: EpochRow) -> None:
        """An epoch with its validation is done; the row is in ``run.history`` already."""

    def saved(self, run: RunFacts, what: str, path: Path) -> None:
        """A file is on disk and safe: ``what`` is ``checkpoint``, ``weights`` or ``best weights``."""

    def train_end(self, run: RunFacts, result: TrainingResult) -> None:
        """The run is over, in whatever way; the best weights are restored already where that was asked for."""


class CallbackList(Callback):
    """Several callbacks as one, called in their order."""

    def __init__(self, callbacks: Iterable[Callback] = ()) -> None:
        self.callbacks = list(callbacks)

    def train_begin(self, run: RunFacts) -> None:
        for callback in self.callbacks:
            callback.train_begin(run)

    def epoch_begin(self, run: RunFacts, epoch: int) -> None:
        for callback in self.callbacks:
            callback.epoch_begin(run, epoch)

    def batch_end(self, run: RunFacts, batch: BatchReport) -> None:
        for callback in self.callbacks:
            callback.batch_end(run, batch)

    def evaluation_batch(self, run: RunFacts, use: str, batch: int) -> None:
        for callback in self.callbacks:
            callback.evaluation_batch(run, use, batch)

    def epoch_end(self, run: RunFacts, row: EpochRow) -> None:
        for callback in self.callbacks:
            callback.epoch_end(run, row)

    def saved(self, run: RunFacts, what: str, path: Path) -> None:
        for callback in self.callbacks:
            callback.saved(run, what, path)

    def train_end(self, run: RunFacts, result: TrainingResult) -> None:
        for callback in self.callbacks:
            callback.train_end(run, result)


class StopWhen(Callback):
    """Ends the run when a function without arguments says so (NNTrainer's stop callback), asked after every step."""

    def __init__(self, wanted: Callable[[], bool], reason: str = "a callback asked for it") -> None:
        self._wanted = wanted
        self._reason = reason

    def batch_end(self, run: RunFacts, batch: BatchReport) -> None:
        if self._wanted():
            run.stop(self._reason)


class AfterEpoch(Callback):
    """Calls a function with the row of every epoch that is done (NNTrainer's epoch-complete callback)."""

    def __init__(self, function: Callable[[EpochRow], None]) -> None:
        self._function = function

    def epoch_end(self, run: RunFacts, row: EpochRow) -> None:
        self._function(row)


class HistoryFiles(Callback):
    """Keeps ``history.csv`` (and JSON lines) of a run on disk, whole after every epoch and right after a resume."""

    def __init__(
        self, csv: str | os.PathLike[str] | None = None, json_lines: str | os.PathLike[str] | None = None
    ) -> None:
        self._csv = None if csv is None else Path(csv)
        self._json_lines = None if json_lines is None else Path(json_lines)

    def train_begin(self, run: RunFacts) -> None:
        if len(run.history):  # a resumed run: what was written last may be of an epoch that is done again
            self._write(run)

    def epoch_end(self, run: RunFacts, row: EpochRow) -> None:
        self._write(run)

    def _write(self, run: RunFacts) -> None:
        if self._csv is not None:
            run.history.write_csv(self._csv)
        if self._json_lines is not None:
            run.history.write_json_lines(self._json_lines)
