"""Cross entropies: softmax or sigmoid, the loss and the test of the labels in one pass per row.

Arrays are matrices whose rows are the width of a tensor; labels are described in `labels`. The target of class j is
``weights[j] * ((1 - smoothing) * t + smoothing / classes)``, with ``weights`` empty for ones; sigmoid: ``/ 2``. Losses
of rows go to ``sums`` (float64) and are added in order.

The logarithm of the sum of exponentials is exact; NNTrainer adds 1e-20 inside the logarithm, which a float32 cannot see
except for probabilities below it, where the exact value keeps the derivative and the value in step.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.exponential import exp, sigmoid_of, softplus_of
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.labels import (
    BAD,
    finish,
    row_mass,
    target,
    valid_distribution,
    valid_index,
    valid_probabilities,
)
from nntrainer_py.tensor.kernels.loss import gradient_scale
from nntrainer_py.tensor.kernels.shares import share
from nntrainer_py.tensor.kernels.softmax import largest, row_sum

Array = npt.NDArray[Any]
f32 = np.float32
SAMPLES = 1  # place in StepState.numbers


@kernel()
def row_targets(
    x: Array, t: Array, indices: bool, weights: Array, smoothing: float, row: int, top: float
) -> tuple[float, float]:
    """``(sum_j a_j, sum_j a_j (x_j - top))`` of the targets a of a row whose label is good."""
    classes = x.shape[1]
    share = 1.0 / classes
    k = int(t[row, 0]) if indices else 0
    mass, dot = 0.0, 0.0
    if smoothing == 0.0 and indices:
        mass = np.float64(weights[k]) if weights.size > 0 else 1.0
        return mass, mass * (np.float64(x[row, k]) - top)
    if smoothing == 0.0 and weights.size == 0:
        # an impossible class (x = -inf) that is no target adds nothing, here and below
        for j in range(classes):
            label = np.float64(t[row, j])
            part = label * (np.float64(x[row, j]) - top)
            mass += label
            dot += part if label != 0.0 else 0.0
        return mass, dot
    for j in range(classes):
        chosen = (1.0 if j == k else 0.0) if indices else np.float64(t[row, j])
        a = target(chosen, weights, j, smoothing, share)
        mass += a
        dot += a * (np.float64(x[row, j]) - top) if a != 0.0 else 0.0
    return mass, dot


@kernel()
def cross_softmax_part(
    part: int, parts: int, x: Array, t: Array, indices: bool, weights: Array, smoothing: float, out: Array | None,
    sums: Array,
) -> None:  # fmt: skip
    """``sum_j a_j (ln sum_k exp(x_k) - x_j)`` of the targets a, and the softmax, of each row."""
    result = x if out is None else out
    first, last = share(part, parts, x.shape[0], 1)
    classes = x.shape[1]
    for i in range(first, last):
        good = valid_index(t[i, 0], classes) if indices else valid_distribution(t, i)
        top = largest(x, i)
        mass, dot = 0.0, 0.0
        if good:
            mass, dot = row_targets(x, t, indices, weights, smoothing, i, np.float64(top))
        for j in range(classes):
            result[i, j] = exp(x[i, j] - top)
        spread = row_sum(result, i)
        inverse = f32(1.0) / spread
        for j in range(classes):
            result[i, j] *= inverse
        sums[i] = mass * math.log(np.float64(spread)) - dot if good else BAD


@kernel(forks=True)
def cross_softmax(
    x: Array, t: Array, indices: bool, weights: Array, smoothing: float, factor: float, numbers: Array, status: Array,
    rows: int, out: Array | None, sums: Array, loss: Array, parts: int,
) -> None:  # fmt: skip
    """Softmax and mean cross entropy over the samples (of ``rows`` rows each)."""
    fork_join(cross_softmax_part, parts, (x, t, indices, weights, smoothing, out, sums))
    finish(sums, t, indices, numbers[SAMPLES] / factor, rows, numbers, status, loss)


@kernel()
def cross_softmax_derivative_part(
    part: int, parts: int, p: Array, t: Array, indices: bool, weights: Array, smoothing: float, factor: float,
    numbers: Array, out: Array | None,
) -> None:  # fmt: skip
    result = p if out is None else out
    first, last = share(part, parts, p.shape[0], 1)
    classes = p.shape[1]
    scale = gradient_scale(numbers, factor)
    plain = weights.size == 0 and smoothing == 0.0
    for i in range(first, last):
        if indices:
            good = valid_index(t[i, 0], classes)
            k = int(t[i, 0]) if good else 0
            mass = 0.0 if good else np.nan
            for j in range(classes):
                mass += target(1.0 if j == k else 0.0, weights, j, smoothing, 1.0 / classes)
            whole = f32(mass) * scale
            for j in range(classes):
                a = target(1.0 if j == k else 0.0, weights, j, smoothing, 1.0 / classes)
                result[i, j] = p[i, j] * whole - f32(a) * scale
        elif plain:
            along = f32(row_mass(t, i))
            for j in range(classes):
                result[i, j] = (p[i, j] * along - t[i, j]) * scale
        else:
            mass = 0.0
            for j in range(classes):
                mass += target(np.float64(t[i, j]), weights, j, smoothing, 1.0 / classes)
            along = f32(mass)
            for j in range(classes):
                wanted = f32(target(np.float64(t[i, j]), weights, j, smoothing, 1.0 / classes))
                result[i, j] = (p[i, j] * along - wanted) * scale


@kernel(forks=True)
def cross_softmax_derivative(
    p: Array, t: Array, indices: bool, weights: Array, smoothing: float, factor: float, numbers: Array,
    out: Array | None, parts: int,
) -> None:  # fmt: skip
    """``(p_j sum(a) - a_j) / N`` of the softmax ``p``; NaN in a row whose index is no class."""
    fork_join(cross_softmax_derivative_part, parts, (p, t, indices, weights, smoothing, factor, numbers, out))


@kernel()
def element_losses(x: Array, t: Array, row: int) -> float:
    """Sum over a row of ``max(x, 0) + ln(1 + exp(-|x|)) - t x``."""
    value = 0.0
    for j in range(x.shape[1]):
        # a product with t = 0 is zero for an infinite x too
        part = f32(0.0) if t[row, j] == f32(0.0) else t[row, j] * x[row, j]
        value += np.float64(softplus_of(x[row, j]) - part)
    return value


@kernel()
def chosen_element_losses(x: Array, t: Array, indices: bool, weights: Array, smoothing: float, row: int) -> float:
    """`element_losses` with class weights, smoothing or a class number as the label."""
    k = int(t[row, 0]) if indices else 0
    value = 0.0
    for j in range(x.shape[1]):
        v = np.float64(x[row, j])
        label = (1.0 if j == k else 0.0) if indices else np.float64(t[row, j])
        label += smoothing * (0.5 - label)
        w = np.float64(weights[j]) if weights.size > 0 else 1.0
        value += w * (np.float64(softplus_of(x[row, j])) - (label * v if label != 0.0 else 0.0))
    return value


@kernel()
def cross_sigmoid_part(
    part: int, parts: int, x: Array, t: Array, indices: bool, weights: Array, smoothing: float, out: Array | None,
    sums: Array,
) -> None:  # fmt: skip
    """The sum of the elements' losses, and the sigmoid, of each row."""
    result = x if out is None else out
    first, last = share(part, parts, x.shape[0], 1)
    plain = not indices and weights.size == 0 and smoothing == 0.0
    for i in range(first, last):
        good = valid_index(t[i, 0], x.shape[1]) if indices else valid_probabilities(t, i)
        sums[i] = BAD
        if good and plain:
            sums[i] = element_losses(x, t, i)
        elif good:
            sums[i] = chosen_element_losses(x, t, indices, weights, smoothing, i)
        for j in range(x.shape[1]):
            result[i, j] = sigmoid_of(x[i, j])


@kernel(forks=True)
def cross_sigmoid(
    x: Array, t: Array, indices: bool, weights: Array, smoothing: float, factor: float, numbers: Array, status: Array,
    rows: int, out: Array | None, sums: Array, loss: Array, parts: int,
) -> None:  # fmt: skip
    """Sigmoid, and the mean over all elements of ``w (max(x, 0) + ln(1 + exp(-|x|)) - t x)``."""
    fork_join(cross_sigmoid_part, parts, (x, t, indices, weights, smoothing, out, sums))
    finish(sums, t, indices, numbers[SAMPLES] * rows * x.shape[1] / factor, rows, numbers, status, loss)


@kernel()
def cross_sigmoid_derivative_part(
    part: int, parts: int, p: Array, t: Array, indices: bool, weights: Array, smoothing: float, factor: float,
    numbers: Array, out: Array | None,
) -> None:  # fmt: skip
    result = p if out is None else out
    first, last = share(part, parts, p.shape[0], 1)
    classes = p.shape[1]
    scale = gradient_scale(numbers, factor)
    for i in range(first, last):
        good = valid_index(t[i, 0], classes) if indices else True
        k = int(t[i, 0]) if indices and good else 0
        row_scale = scale if good else f32(np.nan)
        for j in range(classes):
            label = (f32(1.0) if j == k else f32(0.0)) if indices else t[i, j]
            label += f32(smoothing) * (f32(0.5) - label)
            w = f32(weights[j]) if weights.size > 0 else f32(1.0)
            result[i, j] = w * (p[i, j] - label) * row_scale


@kernel(forks=True)
def cross_sigmoid_derivative(
    p: Array, t: Array, indices: bool, weights: Array, smoothing: float, factor: float, numbers: Array,
    out: Array | None, parts: int,
) -> None:  # fmt: skip
    """``w (p - t) / S`` of the sigmoid ``p``; NaN in a row whose index is no class."""
    fork_join(cross_sigmoid_derivative_part, parts, (p, t, indices, weights, smoothing, factor, numbers, out))
