"""Batch normalization over ``x[outer, channel, inner]``: statistics, normalise, sums of the way back, input derivative.

Sums run over a row in float32 and over rows in float64; every channel belongs to one part, so threads change nothing.
``inner`` of 1 (features on the last axis) has kernels of its own that run along the channels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.shares import share

Array = npt.NDArray[np.float32]
f4 = np.float32


@kernel()
def statistics_part(part: int, parts: int, x: Array, mean: Array, variance: Array) -> None:
    start, stop = share(part, parts, mean.size, 1)
    outer, _, inner = x.shape
    for c in range(start, stop):
        shift = f4(0.0)
        for i in range(inner):
            shift += x[0, c, i]
        shift /= f4(inner)
        total, squares = np.float64(0.0), np.float64(0.0)
        for n in range(outer):
            row = x[n, c]
            a, b = f4(0.0), f4(0.0)
            for i in range(inner):
                d = row[i] - shift
                a += d
                b += d * d
            total += a
            squares += b
        count = outer * inner
        offset = total / count
        mean[c] = f4(np.float64(shift) + offset)
        # max() would turn a NaN into 0
        v = squares / count - offset * offset
        variance[c] = f4(0.0) if v < 0.0 else f4(v)


@kernel(forks=True)
def statistics(x: Array, mean: Array, variance: Array, parts: int) -> None:
    """Mean and biased variance of each channel, in one pass shifted by the mean of the first row."""
    fork_join(statistics_part, parts, (x, mean, variance))


@kernel()
def column_statistics_part(x: Array, mean: Array, variance: Array, work: Any, start: int, stop: int) -> None:
    """The same for inner = 1; ``work[2, channel]`` holds float64 sums."""
    outer = x.shape[0]
    for c in range(start, stop):
        work[0, c] = 0.0
        work[1, c] = 0.0
    for n in range(outer):
        for c in range(start, stop):
            d = np.float64(x[n, c, 0] - x[0, c, 0])
            work[0, c] += d
            work[1, c] += d * d
    for c in range(start, stop):
        offset = work[0, c] / outer
        mean[c] = f4(np.float64(x[0, c, 0]) + offset)
        v = work[1, c] / outer - offset * offset
        variance[c] = f4(0.0) if v < 0.0 else f4(v)


@kernel()
def running_update(running: Array, batch: Array, momentum: float) -> None:
    """running = momentum * running + (1 - momentum) * batch."""
    m, k = f4(momentum), f4(1.0 - momentum)
    for c in range(running.size):
        running[c] = m * running[c] + k * batch[c]


@kernel()
def normalize_part(
    part: int, parts: int, x: Array, mean: Array, variance: Array, gamma: Array, beta: Array, epsilon: float, out: Array
) -> None:
    start, stop = share(part, parts, mean.size, 1)
    outer, _, inner = x.shape
    for c in range(start, stop):
        scale = f4(gamma[c] / np.sqrt(np.float64(variance[c]) + epsilon))
        m, b = mean[c], beta[c]
        for n in range(outer):
            row, target = x[n, c], out[n, c]
            for i in range(inner):
                target[i] = scale * (row[i] - m) + b


@kernel(forks=True)
def normalize(
    x: Array, mean: Array, variance: Array, gamma: Array, beta: Array, epsilon: float, out: Array, parts: int
) -> None:
    """out = gamma * (x - mean) / sqrt(variance + epsilon) + beta."""
    fork_join(normalize_part, parts, (x, mean, variance, gamma, beta, epsilon, out))


@kernel()
def column_normalize_part(
    x: Array, mean: Array, variance: Array, gamma: Array, beta: Array, epsilon: float, out: Array, scale: Array,
    start: int, stop: int,
) -> None:  # fmt: skip
    """The same for inner = 1; ``scale[channel]`` is work space."""
    for c in range(start, stop):
        scale[c] = f4(gamma[c] / np.sqrt(np.float64(variance[c]) + epsilon))
    for n in range(x.shape[0]):
        row, target = x[n, :, 0], out[n, :, 0]
        for c in range(start, stop):
            target[c] = scale[c] * (row[c] - mean[c]) + beta[c]


@kernel()
def sums_part(
    part: int, parts: int, x: Array, g: Array, mean: Array, variance: Array, epsilon: float, dgamma: Array, dbeta: Array
) -> None:
    start, stop = share(part, parts, mean.size, 1)
    outer, _, inner = x.shape
    for c in range(start, stop):
        m = mean[c]
        total, product = np.float64(0.0), np.float64(0.0)
        for n in range(outer):
            row, grad = x[n, c], g[n, c]
            a, b = f4(0.0), f4(0.0)
            for i in range(inner):
                a += grad[i]
                b += grad[i] * (row[i] - m)
            total += a
            product += b
        dbeta[c] = f4(total)
        dgamma[c] = f4(product / np.sqrt(np.float64(variance[c]) + epsilon))


@kernel(forks=True)
def sums(
    x: Array, g: Array, mean: Array, variance: Array, epsilon: float, dgamma: Array, dbeta: Array, parts: int
) -> None:
    """dbeta = sum g, dgamma = sum g * (x - mean) / sqrt(variance + epsilon)."""
    fork_join(sums_part, parts, (x, g, mean, variance, epsilon, dgamma, dbeta))


@kernel()
def column_sums_part(
    x: Array, g: Array, mean: Array, variance: Array, epsilon: float, dgamma: Array, dbeta: Array, work: Any,
    start: int, stop: int,
) -> None:  # fmt: skip
    """The same for inner = 1."""
    for c in range(start, stop):
        work[0, c] = 0.0
        work[1, c] = 0.0
    for n in range(x.shape[0]):
        for c in range(start, stop):
            work[0, c] += np.float64(g[n, c, 0])
            work[1, c] += np.float64(g[n, c, 0] * (x[n, c, 0] - mean[c]))
    for c in range(start, stop):
        dbeta[c] = f4(work[0, c])
        dgamma[c] = f4(work[1, c] / np.sqrt(np.float64(variance[c]) + epsilon))


@kernel()
def derivative_part(
    part: int, parts: int, x: Array, g: Array, mean: Array, variance: Array, gamma: Array, dgamma: Array,
    dbeta: Array, epsilon: float, out: Array,
) -> None:  # fmt: skip
    start, stop = share(part, parts, mean.size, 1)
    outer, _, inner = x.shape
    count = outer * inner
    for c in range(start, stop):
        inverse = 1.0 / np.sqrt(np.float64(variance[c]) + epsilon)
        scale = f4(gamma[c] * inverse)
        level = f4(dbeta[c] / count)
        slope = f4(dgamma[c] * inverse / count)
        m = mean[c]
        for n in range(outer):
            row, grad, target = x[n, c], g[n, c], out[n, c]
            for i in range(inner):
                target[i] = scale * (grad[i] - level - (row[i] - m) * slope)


@kernel(forks=True)
def derivative(
    x: Array, g: Array, mean: Array, variance: Array, gamma: Array, dgamma: Array, dbeta: Array, epsilon: float,
    out: Array, parts: int,
) -> None:  # fmt: skip
    """out = gamma / s * (g - dbeta / count - (x - mean) / s * dgamma / count), s = sqrt(variance + epsilon)."""
    fork_join(derivative_part, parts, (x, g, mean, variance, gamma, dgamma, dbeta, epsilon, out))


@kernel()
def column_derivative_part(
    x: Array, g: Array, mean: Array, variance: Array, gamma: Array, dgamma: Array, dbeta: Array, epsilon: float,
    out: Array, work: Any, start: int, stop: int,
) -> None:  # fmt: skip
    """The same for inner = 1."""
    outer = x.shape[0]
    for c in range(start, stop):
        inverse = 1.0 / np.sqrt(np.float64(variance[c]) + epsilon)
        work[0, c] = gamma[c] * inverse
        work[1, c] = dgamma[c] * inverse / outer
    for n in range(outer):
        for c in range(start, stop):
            level = f4(dbeta[c] / outer)
            out[n, c, 0] = f4(work[0, c]) * (g[n, c, 0] - level - (x[n, c, 0] - mean[c]) * f4(work[1, c]))
