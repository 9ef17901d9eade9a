"""The training loop: epochs of steps, validation, and everything that must hold when a run ends early."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from nntrainer_py.data.loader import Batch, BatchLoader
from nntrainer_py.errors import InterruptedRun, NNTrainerError, NumericalError, UsageError
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.training import evaluation
from nntrainer_py.training.best import Best
from nntrainer_py.training.callbacks import BatchReport, Callback, CallbackList, RunFacts, TrainingResult
from nntrainer_py.training.diagnosis import all_finite, find_origin
from nntrainer_py.training.history import EpochRow, History
from nntrainer_py.training.interrupt import InterruptGuard
from nntrainer_py.training.settings import TrainSettings
from nntrainer_py.training.stepper import Stepper

if TYPE_CHECKING:
    from nntrainer_py.model import Model


def train(
    model: Model,
    loader: BatchLoader,
    valid: BatchLoader | None = None,
    test: BatchLoader | None = None,
    *,
    settings: TrainSettings,
    callbacks: Iterable[Callback] = (),
) -> TrainingResult:
    """Train ``model`` on the batches of ``loader``; validate on ``valid`` after each epoch, on ``test`` at the end.

    Loaders stand at any place; the run puts them where it begins.

    Raises:
        UsageError, DataError, WeightFileError: before the first step, as far as it can be known then.
        NumericalError: the loss, or a weight at the end of an epoch, is not finite. Says where it began.
        InterruptedRun: Ctrl-C or a termination request; what is done is saved.
    """
    return Training(model, loader, valid, test, settings, callbacks).run()


class Training:
    """One run. `run` may be called once."""

    def __init__(
        self,
        model: Model,
        loader: BatchLoader,
        valid: BatchLoader | None,
        test: BatchLoader | None,
        settings: TrainSettings,
        callbacks: Iterable[Callback],
    ) -> None:
        if not model.trainable:
            raise UsageError("training needs a loss and an optimizer")
        self._started = time.perf_counter()
        self._model = model
        self._loader, self._valid, self._test = loader, valid, test
        self._settings = settings
        self._callbacks = CallbackList(callbacks)
        self._guard = InterruptGuard()
        self._compiled = model.compiled
        accumulation = model.spec.model.gradient_accumulation
        self._stepper = Stepper(self._compiled, model.learning_rate, loader.batch_size, accumulation)
        self._facts = RunFacts(
            model,
            settings.epochs,
            loader.batch_size,
            loader.batches_per_epoch,
            loader.samples_per_epoch,
            None if valid is None else valid.batches_per_epoch,
        )
        self._best = self._make_best()
        self._ended = ("epochs", "")
        self._test_figures: dict[str, float] | None = None
        self._epoch = 0  # complete ones

    def run(self) -> TrainingResult:
        """Train until an end."""
        with self._guard:
            self._prepare()
            failure: BaseException | None = None
            try:
                self._callbacks.train_begin(self._facts)
                self._epochs()
            except BaseException as error:
                failure = error
            finally:
                self._loader.close()
            result = self._finish(failure)
        if failure is not None:
            raise failure
        return result

    def _make_best(self) -> Best:
        settings = self._settings
        weights = self._model.weights() if settings.keeps_best else None
        return Best(settings.monitor, min_delta=settings.min_delta, patience=settings.patience, weights=weights)

    def _prepare(self) -> None:
        """Everything that can be known to go wrong is tried before the first step."""
        self._stepper.prepare(evaluation.sizes_of(self._loader))
        for loader in (self._valid, self._test):
            if loader is not None:
                evaluation.prepare(self._compiled, evaluation.sizes_of(loader))
        self._begin_counters()

    def _begin_counters(self) -> None:
        model, settings = self._model, self._settings
        counters = self._compiled.state.counters
        if settings.continue_train:
            if model.epoch == 0 and settings.save_path is not None and settings.save_path.is_file():
                model.load(settings.save_path)
        else:
            model.reset_training()
        counters[StepState.STEP] = counters[StepState.ITERATION]
        self._epoch = model.epoch
        self._facts.step = self._stepper.step_count
        self._facts.start_epoch = self._epoch + 1
        self._loader.seek(self._epoch)

    def _epochs(self) -> None:
        """The loop itself."""
        while self._epoch < self._settings.epochs and not self._stopping():
            epoch = self._epoch + 1
            began = time.perf_counter()
            self._callbacks.epoch_begin(self._facts, epoch)
            if not self._train_epoch(epoch, began):
                return
            self._epoch = self._model.epoch = epoch
            self._save_weights()
            row = self._row(epoch, began)
            if row is None:
                return
            self._close_epoch(row)
        if self._test is not None and not self._guard.signal:
            self._test_figures = self._evaluate(self._test, "test", 0)

    def _train_epoch(self, epoch: int, began: float) -> bool:
        """The steps of an epoch; False when the run is to stop inside it."""
        stepper, facts = self._stepper, self._facts
        place = self._loader.position.batch
        if not place:
            stepper.tally.clear()
        samples = self._loader.samples_per_epoch
        stepper.begin_epoch(None if samples is None else samples - stepper.tally.samples)
        for number, batch in enumerate(self._loader, place + 1):
            loss = self._step(epoch, batch)
            facts.step = stepper.step_count
            if facts.seconds_to_first_step is None:
                facts.seconds_to_first_step = time.perf_counter() - self._started
            report = BatchReport(
                epoch, number, facts.step, batch.count, stepper.tally.samples, loss, stepper.tally.loss,
                stepper.tally.metrics, stepper.learning_rate, time.perf_counter() - began,
            )  # fmt: skip
            self._callbacks.batch_end(facts, report)
            if stepper.between_updates and self._stopping():
                return self._loader.position.epoch == epoch
        stepper.finish_epoch()
        facts.step = stepper.step_count
        return True

    def _step(self, epoch: int, batch: Batch) -> float:
        try:
            return self._stepper.step(batch)
        except NumericalError as error:
            origin = find_origin(self._compiled, "train", batch, self._loader.dataset.where)
            step = self._stepper.step_count + 1
            raise NumericalError(f"epoch {epoch}, step {step}: {error.message}: {origin}") from None

    def _row(self, epoch: int, began: float) -> EpochRow | None:
        """The figures of the epoch with its validation; None when the run is to stop before they are whole."""
        tally = self._stepper.tally
        loss, metrics, samples = tally.loss, tally.metrics, tally.samples
        valid: dict[str, float] = {}
        if self._valid is not None:
            valid = self._evaluate(self._valid, "valid", epoch - 1)
        valid_loss = valid.pop("loss", None)
        return EpochRow(
            epoch, self._facts.step, loss, metrics, valid_loss, valid, self._stepper.learning_rate,
            time.perf_counter() - began, samples,
        )  # fmt: skip

    def _evaluate(self, loader: BatchLoader, use: str, epoch: int) -> dict[str, float]:
        loader.seek(epoch)
        try:
            return evaluation.evaluate_batches(
                self._compiled, loader, lambda batch: self._callbacks.evaluation_batch(self._facts, use, batch)
            )
        finally:
            loader.close()

    def _close_epoch(self, row: EpochRow) -> None:
        facts = self._facts
        self._check_weights(row.epoch)
        facts.history.append(row)
        better = self._best.consider(row)
        facts.best_epoch = self._best.epoch
        self._tell_schedule(row)
        self._callbacks.epoch_end(facts, row)
        if better and self._settings.save_best_path is not None and self._valid is not None:
            self._save(self._settings.save_best_path, "best weights")
        if self._best.exhausted:
            self._end(
                "early stopping",
                f"no better epoch than {self._best.epoch} in the last {self._best.waited}",
            )

    def _tell_schedule(self, row: EpochRow) -> None:
        schedule = self._model.spec.scheduler
        if schedule is not None:
            figures = {name: float(value) for name, value in row.columns().items() if value is not None}
            schedule.epoch_end(figures)  # type: ignore[attr-defined]

    def _check_weights(self, epoch: int) -> None:
        """A checkpoint or weight file never gets weights that are not finite."""
        for name, array in self._model.weights().items():
            if not all_finite(array):
                raise NumericalError(f"epoch {epoch}, step {self._facts.step}: the weight {name} is not finite")

    def _save_weights(self) -> None:
        if self._settings.save_path is not None:
            self._check_weights(self._epoch)
            self._save(self._settings.save_path, "weights")

    def _save(self, path: Path, what: str) -> None:
        with self._guard.saving():
            self._model.save(path, training_state=True)
        self._callbacks.saved(self._facts, what, path)

    def _end(self, ended: str, reason: str) -> None:
        if self._facts.stop_reason is None:
            self._ended = (ended, reason)
            self._facts.stop(reason)

    def _stopping(self) -> bool:
        return bool(self._guard.signal) or self._facts.stop_reason is not None

    def _finish(self, failure: BaseException | None) -> TrainingResult:
        """What holds however the run ended: best weights put back, callbacks told."""
        ended, reason = self._ended
        if failure is not None:
            ended = "not finite" if isinstance(failure, NumericalError) else "error"
            ended = "interrupted" if isinstance(failure, InterruptedRun) else ended
            reason = str(failure)
        facts = self._facts
        restored = self._best.put_back()
        result = TrainingResult(
            facts.history, ended, reason, self._epoch, facts.step, self._best.epoch, self._best.row, restored,
            self._test_figures, time.perf_counter() - self._started, facts.seconds_to_first_step,
        )  # fmt: skip
        self._callbacks.train_end(facts, result)
        return result
