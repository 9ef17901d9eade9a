"""The figures of an epoch, gathered batch by batch and weighted by the number of samples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nntrainer_py.graph import figures
from nntrainer_py.graph.lower import Lowered
from nntrainer_py.training.engine import Program


class Tally:
    """Sums in float64. A short batch counts for the samples in it; penalties of the weights count once a batch.

    Args:
        lowered: of any batch size; says which figures there are.

    Attributes:
        names: of the metrics.
    """

    def __init__(self, lowered: Lowered) -> None:
        self.names = figures.names(lowered.metrics)
        self._penalties = sum(operation.kind.name == "l2_loss" for operation in lowered.operations)
        self.clear()

    def clear(self) -> None:
        """Start again."""
        self.samples = 0
        self._loss = 0.0
        self._correct = 0.0
        self._sums = [0.0, 0.0, 0.0, 0.0]
        self._elements = 0

    def add(self, program: Program, count: int, divisor: float) -> float:
        """Add the batch that ``program`` just ran; ``divisor`` is what its losses were divided by.

        Returns:
            The loss of this batch as a mean over its own ``count`` samples, penalties included.
        """
        own = len(program.losses) - self._penalties
        loss = 0.0
        for array in program.losses[:own]:
            loss += float(array[0])
        if divisor != count:
            loss *= divisor / count
        for array in program.losses[own:]:
            loss += float(array[0])
        self.samples += count
        self._loss += loss * count
        if figures.CORRECT in program.metrics:
            self._correct += float(program.metrics[figures.CORRECT][0])
        elif figures.REGRESSION in program.metrics:
            for place, value in enumerate(program.metrics[figures.REGRESSION]):
                self._sums[place] += float(value)
            self._elements += program.labels[0].size
        return loss

    @property
    def loss(self) -> float:
        """Mean over the samples so far; 0 before the first."""
        return self._loss / self.samples if self.samples else 0.0

    @property
    def metrics(self) -> dict[str, float]:
        """``accuracy`` as a fraction, or ``mae`` and ``r2``; empty before the first sample.

        ``r2 = 1 - sum((y - t)**2) / sum((t - mean(t))**2)`` over all elements; for labels that never differ 1 when
        every prediction is exact and 0 otherwise (as scikit-learn has it).
        """
        if not self.samples or not self.names:
            return {}
        if self.names == ("accuracy",):
            return {"accuracy": self._correct / self.samples}
        absolute, squares, total, total_squares = self._sums
        spread = total_squares - total * total / self._elements
        # below this the spread is only the rounding of the sums
        if spread <= 1e-15 * self._elements * max(total_squares / self._elements, 1e-300):
            r2 = 1.0 if squares == 0.0 else 0.0
        else:
            r2 = 1.0 - squares / spread
        return {"mae": absolute / self._elements, "r2": r2}

    def state(self) -> dict[str, Any]:
        """Plain numbers for a checkpoint inside an epoch."""
        return {
            "samples": self.samples,
            "loss": self._loss,
            "correct": self._correct,
            "sums": list(self._sums),
            "elements": self._elements,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.samples = int(state["samples"])
        self._loss = float(state["loss"])
        self._correct = float(state["correct"])
        self._sums = [float(value) for value in state["sums"]]
        self._elements = int(state["elements"])
