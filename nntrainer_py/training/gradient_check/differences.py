"""A gradient against central differences of a function that is computed in float32.

Directions test the whole tensor: for signs d drawn at random, ``(f(x + h d) - f(x - h d)) / 2h`` against the sum of
``gradient * d``; over several directions the mean square of what is left is the square of the error's norm. Single
elements, those with the largest gradient and others at random, are tested beside.

The step is not chosen beforehand: each difference is taken with a ladder of steps, and where neighbouring steps agree
best (too large ones suffer from curvature and kinks, too small ones from rounding) stands the estimate, with their
disagreement as its uncertainty. At a kink in the very point, such as relu at 0, all steps agree, but the slopes to both
sides do not; half their difference (what is left of it as the step goes to 0) counts as uncertainty as well. The
gradient has no part in all this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.training.gradient_check.report import SURE, Element, Verdict

Array = NDArray[Any]
Function = Callable[[Array], float]

#: what an uncertainty may be, relative to the tensor, where something is said to be right
_ROUGH = 0.1
#: searches for an element that is wrong
_SEARCHES = 3
#: of the tolerance: an agreement that needs no smaller steps
_ENOUGH = 0.05
#: gradients below this share of what the values themselves would suggest are zeros with rounding errors
_VANISHING = 1e-2

_NO_ELEMENT = (
    "random directions are off, but no single element that was found: many kinks, or an error near the tolerance"
)
_ALONG = "compared along the signs of the gradient; in other directions kinks leave too much open"


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is tried. ``steps`` fall, relative to the size of the tensor's values, each a quarter of the last."""

    directions: int = 4
    elements: int = 8
    steps: tuple[float, ...] = tuple(2.0**-k for k in (3, 5, 7, 9, 11, 13, 15, 17, 19))
    tolerance: float = 1e-3


@dataclass(frozen=True, slots=True)
class Scales:
    """What a function's values tell of its differences.

    ``natural`` is how much the function would change if the tensor's values were doubled and nothing cancelled out; it
    says which gradients are zero but for rounding. ``quantum`` is the size of one rounding error in it: differences of
    a few such steps may agree by chance. ``still`` is what a gradient is compared with where the function does not
    change at all, so that what is left of a zero by rounding is none (a normalization over a single value).
    """

    natural: float
    quantum: float
    still: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """What came out for one tensor, relative (see `TensorCheck`)."""

    verdict: Verdict
    error: float
    uncertainty: float
    element: Element | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Direction:
    """Signs of the elements from ``start`` on; the others stay."""

    start: int
    signs: Array

    @property
    def where(self) -> slice:
        return slice(self.start, self.start + self.signs.size)


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
    function: Function, base: Array, gradient: Array, scales: Scales, effort: Effort, rng: np.random.Generator
) -> Comparison:
    """Compare ``gradient`` with differences of ``function`` around ``base`` (float32, of the same shape)."""
    gradient = gradient.astype(np.float64).reshape(base.shape)
    if not np.isfinite(gradient).all():
        index = _unravel(int(np.flatnonzero(~np.isfinite(gradient))[0]), base.shape)
        known = _Tensor(function, base, np.zeros_like(gradient), scales, effort)
        there = known.element(int(np.ravel_multi_index(index, base.shape))).element
        element = None if there is None else replace(there, found=float(gradient[index]))
        return Comparison(Verdict.FAILED, float("inf"), 0.0, element, "a value is not finite: was it never written?")
    return _Tensor(function, base, gradient, scales, effort).compared(rng)


class _Tensor:
    """One tensor and its function; displacements are in units of its values' root mean square (1 where all are 0)."""

    def __init__(self, function: Function, base: Array, gradient: Array, scales: Scales, effort: Effort) -> None:
        self.function = function
        self.base = base
        self.effort = effort
        self.gradient = gradient.reshape(-1)
        size = _rms(base.astype(np.float64))
        self.scale = size if size > 0.0 else 1.0
        self.norm = float(np.linalg.norm(self.gradient)) * self.scale
        self.least = max(_VANISHING * scales.natural, np.finfo(np.float64).tiny)
        self.quantum, self.still = scales.quantum, scales.still
        self.middle = function(base)

    def compared(self, rng: np.random.Generator) -> Comparison:
        """Directions and elements together; what fails in either fails."""
        whole = self.whole(rng)
        if whole.verdict is Verdict.UNCLEAR:
            whole = self.along() or whole
        failed = [found for found in self.elements(rng) if found.verdict is Verdict.FAILED]
        if failed:
            return max(failed, key=lambda found: found.error)
        return self.confirmed(whole, rng) if whole.verdict is Verdict.FAILED else whole

    def confirmed(self, whole: Comparison, rng: np.random.Generator) -> Comparison:
        """A failure with an element that fails by itself; without any it is none.

        Kinks of many elements may cancel out in what tells of kinks, but not in what is left of the difference.
        """
        for _ in range(_SEARCHES):
            found = self.search(rng)
            if found.verdict is Verdict.FAILED:
                return replace(whole, element=found.element)
        return replace(whole, verdict=Verdict.UNCLEAR, reason=_NO_ELEMENT)

    def whole(self, rng: np.random.Generator) -> Comparison:
        """The directions; the error is relative to the norm of the gradient."""
        directions = [_Direction(0, self._signs(rng)) for _ in range(self.effort.directions)]
        found = self._estimate(directions, max(self.norm, self.least))
        return self._judged(found, max(self.norm, _rms(found.expected), self.least))

    def along(self) -> Comparison | None:
        """The direction of the gradient's signs, in which the change is largest, so that kinks hide least of it."""
        direction = _Direction(0, np.where(self.gradient < 0.0, -1.0, 1.0))
        size = float(np.abs(self.gradient).sum()) * self.scale
        if size <= self.least:
            return None
        found = self._estimate([direction], max(size, self.least))
        judged = self._judged(found, max(size, _rms(found.expected), self.least))
        return None if judged.verdict is Verdict.UNCLEAR else replace(judged, reason=_ALONG)

    def elements(self, rng: np.random.Generator) -> list[Comparison]:
        """Those with the largest gradient, and others at random."""
        count = min(self.effort.elements, self.gradient.size)
        half = (count + 1) // 2
        largest = np.argpartition(-np.abs(self.gradient), max(half - 1, 0))[:half].tolist()
        others = [
            place for place in rng.choice(self.gradient.size, count, replace=False).tolist() if place not in largest
        ]
        return [self.element(position) for position in (largest + others)[:count]]

    def element(self, position: int) -> Comparison:
        """One element; the error is relative to the gradient there, or to an average one where that is more."""
        direction = _Direction(position, np.ones(1))
        predicted = float(self.gradient[position])
        size = max(abs(predicted) * self.scale, max(self.norm, self.least) / self.gradient.size**0.5)
        found = self._estimate([direction], size)
        judged = self._judged(found, max(size, _rms(found.expected)))
        index = _unravel(position, self.base.shape)
        return replace(judged, element=Element(index, float(found.expected[0]) / self.scale, predicted))

    def search(self, rng: np.random.Generator) -> Comparison:
        """An element that is wrong: of the halves of a direction, always that which is further off."""
        signs = self._signs(rng)
        step = self._estimate([_Direction(0, signs)], max(self.norm, self.least)).step
        left, right = 0, self.gradient.size
        while right - left > 1:
            middle = (left + right) // 2
            off = []
            for start, stop in ((left, middle), (middle, right)):
                off.append(abs(self._difference(_Direction(start, signs[start:stop]), step)[0]))
            left, right = (left, middle) if off[0] >= off[1] else (middle, right)
        return self.element(left)

    def _judged(self, found: _Estimate, size: float) -> Comparison:
        if not found.expected.any():
            size = max(size, self.still)
        error, uncertainty = found.error / size, found.uncertainty / size
        if not np.isfinite(uncertainty):
            return Comparison(Verdict.UNCLEAR, error, uncertainty)
        # a difference that is not known itself, as beside a singularity, convicts nobody
        known = found.uncertainty <= max(_ROUGH * _rms(found.expected), self.least)
        if known and error > self.effort.tolerance + SURE * uncertainty:
            return Comparison(Verdict.FAILED, error, uncertainty)
        rough = not known or SURE * uncertainty > _ROUGH
        return Comparison(Verdict.UNCLEAR if rough else Verdict.PASSED, error, uncertainty)

    def _estimate(self, directions: list[_Direction], size: float) -> _Estimate:
        """Of the steps the one at which both neighbours agree best, for all directions together.

        Smaller steps are not tried once the agreement is far below the tolerance of ``size``.
        """
        made: list[list[tuple[float, float, float]]] = []
        best, uncertainty = 1, float("inf")
        for step in self.effort.steps:
            made.append([self._difference(direction, step) for direction in directions])
            if len(made) < 3:
                continue
            around = max(_disagreement(np.array(made[-3:])), self.quantum / (2.0 * self.effort.steps[len(made) - 2]))
            if around < uncertainty:
                best, uncertainty = len(made) - 2, around
            if uncertainty < _ENOUGH * self.effort.tolerance * size:
                break
        step = self.effort.steps[best]
        if not np.isfinite(uncertainty):
            return _Estimate(np.zeros(len(directions)), np.zeros(len(directions)), float("inf"), step)
        chosen = np.array(made[best])
        return _Estimate(chosen[:, 0], chosen[:, 1], uncertainty, step)

    def _signs(self, rng: np.random.Generator) -> Array:
        return rng.integers(0, 2, self.gradient.size) * 2.0 - 1.0

    def _difference(self, direction: _Direction, step: float) -> tuple[float, float, float]:
        """Difference minus prediction, the difference, and half that of the slopes to both sides, for one step.

        All for the displacement that float32 allows.
        """
        where, moved = direction.where, step * self.scale * direction.signs
        above, below = self.base.reshape(-1).copy(), self.base.reshape(-1).copy()
        above[where] = above[where] + moved
        below[where] = below[where] - moved
        up = self.function(above.reshape(self.base.shape)) - self.middle
        down = self.function(below.reshape(self.base.shape)) - self.middle
        displacement = above[where].astype(np.float64) - below[where]
        change, predicted = up - down, float(self.gradient[where] @ displacement)
        return (change - predicted) / (2.0 * step), change / (2.0 * step), (up + down) / (2.0 * step)


def _disagreement(three: Array) -> float:
    """How far the middle one of three steps is from its neighbours, or the slopes to both sides from each other."""
    # inf - inf where the function is not finite: no agreement
    with np.errstate(invalid="ignore", over="ignore"):
        larger, smaller = _rms(three[1, :, 0] - three[0, :, 0]), _rms(three[2, :, 0] - three[1, :, 0])
        # of a smooth function the bend falls with the step, so that this is 0
        kink = _rms((4.0 * three[2, :, 2] - three[1, :, 2]) / 3.0)
    found = max(larger, smaller, kink)
    return found if np.isfinite(larger + smaller + kink) else float("inf")


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values.size else 0.0


def _unravel(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(place) for place in np.unravel_index(position, shape))
