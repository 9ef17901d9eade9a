"""A gradient against central differences of a function that is computed in float32.

Directions test the whole tensor: for signs d drawn at random, ``(f(x + h d) - f(x - h d)) / 2h`` against the sum of
``gradient * d``; over several directions the mean square of what is left is the square of the error's norm. Single
elements, those with the largest gradient and others at random, are tested beside. The step is not chosen beforehand: each
difference is taken with a ladder of steps, and where neighbouring steps agree best (too large ones suffer from curvature
and kinks, too small ones from rounding) stands the estimate, with their disagreement as its uncertainty. At a kink in the
very point, such as relu at 0, all steps agree, but the slopes to both sides do not; half their difference (what is left
of it as the step goes to 0) counts as uncertainty as well. The gradient has no part in all this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.training.gradient_check.report import Element, Verdict

Array = NDArray[Any]
Function = Callable[[Array], float]

#: multiples of a disagreement that an error must exceed beside the tolerance
_SURE = 4.0
#: what an uncertainty may be, relative to the tensor, where something is said to be right
_ROUGH = 0.1
#: gradients below this share of what the values themselves would suggest are zeros with rounding errors
_VANISHING = 1e-2


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is tried. ``steps`` fall, relative to the size of the tensor's values, each a quarter of the last."""

    directions: int = 4
    elements: int = 8
    steps: tuple[float, ...] = tuple(2.0**-k for k in (3, 5, 7, 9, 11, 13, 15))
    tolerance: float = 1e-3


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came out for one tensor, relative (see `TensorCheck`)."""

    verdict: Verdict
    error: float
    uncertainty: float
    element: Element | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Estimate:
    """Difference minus prediction at the best step, and how far its neighbours are from it."""

    residual: Array  # by direction
    expected: Array
    uncertainty: float
    step: float

    @property
    def error(self) -> float:
        return _rms(self.residual)


def compare(
    function: Function, base: Array, gradient: Array, natural: float, effort: Effort, rng: np.random.Generator
) -> Comparison:
    """Compare ``gradient`` with differences of ``function`` around ``base`` (float32, of the same shape).

    ``natural`` is how much the function would change if the tensor's values were doubled and nothing cancelled out; it
    says which gradients are zero but for rounding.
    """
    gradient = gradient.astype(np.float64).reshape(base.shape)
    if not np.isfinite(gradient).all():
        index = _unravel(int(np.flatnonzero(~np.isfinite(gradient))[0]), base.shape)
        known = _Tensor(function, base, np.zeros_like(gradient), natural, effort)
        expected = known.element(int(np.ravel_multi_index(index, base.shape))).expected[0] / known.scale
        element = Element(index, float(expected), float(gradient[index]))
        return Comparison(Verdict.FAILED, float("inf"), 0.0, element, "a value is not finite: was it never written?")
    tensor = _Tensor(function, base, gradient, natural, effort)
    whole = tensor.whole(rng)
    worst = tensor.worst_element(rng)
    if worst.verdict is Verdict.FAILED or whole.verdict is not Verdict.FAILED:
        found = worst if _rank(worst) > _rank(whole) else whole
        return Comparison(found.verdict, found.error, found.uncertainty, worst.element if found is worst else None)
    return Comparison(whole.verdict, whole.error, whole.uncertainty, tensor.search(rng))


def _rank(found: Comparison) -> tuple[int, float]:
    return [Verdict.PASSED, Verdict.UNCLEAR, Verdict.FAILED].index(found.verdict), found.error


class _Tensor:
    """One tensor and its function; displacements are in units of its values' root mean square (1 where all are 0)."""

    def __init__(self, function: Function, base: Array, gradient: Array, natural: float, effort: Effort) -> None:
        self.function = function
        self.base = base
        self.effort = effort
        self.gradient = gradient.reshape(-1)
        size = _rms(base.astype(np.float64))
        self.scale = size if size > 0.0 else 1.0
        self.norm = float(np.linalg.norm(self.gradient)) * self.scale
        self.least = max(_VANISHING * natural, np.finfo(np.float64).tiny)
        self.middle = function(base)

    def whole(self, rng: np.random.Generator) -> Comparison:
        """The directions; the error is relative to the norm of the gradient."""
        signs = [rng.integers(0, 2, self.gradient.size) * 2.0 - 1.0 for _ in range(self.effort.directions)]
        found = self._estimate(signs)
        return self._judged(found, max(self.norm, _rms(found.expected), self.least))

    def element(self, position: int) -> _Estimate:
        """The difference by one element."""
        direction = np.zeros(self.gradient.size)
        direction[position] = 1.0
        return self._estimate([direction])

    def worst_element(self, rng: np.random.Generator) -> Comparison:
        """The elements with the largest gradient and others at random: that which is off most."""
        count = min(self.effort.elements, self.gradient.size)
        largest = np.argsort(-np.abs(self.gradient), kind="stable")[: (count + 1) // 2]
        others = rng.permutation(np.setdiff1d(np.arange(self.gradient.size), largest))[: count - largest.size]
        found = [self._of_element(int(position)) for position in (*largest, *others)]
        return max(found, key=_rank, default=Comparison(Verdict.PASSED, 0.0, 0.0))

    def _of_element(self, position: int) -> Comparison:
        found = self.element(position)
        predicted = float(self.gradient[position])
        share = max(self.norm, self.least) / self.gradient.size**0.5
        judged = self._judged(found, max(abs(predicted) * self.scale, _rms(found.expected), share))
        index = _unravel(position, self.base.shape)
        element = Element(index, float(found.expected[0]) / self.scale, predicted)
        return Comparison(judged.verdict, judged.error, judged.uncertainty, element)

    def search(self, rng: np.random.Generator) -> Element | None:
        """An element that is wrong: of the halves of a direction, always that which is further off."""
        signs = rng.integers(0, 2, self.gradient.size) * 2.0 - 1.0
        step = self._estimate([signs]).step
        left, right = 0, self.gradient.size
        while right - left > 1:
            middle = (left + right) // 2
            off = []
            for start, stop in ((left, middle), (middle, right)):
                part = np.zeros_like(signs)
                part[start:stop] = signs[start:stop]
                off.append(abs(self._difference(part, step)[0]))
            left, right = (left, middle) if off[0] >= off[1] else (middle, right)
        return self._of_element(left).element

    def _judged(self, found: _Estimate, size: float) -> Comparison:
        error, uncertainty = found.error / size, found.uncertainty / size
        if not np.isfinite(uncertainty):
            return Comparison(Verdict.UNCLEAR, error, uncertainty)
        if error > self.effort.tolerance + _SURE * uncertainty:
            return Comparison(Verdict.FAILED, error, uncertainty)
        return Comparison(Verdict.UNCLEAR if _SURE * uncertainty > _ROUGH else Verdict.PASSED, error, uncertainty)

    def _estimate(self, directions: list[Array]) -> _Estimate:
        """Of the steps the one at which both neighbours agree best, for all directions together."""
        steps = self.effort.steps
        made = np.array([[self._difference(direction, step) for direction in directions] for step in steps])
        residual, expected, bend = made[:, :, 0], made[:, :, 1], made[:, :, 2]
        # inf - inf where the function is not finite: no agreement
        with np.errstate(invalid="ignore", over="ignore"):
            jumps = [_rms(residual[k + 1] - residual[k]) for k in range(len(steps) - 1)]
            # of a smooth function the bend falls with the step, so that this is 0
            kinks = [_rms((4.0 * bend[k + 1] - bend[k]) / 3.0) for k in range(len(steps) - 1)]
        around = [float(np.max([jumps[k - 1], jumps[k], kinks[k]])) for k in range(1, len(steps) - 1)]
        best = 1 + int(np.argmin([value if np.isfinite(value) else np.inf for value in around]))
        uncertainty = around[best - 1]
        if not np.isfinite(uncertainty):
            return _Estimate(np.zeros(len(directions)), np.zeros(len(directions)), float("inf"), steps[best])
        return _Estimate(residual[best], expected[best], uncertainty, steps[best])

    def _difference(self, direction: Array, step: float) -> tuple[float, float, float]:
        """Difference minus prediction, the difference, and half that of the slopes to both sides, for one step.

        All for the displacement that float32 allows.
        """
        moved = (step * self.scale * direction).reshape(self.base.shape)
        above, below = (self.base + moved).astype(np.float32), (self.base - moved).astype(np.float32)
        up, down = self.function(above) - self.middle, self.function(below) - self.middle
        change = up - down
        displacement = above.astype(np.float64).reshape(-1) - below.astype(np.float64).reshape(-1)
        predicted = float(self.gradient @ displacement)
        return (change - predicted) / (2.0 * step), change / (2.0 * step), (up + down) / (2.0 * step)


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0


def _unravel(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(place) for place in np.unravel_index(position, shape))
