"""What a memory plan costs in time: predicted before the run, and measured in it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nntrainer_py.data.loader import BatchLoader
    from nntrainer_py.model import Model
    from nntrainer_py.training.engine import MeasuredCost


@dataclass(frozen=True, slots=True)
class StepCost:
    """Time of a training step that recomputes or swaps.

    ``predicted`` is the time of a step over that of one without both, by the estimates of the operations; ``measured``
    the same by a clock around each operation of one of the first steps, which took ``seconds``, of them
    ``recomputing`` and ``swapping``. These are None while no step was measured.
    """

    predicted: float
    measured: float | None = None
    seconds: float | None = None
    recomputing: float | None = None
    swapping: float | None = None

    def as_record(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        if self.measured is None or self.seconds is None:
            return f"predicted {self.predicted:.2f} times a step without recomputing and swapping; too short to measure"
        parts = [
            f"{word} {1e3 * taken:.3g} ms"
            for word, taken in (("recomputing", self.recomputing), ("swapping", self.swapping))
            if taken
        ]
        return (
            f"{self.measured:.2f} times a step without recomputing and swapping (predicted {self.predicted:.2f}); "
            f"measured in one of {1e3 * self.seconds:.3g} ms{': ' if parts else ''}{', '.join(parts)}"
        )


def step_cost(model: Model, loader: BatchLoader) -> StepCost | None:
    """The cost of the largest training step of the run that was measured; None where nothing is paid for memory."""
    from nntrainer_py.training.evaluation import sizes_of
    from nntrainer_py.training.micro_batches import piece_sizes

    compiled = model.compiled
    sizes = sorted(set(piece_sizes(sizes_of(loader), compiled.options.micro_batch)), reverse=True)
    costly = [size for size in sizes if compiled.memory("train", size).report.moves]
    if not costly:
        return None
    measured = {size: cost for size in costly if (cost := compiled.measured_cost("train", size)) is not None}
    size = next(iter(measured), costly[0])
    return _step_cost(compiled.memory("train", size).report.predicted_slowdown, measured.get(size))


def _step_cost(predicted: float, cost: MeasuredCost | None) -> StepCost:
    if cost is None:
        return StepCost(predicted)
    return StepCost(predicted, cost.slowdown, cost.total, cost.recomputed, cost.swapped)
