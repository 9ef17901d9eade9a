"""Batch normalization with relu over ``x[outer, channel, inner]``; see operations/fused_normalization.py.

Sums run over a row in float32 and over rows in float64, as in normalization.py; every channel belongs to one part.
Products and sums are spelled as ``fma``, which the compiler cannot rearrange: it makes several loops of each of these
(for operands that share memory and not, for vectors and the rest), and all must round alike.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.exponential import fma
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.shares import share

Array = npt.NDArray[np.float32]
f4 = np.float32


@kernel()
def normalize_relu_part(
    part: int, parts: int, x: Array, addend: Array, mean: Array, variance: Array, gamma: Array, beta: Array,
    epsilon: float, out: Array,
) -> None:  # fmt: skip
    """out = max(scale * (x - mean) + beta + addend, 0); an ``addend`` of no elements is left out."""
    start, stop = share(part, parts, mean.size, 1)
    outer, _, inner = x.shape
    for c in range(start, stop):
        scale = f4(gamma[c] / np.sqrt(np.float64(variance[c]) + epsilon))
        m, b = mean[c], beta[c]
        if addend.size:
            for n in range(outer):
                for i in range(inner):
                    v = fma(scale, x[n, c, i] - m, b) + addend[n, c, i]
                    out[n, c, i] = f4(0.0) if v <= f4(0.0) else v
        else:
            for n in range(outer):
                for i in range(inner):
                    v = fma(scale, x[n, c, i] - m, b)
                    out[n, c, i] = f4(0.0) if v <= f4(0.0) else v


@kernel(forks=True)
def normalize_relu(
    x: Array, addend: Array, mean: Array, variance: Array, gamma: Array, beta: Array, epsilon: float, out: Array,
    parts: int,
) -> None:  # fmt: skip
    """All parts of ``normalize_relu_part``, on as many threads."""
    fork_join(normalize_relu_part, parts, (x, addend, mean, variance, gamma, beta, epsilon, out))


@kernel()
def relu_sums_part(
    part: int, parts: int, x: Array, g: Array, mean: Array, variance: Array, gamma: Array, beta: Array,
    epsilon: float, dgamma: Array, dbeta: Array,
) -> None:  # fmt: skip
    """dbeta = sum g, dgamma = sum g * (x - mean) / sqrt(variance + epsilon), over what relu let through."""
    start, stop = share(part, parts, mean.size, 1)
    outer, _, inner = x.shape
    for c in range(start, stop):
        inverse = 1.0 / np.sqrt(np.float64(variance[c]) + epsilon)
        scale = f4(gamma[c] / np.sqrt(np.float64(variance[c]) + epsilon))
        m, b = mean[c], beta[c]
        total, product = np.float64(0.0), np.float64(0.0)
        for n in range(outer):
            first, second = f4(0.0), f4(0.0)
            for i in range(inner):
                d = x[n, c, i] - m
                v = fma(scale, d, b)
                passed = f4(0.0) if v <= f4(0.0) else g[n, c, i]
                first += passed
                second += passed * d
            total += first
            product += second
        dbeta[c] = f4(total)
        dgamma[c] = f4(product * inverse)


@kernel(forks=True)
def relu_sums(
    x: Array, g: Array, mean: Array, variance: Array, gamma: Array, beta: Array, epsilon: float, dgamma: Array,
    dbeta: Array, parts: int,
) -> None:  # fmt: skip
    """All parts of ``relu_sums_part``, on as many threads."""
    fork_join(relu_sums_part, parts, (x, g, mean, variance, gamma, beta, epsilon, dgamma, dbeta))


@kernel()
def relu_derivative_part(
    part: int, parts: int, x: Array, g: Array, mean: Array, variance: Array, gamma: Array, beta: Array,
    epsilon: float, dgamma: Array, dbeta: Array, out: Array,
) -> None:  # fmt: skip
    """out = gamma / s * (g' - dbeta / count - (x - mean) / s * dgamma / count), g' = g or 0 as relu let through."""
    start, stop = share(part, parts, mean.size, 1)
    outer, _, inner = x.shape
    count = outer * inner
    for c in range(start, stop):
        inverse = 1.0 / np.sqrt(np.float64(variance[c]) + epsilon)
        scale = f4(gamma[c] / np.sqrt(np.float64(variance[c]) + epsilon))
        level = f4(dbeta[c] / count)
        slope = f4(dgamma[c] * inverse / count)
        m, b = mean[c], beta[c]
        # g is read in any case: a load that depends on v would keep the loop from vectors. So would two names for one
        # piece of memory, hence the loop of its own for a derivative that takes the place of g.
        if out.ctypes.data == g.ctypes.data:
            for n in range(outer):
                for i in range(inner):
                    d, incoming = x[n, c, i] - m, out[n, c, i]
                    passed = f4(0.0) if fma(scale, d, b) <= f4(0.0) else incoming
                    out[n, c, i] = scale * fma(-d, slope, passed - level)
        else:
            for n in range(outer):
                for i in range(inner):
                    d, incoming = x[n, c, i] - m, g[n, c, i]
                    passed = f4(0.0) if fma(scale, d, b) <= f4(0.0) else incoming
                    out[n, c, i] = scale * fma(-d, slope, passed - level)


@kernel(forks=True)
def relu_derivative(
    x: Array, g: Array, mean: Array, variance: Array, gamma: Array, beta: Array, epsilon: float, dgamma: Array,
    dbeta: Array, out: Array, parts: int,
) -> None:  # fmt: skip
    """All parts of ``relu_derivative_part``, on as many threads."""
    fork_join(relu_derivative_part, parts, (x, g, mean, variance, gamma, beta, epsilon, dgamma, dbeta, out))
