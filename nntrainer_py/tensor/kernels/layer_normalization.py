"""Normalisation of each sample: layer normalization over any axes, and the root mean square of rows.

Layer normalization sees ``x[outer, a, inner, b]``: the statistics are over ``a`` and ``b``, one pair for each ``outer``
and ``inner``, which covers every set of axes of one sample. gamma is ``[a, b]``, statistics are ``[outer, inner]``.
Rows (``b``) are summed in float32, across rows in float64; an ``outer`` or a column of gamma is one thread's own.
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
f4 = np.float32


@kernel()
def statistics_part(part: int, parts: int, x: Array, epsilon: float, mean: Array, inverse: Array) -> None:
    begin, end = share(part, parts, x.shape[0], 1)
    _, a, inner, b = x.shape
    for o in range(begin, end):
        for i in range(inner):
            shift, total = x[o, 0, i, 0], 0.0
            for p in range(a):
                row, some = x[o, p, i], f4(0.0)
                for q in range(b):
                    some += row[q] - shift
                total += np.float64(some)
            middle = f4(np.float64(shift) + total / (a * b))
            squares = 0.0
            for p in range(a):
                row, some = x[o, p, i], f4(0.0)
                for q in range(b):
                    d = row[q] - middle
                    some += d * d
                squares += np.float64(some)
            mean[o, i] = middle
            inverse[o, i] = f4(1.0 / math.sqrt(squares / (a * b) + epsilon))


@kernel(forks=True)
def statistics(x: Array, epsilon: float, mean: Array, inverse: Array, parts: int) -> None:
    """Mean and ``1 / sqrt(variance + epsilon)``, the variance about the mean in a second pass."""
    fork_join(statistics_part, parts, (x, epsilon, mean, inverse))


@kernel()
def normalize_part(
    part: int, parts: int, x: Array, mean: Array, inverse: Array, gamma: Array, beta: Array, out: Array
) -> None:
    begin, end = share(part, parts, x.shape[0], 1)
    _, a, inner, b = x.shape
    for o in range(begin, end):
        for p in range(a):
            scale, offset = gamma[p], beta[p]
            for i in range(inner):
                row, target = x[o, p, i], out[o, p, i]
                m, r = mean[o, i], inverse[o, i]
                for q in range(b):
                    target[q] = scale[q] * ((row[q] - m) * r) + offset[q]


@kernel(forks=True)
def normalize(x: Array, mean: Array, inverse: Array, gamma: Array, beta: Array, out: Array, parts: int) -> None:
    """``out = gamma * (x - mean) * inverse + beta``. ``out`` may be ``x``."""
    fork_join(normalize_part, parts, (x, mean, inverse, gamma, beta, out))


@kernel()
def sums_part(
    x: Array, g: Array, mean: Array, inverse: Array, dgamma: Array, dbeta: Array, work: Array, begin: int, end: int
) -> None:
    """Gradients of gamma and beta for the rows ``begin`` to ``end`` of ``a``; ``work[2, a, b]`` holds float64 sums."""
    outer, _, inner, b = x.shape
    for p in range(begin, end):
        scale, offset = work[0, p], work[1, p]
        for q in range(b):
            scale[q] = 0.0
            offset[q] = 0.0
        for o in range(outer):
            for i in range(inner):
                row, grad = x[o, p, i], g[o, p, i]
                m, r = mean[o, i], inverse[o, i]
                for q in range(b):
                    scale[q] += np.float64(grad[q] * ((row[q] - m) * r))
                    offset[q] += np.float64(grad[q])
        for q in range(b):
            dgamma[p, q] = f4(scale[q])
            dbeta[p, q] = f4(offset[q])


@kernel()
def derivative_part(
    part: int, parts: int, x: Array, g: Array, mean: Array, inverse: Array, gamma: Array, out: Array
) -> None:
    begin, end = share(part, parts, x.shape[0], 1)
    _, a, inner, b = x.shape
    for o in range(begin, end):
        for i in range(inner):
            m, r = mean[o, i], inverse[o, i]
            first, second = 0.0, 0.0
            for p in range(a):
                row, grad, scale = x[o, p, i], g[o, p, i], gamma[p]
                s, t = f4(0.0), f4(0.0)
                for q in range(b):
                    h = grad[q] * scale[q]
                    s += h
                    t += h * (row[q] - m)
                first += np.float64(s)
                second += np.float64(t)
            level = f4(first / (a * b))
            slope = f4(second / (a * b) * np.float64(r) * np.float64(r))
            for p in range(a):
                row, grad, scale, target = x[o, p, i], g[o, p, i], gamma[p], out[o, p, i]
                for q in range(b):
                    target[q] = r * (grad[q] * scale[q] - level - (row[q] - m) * slope)


@kernel(forks=True)
def derivative(x: Array, g: Array, mean: Array, inverse: Array, gamma: Array, out: Array, parts: int) -> None:
    """``inverse * (h - mean(h) - n * mean(h * n))``, ``h = g * gamma``, ``n`` normalised x. ``out`` may be ``g``."""
    fork_join(derivative_part, parts, (x, g, mean, inverse, gamma, out))


@kernel()
def root_part(part: int, parts: int, x: Array, epsilon: float, inverse: Array) -> None:
    begin, end = share(part, parts, x.shape[0], 1)
    for n in range(begin, end):
        row, total = x[n], f4(0.0)
        for i in range(row.size):
            total += row[i] * row[i]
        inverse[n] = f4(1.0 / math.sqrt(np.float64(total) / row.size + epsilon))


@kernel(forks=True)
def root(x: Array, epsilon: float, inverse: Array, parts: int) -> None:
    """``1 / sqrt(mean of squares + epsilon)`` of the rows of ``x[rows, width]``."""
    fork_join(root_part, parts, (x, epsilon, inverse))


@kernel()
def scale_part(part: int, parts: int, x: Array, inverse: Array, gamma: Array, out: Array) -> None:
    begin, end = share(part, parts, x.shape[0], 1)
    for n in range(begin, end):
        row, target, r = x[n], out[n], inverse[n]
        for i in range(row.size):
            target[i] = row[i] * r * gamma[i]


@kernel(forks=True)
def scale(x: Array, inverse: Array, gamma: Array, out: Array, parts: int) -> None:
    """``out = x * inverse * gamma``. ``out`` may be ``x``."""
    fork_join(scale_part, parts, (x, inverse, gamma, out))


@kernel()
def scale_gradient_part(
    x: Array, g: Array, inverse: Array, out: Array, accumulate: bool, work: Array, begin: int, end: int
) -> None:
    """``out (+)= sum of g * x * inverse`` for the columns ``begin`` to ``end``; ``work`` holds float64 sums."""
    for i in range(begin, end):
        work[i] = 0.0
    for n in range(x.shape[0]):
        row, grad, r = x[n], g[n], inverse[n]
        for i in range(begin, end):
            work[i] += np.float64(grad[i] * (row[i] * r))
    for i in range(begin, end):
        out[i] = out[i] + f4(work[i]) if accumulate else f4(work[i])


@kernel()
def scale_derivative_part(part: int, parts: int, x: Array, g: Array, inverse: Array, gamma: Array, out: Array) -> None:
    begin, end = share(part, parts, x.shape[0], 1)
    for n in range(begin, end):
        row, grad, target, r = x[n], g[n], out[n], inverse[n]
        total = f4(0.0)
        for i in range(row.size):
            total += grad[i] * gamma[i] * row[i]
        slope = f4(np.float64(total) / row.size * np.float64(r) * np.float64(r))
        for i in range(row.size):
            target[i] = r * (grad[i] * gamma[i] - row[i] * slope)


@kernel(forks=True)
def scale_derivative(x: Array, g: Array, inverse: Array, gamma: Array, out: Array, parts: int) -> None:
    """``inverse * (h - x * inverse^2 * mean(h * x))`` with ``h = g * gamma``. ``out`` may be ``g``."""
    fork_join(scale_derivative_part, parts, (x, g, inverse, gamma, out))
