"""The best epoch so far: which it is, its weights, and how long ago it was."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from nntrainer_py.errors import UsageError, did_you_mean
from nntrainer_py.training.copies import Copies
from nntrainer_py.training.history import EpochRow

#: figures of which more is better
_RISING = ("accuracy", "r2")
_FIGURES = ("loss", "accuracy", "mae", "r2")


class Best:
    """Compares epochs.

    Args:
        monitor: name of a column of the history. None is NNTrainer's rule: the validation accuracy rises, or is equal
            and the validation loss is lower; without an accuracy the validation loss is lower; without validation the
            training loss is.
        min_delta: what counts as better must be better by more than this.
        patience: epochs without a better one after which `exhausted` is true; None never.
        copies: where the weights of the best epoch are kept; None: nowhere.
    """

    def __init__(
        self,
        monitor: str | None = None,
        *,
        min_delta: float = 0.0,
        patience: int | None = None,
        copies: Copies | None = None,
    ) -> None:
        if monitor is not None and monitor.removeprefix("valid_") not in _FIGURES:
            known = [*_FIGURES, *(f"valid_{name}" for name in _FIGURES)]
            hint = did_you_mean(monitor, known)
            raise UsageError(f"monitor: expected one of {', '.join(known)}, got '{monitor}'{hint}")
        if patience is not None and patience < 1:
            raise UsageError(f"patience: expected 1 or more epochs, got {patience}")
        if not min_delta >= 0.0:
            raise UsageError(f"min_delta: expected 0 or more, got {min_delta}")
        self.monitor = monitor
        self._min_delta = min_delta
        self._patience = patience
        self._copies = copies
        self.row: EpochRow | None = None
        self.waited = 0

    @property
    def weights(self) -> dict[str, NDArray[Any]] | None:
        """Room for the weights of the best epoch, which it holds when there is one; None where they are not kept."""
        return None if self._copies is None else self._copies.arrays

    @property
    def epoch(self) -> int:
        """The best epoch, 0 before the first."""
        return 0 if self.row is None else self.row.epoch

    @property
    def exhausted(self) -> bool:
        """The patience has come to its end."""
        return self._patience is not None and self.waited >= self._patience

    def consider(self, row: EpochRow) -> bool:
        """Look at an epoch that is done; whether it is the best so far. Its weights are then kept."""
        if not self._better(row):
            self.waited += 1
            return False
        self.row, self.waited = row, 0
        if self._copies is not None:
            self._copies.take()
        return True

    def put_back(self) -> bool:
        """Give the model the weights of the best epoch; False where there are none."""
        if self.row is None or self._copies is None:
            return False
        self._copies.put_back()
        return True

    def _better(self, row: EpochRow) -> bool:
        figures = self._figures(row)
        if not all(math.isfinite(value) for value in figures):
            return False
        if self.row is None:
            return True
        for new, old in zip(figures, self._figures(self.row), strict=True):
            if new > old + self._min_delta:
                return True
            if new != old:
                return False
        return False

    def _figures(self, row: EpochRow) -> tuple[float, ...]:
        """What is compared, first things first; more is better."""
        if self.monitor is not None:
            value = row.figure(self.monitor)
            if value is None:
                raise UsageError(f"monitor: {self.monitor} is not among this run's figures: {', '.join(row.columns())}")
            return (value if self.monitor.removeprefix("valid_") in _RISING else -value,)
        if row.valid_loss is None:
            return (-row.loss,)
        if "accuracy" in row.valid_metrics:
            return row.valid_metrics["accuracy"], -row.valid_loss
        return (-row.valid_loss,)

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint; the weights are `weights`."""
        return {"row": None if self.row is None else self.row.as_record(), "waited": self.waited}

    def restore(self, state: Mapping[str, Any], kept: bool) -> None:
        """Go on from what `state` gave; ``kept``: `weights` holds those of the best epoch again."""
        self.row = None if state["row"] is None else EpochRow(**state["row"])
        self.waited = int(state["waited"])
        if self._copies is not None and not kept:
            self.row = None  # the run before kept no best weights: begin anew
            self.waited = 0
