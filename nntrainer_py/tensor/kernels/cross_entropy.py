"""Cross entropies: softmax or sigmoid, the loss and the test of the labels in one pass per row.

Arrays are matrices whose rows are the width of a tensor; labels are described in `labels`. The target of class j is
``weights[j] * ((1 - smoothing) * t + smoothing / classes)``, with ``weights`` empty for ones; sigmoid: ``/ 2``. Losses
of rows go to ``sums`` (float64) and are added in order.

The logarithm of the sum of exponentials is exact; NNTrainer adds 1e-20 inside the logarithm, which a float32 cannot see
except for probabilities below it, where the exact value keeps the derivative and the value in step.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.exponential import exp, sigmoid_of, softplus_of
from nntrainer_py.tensor.kernels.labels import (
    BAD,
    label_derivative,
    label_loss,
    label_of,
    row_mass,
    target,
    valid_distribution,
    valid_index,
    valid_probabilities,
)
from nntrainer_py.tensor.kernels.softmax import largest, row_sum

Array = npt.NDArray[Any]
f32 = np.float32


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
        a = target(label_of(t, row, j, indices, k), weights, j, smoothing, share)
        mass += a
        dot += a * (np.float64(x[row, j]) - top) if a != 0.0 else 0.0
    return mass, dot


@label_loss
def cross_softmax(x: Array, t: Array, indices: bool, weights: Array, smoothing: float, i: int, out: Array) -> Any:
    """Softmax, and ``sum_j a_j (ln sum_k exp(x_k) - x_j)`` of the targets a."""
    good = valid_index(t[i, 0], x.shape[1]) if indices else valid_distribution(t, i)
    top = largest(x, i)
    mass, dot = 0.0, 0.0
    if good:
        mass, dot = row_targets(x, t, indices, weights, smoothing, i, np.float64(top))
    for j in range(x.shape[1]):
        out[i, j] = exp(x[i, j] - top)
    spread = row_sum(out, i)
    inverse = f32(1.0) / spread
    for j in range(x.shape[1]):
        out[i, j] *= inverse
    return mass * math.log(np.float64(spread)) - dot if good else BAD


@label_derivative
def cross_softmax_derivative(
    p: Array, t: Array, indices: bool, weights: Array, smoothing: float, scale: float, i: int, out: Array
) -> None:
    """``(p_j sum(a) - a_j) / N`` of the softmax ``p``; NaN in a row whose index is no class."""
    classes, factor = p.shape[1], f32(scale)
    mass = 0.0
    if indices:
        good = valid_index(t[i, 0], classes)
        k = int(t[i, 0]) if good else 0
        for j in range(classes):
            mass += target(1.0 if j == k else 0.0, weights, j, smoothing, 1.0 / classes)
        whole = f32(mass if good else np.nan) * factor
        for j in range(classes):
            a = target(1.0 if j == k else 0.0, weights, j, smoothing, 1.0 / classes)
            out[i, j] = p[i, j] * whole - f32(a) * factor
    elif weights.size == 0 and smoothing == 0.0:
        along = f32(row_mass(t, i))
        for j in range(classes):
            out[i, j] = (p[i, j] * along - t[i, j]) * factor
    else:
        for j in range(classes):
            mass += target(np.float64(t[i, j]), weights, j, smoothing, 1.0 / classes)
        along = f32(mass)
        for j in range(classes):
            a = target(np.float64(t[i, j]), weights, j, smoothing, 1.0 / classes)
            out[i, j] = (p[i, j] * along - f32(a)) * factor


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


@partial(label_loss, per_element=True)
def cross_sigmoid(x: Array, t: Array, indices: bool, weights: Array, smoothing: float, i: int, out: Array) -> Any:
    """Sigmoid, and the sum of ``w (max(x, 0) + ln(1 + exp(-|x|)) - t x)``."""
    good = valid_index(t[i, 0], x.shape[1]) if indices else valid_probabilities(t, i)
    value = BAD
    if good and not indices and weights.size == 0 and smoothing == 0.0:
        value = element_losses(x, t, i)
    elif good:
        value = chosen_element_losses(x, t, indices, weights, smoothing, i)
    for j in range(x.shape[1]):
        out[i, j] = sigmoid_of(x[i, j])
    return value


@label_derivative
def cross_sigmoid_derivative(
    p: Array, t: Array, indices: bool, weights: Array, smoothing: float, scale: float, i: int, out: Array
) -> None:
    """``w (p - t) / S`` of the sigmoid ``p``; NaN in a row whose index is no class."""
    good = valid_index(t[i, 0], p.shape[1]) if indices else True
    k = int(t[i, 0]) if indices and good else 0
    factor = f32(scale) if good else f32(np.nan)
    for j in range(p.shape[1]):
        label = (f32(1.0) if j == k else f32(0.0)) if indices else t[i, j]
        label += f32(smoothing) * (f32(0.5) - label)
        w = f32(weights[j]) if weights.size > 0 else f32(1.0)
        out[i, j] = w * (p[i, j] - label) * factor
