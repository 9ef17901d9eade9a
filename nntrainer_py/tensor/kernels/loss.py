"""Losses that compare every element with its label, and their derivatives by the prediction.

Predictions and labels are matrices of one row per sample. A loss sums each row in float64 and then the rows in their
order, so that threads and batches cannot change it; it is divided by the samples of the logical batch and the elements
of a sample. A derivative is multiplied by the loss scale. ``factor`` is the weight of the loss; ``out`` None means in
``y``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import Kernel, inlined, kernel, variant
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


def element_loss(formula: Callable[[Any, Any, Any], Any], per_element: bool = True) -> Kernel[..., None]:
    """Decorator for the loss of one element ``formula(y, t, parameter)``, in float64: the kernel of the mean loss.

    The sum is divided by the samples, and ``per_element`` by the elements of a sample too.
    """
    of = inlined(formula)

    def whole(y: Array, t: Array, parameter: float, factor: float, numbers: Array, sums: Array, loss: Array) -> None:
        for i in range(y.shape[0]):
            value = 0.0
            for j in range(y.shape[1]):
                value += of(np.float64(y[i, j]), np.float64(t[i, j]), parameter)
            sums[i] = value
        total(sums, numbers[SAMPLES] * (y.shape[1] if per_element else 1) / factor, loss)

    return variant(whole, formula, formula.__name__)


def element_derivative(formula: Callable[[Any, Any, Any, Any], Any]) -> Kernel[..., None]:
    """Decorator for ``formula(y, t, parameter, scale)``, times the weight: the kernel over flat arrays.

    ``factor`` of the kernel has the elements of a sample in it where the loss is divided by them.
    """
    of = inlined(formula)

    def whole(y: Array, t: Array, parameter: float, factor: float, numbers: Array, out: Array | None) -> None:
        result = y if out is None else out
        scale, limit = gradient_scale(numbers, factor), f32(parameter)
        for i in range(y.size):
            result[i] = of(y[i], t[i], limit, scale)

    return variant(whole, formula, formula.__name__)


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


@element_derivative
def mse_derivative(y: Any, t: Any, parameter: Any, scale: Any) -> Any:
    """``2 (y - t)``."""
    return (y - t) * (f32(2.0) * scale)


@element_loss
def mae(y: Any, t: Any, parameter: Any) -> Any:
    """The absolute difference."""
    return abs(y - t)


@element_derivative
def mae_derivative(y: Any, t: Any, parameter: Any, scale: Any) -> Any:
    """The sign of ``y - t``, zero where they are equal."""
    d = y - t
    return (f32(1.0) if d > f32(0.0) else (f32(-1.0) if d < f32(0.0) else d)) * scale


@element_loss
def huber(y: Any, t: Any, parameter: Any) -> Any:
    """Half the squared difference up to a difference of ``parameter``, linear beyond."""
    d = abs(y - t)
    return parameter * (d - 0.5 * parameter) if d > parameter else 0.5 * d * d


@element_derivative
def huber_derivative(y: Any, t: Any, parameter: Any, scale: Any) -> Any:
    """``y - t`` limited to +-``parameter``."""
    d = y - t
    return (parameter if d > parameter else (-parameter if d < -parameter else d)) * scale


@element_loss
def hinge(y: Any, t: Any, parameter: Any) -> Any:
    """``max(0, 1 - t y)``; a label of 0 counts as -1."""
    margin = 1.0 - (-1.0 if t == 0.0 else t) * y
    return 0.0 if margin < 0.0 else margin


@element_derivative
def hinge_derivative(y: Any, t: Any, parameter: Any, scale: Any) -> Any:
    """``-t`` where the margin is not reached."""
    label = f32(-1.0) if t == f32(0.0) else t
    return f32(0.0) if f32(1.0) - label * y <= f32(0.0) else -label * scale


@partial(element_loss, per_element=False)
def kld(y: Any, t: Any, parameter: Any) -> Any:
    """``t ln(t / y)``; ``y`` below ``parameter`` counts as that; a term with t = 0 is zero."""
    p = parameter if y < parameter else y
    return t * (math.log(t) - math.log(p)) if t != 0.0 else 0.0


@element_derivative
def kld_derivative(y: Any, t: Any, parameter: Any, scale: Any) -> Any:
    """``-t / y``."""
    p = parameter if y < parameter else y
    return -t / p * scale


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
