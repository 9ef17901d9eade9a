"""What a run is asked to do, beside its model and data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from operator import index
from pathlib import Path
from typing import SupportsIndex

from nntrainer_py.errors import UsageError, printable
from nntrainer_py.formats.names import save_fault

#: fields that name a file
PATHS = ("save_path", "save_best_path", "checkpoint")


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """Settings of `nntrainer_py.training.loop.train`; paths may also be given as text.

    Attributes:
        epochs: the total; a resumed or continued run counts those done before.
        save_path: weights as .bin after the training part of every epoch (NNTrainer's meaning).
        save_best_path: weights as .bin whenever the validation gets better (NNTrainer's meaning).
        continue_train: keep epoch, iteration and optimizer state that the model has (or that are in ``save_path``
            when the model is new); otherwise they start from zero. Weights always stay.
        monitor: the figure that says which epoch is best, see `Best`.
        min_delta: how much better it must be.
        patience: stop after so many epochs without a better one.
        restore_best: end with the weights of the best epoch, however the run ends. None: when ``patience`` is given.
        checkpoint: file from which the run can be resumed, written after every epoch and when the run is interrupted.
        checkpoint_steps: also after every so many updates.
        checkpoint_seconds: also when so many seconds have passed since the last one.
        resume: go on from ``checkpoint``, bit for bit as if the run had never stopped.
    """

    epochs: int
    save_path: Path | None = None
    save_best_path: Path | None = None
    continue_train: bool = False
    monitor: str | None = None
    min_delta: float = 0.0
    patience: int | None = None
    restore_best: bool | None = None
    checkpoint: Path | None = None
    checkpoint_steps: int | None = None
    checkpoint_seconds: float | None = None
    resume: bool = False

    def __post_init__(self) -> None:
        for name in PATHS:
            given: str | os.PathLike[str] | None = getattr(self, name)
            if given is not None:
                object.__setattr__(self, name, Path(given))
                fault = save_fault(given) if name != "checkpoint" else ""
                if fault:
                    raise UsageError(f"{printable(os.fspath(given))}: {fault}", key=name)
        whole("epochs", self.epochs, 0, least=0)
        whole("checkpoint_steps", self.checkpoint_steps, 0)
        if self.checkpoint_seconds is not None and not self.checkpoint_seconds > 0:
            raise UsageError(f"checkpoint_seconds: expected more than 0, got {self.checkpoint_seconds}")
        if self.resume and self.checkpoint is None:
            raise UsageError("resume needs the checkpoint to go on from")

    @property
    def keeps_best(self) -> bool:
        """The weights of the best epoch are put back at the end."""
        return self.patience is not None if self.restore_best is None else self.restore_best


def whole(name: str, value: object, default: int, least: int = 1) -> int:
    """A setting that counts something, or ``default`` for None; UsageError for anything but a large enough integer."""
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, SupportsIndex) or index(value) < least:
        raise UsageError(f"{name}: expected an integer of at least {least}, got {value!r}")
    return index(value)
