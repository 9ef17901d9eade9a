"""Losses that compare every element with its label, and their derivatives by the prediction.

Predictions and labels are matrices of one row per sample. A loss sums each row in float64 and then the rows in their
order, so that threads and batches cannot change it; it is divided by the samples of the logical batch and the elements
of a sample. A derivative is multiplied by the loss scale. ``factor`` is the weight of the loss; ``out`` None means in
``y``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.shares import share

Array = npt.NDArray[Any]
f32 = np.float32
SAMPLES, LOSS_SCALE = 1, 2  # places in StepState.numbers


@kernel()
def total(sums: Array, divisor: float, loss: Array) -> None:
    """The sum of the rows' sums, in order, over ``divisor``."""
    value = 0.0
    for i in range(sums.size):
        value += sums[i]
    loss[0] = value / divisor


@kernel()
def gradient_scale(numbers: Array, factor: float) -> np.float32:
    """Factor of a derivative: weight times loss scale over samples."""
    return f32(factor * numbers[LOSS_SCALE] / numbers[SAMPLES])


@kernel()
def mse_part(part: int, parts: int, y: Array, t: Array, sums: Array) -> None:
    """Sum of the squared differences of each row."""
    first, last = share(part, parts, y.shape[0], 1)
    for i in range(first, last):
        value = 0.0
        for j in range(y.shape[1]):
            d = np.float64(y[i, j]) - np.float64(t[i, j])
            value += d * d
        sums[i] = value


@kernel(forks=True)
def mse(
    y: Array, t: Array, parameter: float, factor: float, numbers: Array, sums: Array, loss: Array, parts: int
) -> None:
    """Mean of the squared differences."""
    fork_join(mse_part, parts, (y, t, sums))
    total(sums, numbers[SAMPLES] * y.shape[1] / factor, loss)


@kernel()
def mse_derivative(y: Array, t: Array, parameter: float, factor: float, numbers: Array, out: Array | None) -> None:
    """``2 (y - t) / S``; the arrays are flat, ``factor`` has the elements of a sample in it."""
    if out is None:
        result = y
    else:
        result = out
    scale = f32(2.0) * gradient_scale(numbers, factor)
    for i in range(y.size):
        result[i] = (y[i] - t[i]) * scale


@kernel()
def mae(y: Array, t: Array, parameter: float, factor: float, numbers: Array, sums: Array, loss: Array) -> None:
    """Mean of the absolute differences."""
    for i in range(y.shape[0]):
        value = 0.0
        for j in range(y.shape[1]):
            value += abs(np.float64(y[i, j]) - np.float64(t[i, j]))
        sums[i] = value
    total(sums, numbers[SAMPLES] * y.shape[1] / factor, loss)


@kernel()
def mae_derivative(y: Array, t: Array, parameter: float, factor: float, numbers: Array, out: Array | None) -> None:
    """The sign of ``y - t``, zero where they are equal, over S."""
    if out is None:
        result = y
    else:
        result = out
    scale = gradient_scale(numbers, factor)
    for i in range(y.size):
        d = y[i] - t[i]
        step = f32(1.0) if d > f32(0.0) else (f32(-1.0) if d < f32(0.0) else d)
        result[i] = step * scale


@kernel()
def huber(y: Array, t: Array, parameter: float, factor: float, numbers: Array, sums: Array, loss: Array) -> None:
    """Mean of half the square up to a difference of ``parameter``, linear beyond."""
    for i in range(y.shape[0]):
        value = 0.0
        for j in range(y.shape[1]):
            d = abs(np.float64(y[i, j]) - np.float64(t[i, j]))
            value += parameter * (d - 0.5 * parameter) if d > parameter else 0.5 * d * d
        sums[i] = value
    total(sums, numbers[SAMPLES] * y.shape[1] / factor, loss)


@kernel()
def huber_derivative(y: Array, t: Array, parameter: float, factor: float, numbers: Array, out: Array | None) -> None:
    """``y - t`` limited to +-``parameter``, over S."""
    if out is None:
        result = y
    else:
        result = out
    scale, limit = gradient_scale(numbers, factor), f32(parameter)
    for i in range(y.size):
        d = y[i] - t[i]
        result[i] = (limit if d > limit else (-limit if d < -limit else d)) * scale


@kernel()
def hinge(y: Array, t: Array, parameter: float, factor: float, numbers: Array, sums: Array, loss: Array) -> None:
    """Mean of ``max(0, 1 - t y)``; a label of 0 counts as -1."""
    for i in range(y.shape[0]):
        value = 0.0
        for j in range(y.shape[1]):
            label = np.float64(t[i, j])
            margin = 1.0 - (-1.0 if label == 0.0 else label) * np.float64(y[i, j])
            value += 0.0 if margin < 0.0 else margin
        sums[i] = value
    total(sums, numbers[SAMPLES] * y.shape[1] / factor, loss)


@kernel()
def hinge_derivative(y: Array, t: Array, parameter: float, factor: float, numbers: Array, out: Array | None) -> None:
    """``-t`` where the margin is not reached, over S."""
    if out is None:
        result = y
    else:
        result = out
    scale = gradient_scale(numbers, factor)
    for i in range(y.size):
        label = f32(-1.0) if t[i] == f32(0.0) else t[i]
        result[i] = f32(0.0) if f32(1.0) - label * y[i] <= f32(0.0) else -label * scale


@kernel()
def kld(y: Array, t: Array, parameter: float, factor: float, numbers: Array, sums: Array, loss: Array) -> None:
    """``sum(t ln(t / y))`` per sample; ``y`` below ``parameter`` counts as that; terms with t = 0 are zero."""
    for i in range(y.shape[0]):
        value = 0.0
        for j in range(y.shape[1]):
            label, given = np.float64(t[i, j]), np.float64(y[i, j])
            p = parameter if given < parameter else given
            if label != 0.0:
                value += label * (math.log(label) - math.log(p))
        sums[i] = value
    total(sums, numbers[SAMPLES] / factor, loss)


@kernel()
def kld_derivative(y: Array, t: Array, parameter: float, factor: float, numbers: Array, out: Array | None) -> None:
    """``-t / y`` over the samples."""
    if out is None:
        result = y
    else:
        result = out
    scale, least = gradient_scale(numbers, factor), f32(parameter)
    for i in range(y.size):
        p = least if y[i] < least else y[i]
        result[i] = -t[i] / p * scale


@kernel()
def cosine_distance(
    y: Array, t: Array, parameter: float, factor: float, numbers: Array, sums: Array, loss: Array
) -> None:
    """``1 - cos`` of the angle between each row and its label; lengths below ``parameter`` count as that."""
    for i in range(y.shape[0]):
        dot, yy, tt = 0.0, 0.0, 0.0
        for j in range(y.shape[1]):
            a, b = np.float64(y[i, j]), np.float64(t[i, j])
            dot += a * b
            yy += a * a
            tt += b * b
        length, size = math.sqrt(yy), math.sqrt(tt)
        length, size = (parameter if length < parameter else length), (parameter if size < parameter else size)
        sums[i] = 1.0 - dot / (length * size)
    total(sums, numbers[SAMPLES] / factor, loss)


@kernel()
def cosine_distance_derivative(
    y: Array, t: Array, parameter: float, factor: float, numbers: Array, out: Array | None
) -> None:
    """``(y cos / |y| - t / |t|) / |y|`` of each row, over the rows."""
    if out is None:
        result = y
    else:
        result = out
    scale = factor * numbers[LOSS_SCALE] / numbers[SAMPLES]
    for i in range(y.shape[0]):
        dot, yy, tt = 0.0, 0.0, 0.0
        for j in range(y.shape[1]):
            a, b = np.float64(y[i, j]), np.float64(t[i, j])
            dot += a * b
            yy += a * a
            tt += b * b
        length, size = math.sqrt(yy), math.sqrt(tt)
        short = length < parameter
        length, size = (parameter if short else length), (parameter if size < parameter else size)
        # in float64: of rows longer than 1e12 the first factor is too small a number for float32
        along = 0.0 if short else scale * dot / (length * length * length * size)
        across = scale / (length * size)
        for j in range(y.shape[1]):
            result[i, j] = f32(np.float64(y[i, j]) * along - np.float64(t[i, j]) * across)


@kernel()
def constant(value: float, loss: Array) -> None:
    """The loss ``value``."""
    loss[0] = value


@kernel()
def constant_derivative(weight: float, numbers: Array, out: Array) -> None:
    """The same derivative everywhere."""
    value = f32(weight * numbers[LOSS_SCALE])
    for i in range(out.size):
        out[i] = value


@kernel()
def l2(x: Array, factor: float, loss: Array) -> None:
    """Half of ``factor`` times the sum of squares."""
    value = 0.0
    for i in range(x.size):
        value += np.float64(x[i]) * np.float64(x[i])
    loss[0] = 0.5 * factor * value
