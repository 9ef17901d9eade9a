"""What a run writes, and when: weights after every epoch, the best weights, checkpoints; and going on from one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nntrainer_py.data.loader import BatchLoader
from nntrainer_py.errors import NumericalError, counted
from nntrainer_py.formats.atomic import remove_stale
from nntrainer_py.training import checkpoint
from nntrainer_py.training.best import Best
from nntrainer_py.training.callbacks import Callback, RunFacts
from nntrainer_py.training.diagnosis import all_finite
from nntrainer_py.training.interrupt import InterruptGuard
from nntrainer_py.training.preflight import check_writable
from nntrainer_py.training.run_lock import RunLock
from nntrainer_py.training.settings import TrainSettings
from nntrainer_py.training.tally import Tally
from nntrainer_py.training.trainee import Trainee

#: bytes of header and JSON that a checkpoint may have besides its tensors, for the check of the free space
_SPARE = 1 << 20
_MOST_NAMES = 1000


class Saving:
    """The files of one run.

    Args:
        told: callbacks that hear of every file that is safe on disk.
    """

    def __init__(
        self, model: Trainee, settings: TrainSettings, facts: RunFacts, guard: InterruptGuard, told: Callback
    ) -> None:
        self._model = model
        self._settings = settings
        self._facts = facts
        self._guard = guard
        self._told = told
        self._last_step = 0
        self._last_time = time.monotonic()
        self._place: tuple[int, int, bool] | None = None  # of the last checkpoint

    @contextlib.contextmanager
    def folder(self) -> Iterator[None]:
        """Hold the folder of the checkpoint, without what an earlier run that was killed left there."""
        path = self._settings.checkpoint
        if path is None or not path.parent.is_dir():
            yield
            return
        with RunLock(path.parent):
            remove_stale(path.parent)
            yield

    def check(self, loader: BatchLoader) -> None:
        """Find out before the first step what cannot be written (WeightFileError)."""
        settings, model = self._settings, self._model
        weights = sum(array.nbytes for array in model.weights().values())
        state = sum(array.nbytes for array in model.compiled.optimizer_state(model.lowered("train")).values())
        for path in (settings.save_path, settings.save_best_path):
            if path is not None:
                check_writable(path, weights + state)
                remove_stale(path.parent)
        if settings.checkpoint is not None:
            best = weights if settings.keeps_best else 0
            check_writable(settings.checkpoint, weights + state + best + _SPARE)
        self._run = self._identity(loader)

    def resume(self, best: Best, tally: Tally) -> checkpoint.Progress:
        """Go on from the checkpoint: weights, optimizer, counters, schedule, best epoch, history, figures."""
        assert self._settings.checkpoint is not None
        model = self._model
        progress, kept = checkpoint.restore(self._settings.checkpoint, model, self._run, best.weights)
        best.restore(progress.best, kept)
        tally.restore(progress.tally)
        self._facts.history = progress.history
        if model.spec.scheduler is not None:
            model.spec.scheduler.load_state(progress.schedule)  # type: ignore[attr-defined]
        self._place = (progress.epoch, progress.batch, progress.validated)
        return progress

    def begin(self, step: int) -> None:
        """The first step of this process comes next."""
        self._last_step, self._last_time = step, time.monotonic()

    def weights(self) -> None:
        """After the training part of an epoch (NNTrainer's save_path)."""
        if self._settings.save_path is not None:
            self.check_weights()
            self._bin(self._settings.save_path, "weights")

    def best_weights(self) -> None:
        """When the validation got better (NNTrainer's save_best_path)."""
        if self._settings.save_best_path is not None:
            self._bin(self._settings.save_best_path, "best weights")

    @property
    def due(self) -> bool:
        """A checkpoint is to be made inside the epoch."""
        settings = self._settings
        if settings.checkpoint is None:
            return False
        steps, seconds = settings.checkpoint_steps, settings.checkpoint_seconds
        return (steps is not None and self._facts.step - self._last_step >= steps) or (
            seconds is not None and time.monotonic() - self._last_time >= seconds
        )

    def checkpoint(self, epoch: int, batch: int, validated: bool, best: Best, tally: Tally, seconds: float) -> bool:
        """Write a checkpoint of this place, unless the last one is of the same; whether there is one now."""
        path, model = self._settings.checkpoint, self._model
        if path is None:
            return False
        place = (epoch, batch, validated)
        if place == self._place:
            return True
        self.check_weights()
        scheduler = model.spec.scheduler
        progress = checkpoint.Progress(
            epoch, batch, validated, self._run, tally.state(), seconds, self._facts.history, best.state(),
            {} if scheduler is None else scheduler.state(),  # type: ignore[attr-defined]
        )  # fmt: skip
        with self._guard.saving():
            checkpoint.save(path, model, progress, best.weights if best.row is not None else None)
        self._place = place
        self.begin(self._facts.step)
        return True

    def tell(self) -> None:
        """Let the callbacks know of the checkpoint just made."""
        if self._settings.checkpoint is not None:
            self._told.saved(self._facts, "checkpoint", self._settings.checkpoint)

    def check_weights(self) -> None:
        """NumericalError when a weight is not finite: no file ever gets such weights."""
        for name, array in self._model.weights().items():
            if not all_finite(array):
                raise NumericalError(f"after step {self._facts.step}: the weight {name} is not finite")

    def _bin(self, path: Path, what: str) -> None:
        with self._guard.saving():
            self._model.save(path, training_state=True)
        self._told.saved(self._facts, what, path)

    def _identity(self, loader: BatchLoader) -> dict[str, Any]:
        """What must stay the same for a resumed run to give the same numbers."""
        spec = self._model.spec
        scheduler = spec.scheduler
        return {
            "seed": self._model.compiled.options.seed,
            "batch_size": loader.batch_size,
            "samples_per_epoch": loader.samples_per_epoch,
            "gradient_accumulation": spec.model.gradient_accumulation,
            "optimizer": None if spec.optimizer is None else spec.optimizer.keyword,
            "schedule": None if scheduler is None else scheduler.keyword,
            "input_columns": _told(self._model.feature_names),
        }


def _told(names: Sequence[str] | None) -> list[str] | str | None:
    """Names that a message shows; of many their number and a hash, which say whether they are the same."""
    if names is None or len(names) <= _MOST_NAMES:
        return None if names is None else list(names)
    digest = hashlib.blake2b(json.dumps(names).encode(), digest_size=8).hexdigest()
    return f"{counted(len(names), 'name')} (hash {digest})"
