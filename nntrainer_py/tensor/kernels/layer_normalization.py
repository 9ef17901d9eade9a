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
from numba import prange

from nntrainer_py.tensor.kernels.compile import kernel

Array = npt.NDArray[Any]
f4 = np.float32


@kernel()
def statistics_part(x: Array, epsilon: float, mean: Array, inverse: Array, begin: int, end: int) -> None:
    """Mean and ``1 / sqrt(variance + epsilon)``, the variance about the mean in a second pass."""
    _, a, inner, b = x.shape
    for o in range(begin, end):
        for i in range(inner):
            shift, total = x[o, 0, i, 0], 0.0
            for p in range(a):
                row, part = x[o, p, i], f4(0.0)
                for q in range(b):
                    part += row[q] - shift
                total += np.float64(part)
            middle = f4(np.float64(shift) + total / (a * b))
            squares = 0.0
            for p in range(a):
                row, part = x[o, p, i], f4(0.0)
                for q in range(b):
                    d = row[q] - middle
                    part += d * d
                squares += np.float64(part)
            mean[o, i] = middle
            inverse[o, i] = f4(1.0 / math.sqrt(squares / (a * b) + epsilon))


@kernel()
def normalize_part(
    x: Array, mean: Array, inverse: Array, gamma: Array, beta: Array, out: Array, begin: int, end: int
) -> None:
    """``out = gamma * (x - mean) * inverse + beta``. ``out`` may be ``x``."""
    _, a, inner, b = x.shape
    for o in range(begin, end):
        for p in range(a):
            scale, offset = gamma[p], beta[p]
            for i in range(inner):
                row, target = x[o, p, i], out[o, p, i]
                m, r = mean[o, i], inverse[o, i]
                for q in range(b):
                    target[q] = scale[q] * ((row[q] - m) * r) + offset[q]


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
    x: Array, g: Array, mean: Array, inverse: Array, gamma: Array, out: Array, begin: int, end: int
) -> None:
    """``inverse * (h - mean(h) - n * mean(h * n))``, ``h = g * gamma``, ``n`` normalised x. ``out`` may be ``g``."""
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


@kernel()
def root_part(x: Array, epsilon: float, inverse: Array, begin: int, end: int) -> None:
    """``1 / sqrt(mean of squares + epsilon)`` of the rows of ``x[rows, width]``."""
    for n in range(begin, end):
        row, total = x[n], f4(0.0)
        for i in range(row.size):
            total += row[i] * row[i]
        inverse[n] = f4(1.0 / math.sqrt(np.float64(total) / row.size + epsilon))


@kernel()
def scale_part(x: Array, inverse: Array, gamma: Array, out: Array, begin: int, end: int) -> None:
    """``out = x * inverse * gamma``. ``out`` may be ``x``."""
    for n in range(begin, end):
        row, target, r = x[n], out[n], inverse[n]
        for i in range(row.size):
            target[i] = row[i] * r * gamma[i]


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
def scale_derivative_part(x: Array, g: Array, inverse: Array, gamma: Array, out: Array, begin: int, end: int) -> None:
    """``inverse * (h - x * inverse^2 * mean(h * x))`` with ``h = g * gamma``. ``out`` may be ``g``."""
    for n in range(begin, end):
        row, grad, target, r = x[n], g[n], out[n], inverse[n]
        total = f4(0.0)
        for i in range(row.size):
            total += grad[i] * gamma[i] * row[i]
        slope = f4(np.float64(total) / row.size * np.float64(r) * np.float64(r))
        for i in range(row.size):
            target[i] = r * (grad[i] * gamma[i] - row[i] * slope)


@kernel(parallel=True)
def statistics_parallel(x: Array, epsilon: float, mean: Array, inverse: Array, parts: int) -> None:
    for p in prange(parts):
        statistics_part(x, epsilon, mean, inverse, p * x.shape[0] // parts, (p + 1) * x.shape[0] // parts)


@kernel(parallel=True)
def normalize_parallel(
    x: Array, mean: Array, inverse: Array, gamma: Array, beta: Array, out: Array, parts: int
) -> None:
    for p in prange(parts):
        normalize_part(x, mean, inverse, gamma, beta, out, p * x.shape[0] // parts, (p + 1) * x.shape[0] // parts)


@kernel(parallel=True)
def root_parallel(x: Array, epsilon: float, inverse: Array, parts: int) -> None:
    for p in prange(parts):
        root_part(x, epsilon, inverse, p * x.shape[0] // parts, (p + 1) * x.shape[0] // parts)


@kernel(parallel=True)
def scale_parallel(x: Array, inverse: Array, gamma: Array, out: Array, parts: int) -> None:
    for p in prange(parts):
        scale_part(x, inverse, gamma, out, p * x.shape[0] // parts, (p + 1) * x.shape[0] // parts)


@kernel(parallel=True)
def scale_derivative_parallel(x: Array, g: Array, inverse: Array, gamma: Array, out: Array, parts: int) -> None:
    for p in prange(parts):
        scale_derivative_part(x, g, inverse, gamma, out, p * x.shape[0] // parts, (p + 1) * x.shape[0] // parts)


@kernel(parallel=True)
def derivative_parallel(x: Array, g: Array, mean: Array, inverse: Array, gamma: Array, out: Array, parts: int) -> None:
    for p in prange(parts):
        derivative_part(x, g, mean, inverse, gamma, out, p * x.shape[0] // parts, (p + 1) * x.shape[0] // parts)
