"""Labels of cross entropies: the test whether they can be right, and the targets that they stand for.

Labels are matrices whose rows are the width of a tensor: probabilities of the classes (one-hot or soft), or one class
number per row (``indices``). A label that is no number of a class, not a number, negative, or in a row that does not
sum to 1 is found before it is used as an index; its sample's number and value are left for the engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import Kernel, inlined, kernel, variant
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.loss import total
from nntrainer_py.tensor.kernels.shares import share

Array = npt.NDArray[Any]
f32 = np.float32
SAMPLES, LOSS_SCALE, WRONG = 1, 2, 3  # places in StepState.numbers
CODE, DETAIL = 0, 1  # places in StepState.status
LABEL_OUT_OF_RANGE = 1
SUM_TOLERANCE = 1e-3
NEGATIVE_TOLERANCE = -1e-6
BAD = -np.inf  # in ``sums``: the label of the row is wrong


@kernel()
def valid_index(label: float, classes: int) -> bool:
    """A class index: integral and within 0 .. classes - 1; NaN is none."""
    return label >= 0.0 and label < classes and label == math.floor(label)


@kernel()
def row_mass(t: Array, row: int) -> float:
    """The sum of a row in float64."""
    mass = 0.0
    for j in range(t.shape[1]):
        mass += np.float64(t[row, j])
    return mass


@kernel()
def valid_distribution(t: Array, row: int) -> bool:
    """No negative entry, and a sum of 1; NaN and infinity fail the sum."""
    bad = 0
    for j in range(t.shape[1]):
        bad += 1 if t[row, j] < f32(NEGATIVE_TOLERANCE) else 0
    return bool(bad == 0 and abs(row_mass(t, row) - 1.0) <= SUM_TOLERANCE)


@kernel()
def valid_probabilities(t: Array, row: int) -> bool:
    """Every entry within 0 .. 1; NaN is not."""
    bad = 0
    for j in range(t.shape[1]):
        bad += 0 if (t[row, j] >= f32(NEGATIVE_TOLERANCE)) & (t[row, j] <= f32(1.0 + SUM_TOLERANCE)) else 1
    return bad == 0


@kernel()
def wrong_value(t: Array, row: int, indices: bool) -> float:
    """What is wrong with a label: the class number, the first entry outside 0 .. 1, or the sum of the row."""
    for j in range(1 if indices else t.shape[1]):
        inside = t[row, j] >= NEGATIVE_TOLERANCE and t[row, j] <= 1.0 + SUM_TOLERANCE
        if indices or not inside:
            return float(t[row, j])
    return row_mass(t, row)


@kernel()
def finish(
    sums: Array, t: Array, indices: bool, divisor: float, rows: int, numbers: Array, status: Array, loss: Array
) -> None:
    """Report the first bad row as its sample (``rows`` rows each), and add up the losses."""
    for i in range(sums.size):
        if sums[i] == BAD:
            if status[CODE] == 0:
                status[CODE], status[DETAIL] = LABEL_OUT_OF_RANGE, i // rows
                numbers[WRONG] = wrong_value(t, i, indices)
            break
    total(sums, divisor, loss)


@kernel()
def target(label: float, weights: Array, j: int, smoothing: float, share: float) -> float:
    """Weighted and smoothed target of class ``j``."""
    value = label + smoothing * (share - label)
    return value * weights[j] if weights.size > 0 else value


@kernel()
def label_of(t: Array, row: int, j: int, indices: bool, k: int) -> float:
    """The label of class ``j`` in float64, where ``k`` is the class that an index names."""
    return float((1.0 if j == k else 0.0) if indices else np.float64(t[row, j]))


def label_loss(formula: Callable[..., Any], per_element: bool = False) -> Kernel[..., None]:
    """Decorator for the loss of row ``i``, which also fills that row of ``out``; the kernel does all of them.

    The sum is divided by the samples, of ``rows`` rows each, and ``per_element`` by the elements of a sample too.
    """
    of = inlined(formula)

    def body(
        part: int, parts: int, x: Array, t: Array, indices: bool, weights: Array, parameter: float,
        out: Array | None, sums: Array,
    ) -> None:  # fmt: skip
        result = x if out is None else out
        first, last = share(part, parts, x.shape[0], 1)
        for i in range(first, last):
            sums[i] = of(x, t, indices, weights, parameter, i, result)

    one = variant(body, formula, f"{formula.__name__}_part")

    def whole(
        x: Array, t: Array, indices: bool, weights: Array, parameter: float, factor: float, numbers: Array,
        status: Array, rows: int, out: Array | None, sums: Array, loss: Array, parts: int,
    ) -> None:  # fmt: skip
        fork_join(one, parts, (x, t, indices, weights, parameter, out, sums))
        count = rows * x.shape[1] if per_element else 1
        finish(sums, t, indices, numbers[SAMPLES] * count / factor, rows, numbers, status, loss)

    return variant(whole, formula, formula.__name__, forks=True)


def label_derivative(formula: Callable[..., None]) -> Kernel[..., None]:
    """Decorator for the derivative of row ``i`` times ``scale`` (float64), into that row of ``out``."""
    of = inlined(formula)

    def body(
        part: int, parts: int, p: Array, t: Array, indices: bool, weights: Array, parameter: float, factor: float,
        numbers: Array, out: Array | None,
    ) -> None:  # fmt: skip
        result = p if out is None else out
        first, last = share(part, parts, p.shape[0], 1)
        scale = factor * numbers[LOSS_SCALE] / numbers[SAMPLES]
        for i in range(first, last):
            of(p, t, indices, weights, parameter, scale, i, result)

    one = variant(body, formula, f"{formula.__name__}_part")

    def whole(
        p: Array, t: Array, indices: bool, weights: Array, parameter: float, factor: float, numbers: Array,
        out: Array | None, parts: int,
    ) -> None:  # fmt: skip
        fork_join(one, parts, (p, t, indices, weights, parameter, factor, numbers, out))

    return variant(whole, formula, formula.__name__, forks=True)
