"""Attention by a mixture of logistic distributions: scores over positions, and the way back.

Arrays are [N, ...]; ``p`` holds kappa, beta, alpha side by side, K each. ``length`` is empty or has one number per
sample.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.exponential import exp, sigmoid_of

Array = npt.NDArray[np.float32]
f32 = np.float32
_EPSILON = f32(1e-8)


@kernel()
def _mixture(p: Array, mixture: Array) -> None:
    """softmax of the last third of ``p``."""
    count = mixture.size
    top = p[2 * count]
    for k in range(1, count):
        v = p[2 * count + k]
        top = v if v > top or v != v else top
    total = f32(0.0)
    for k in range(count):
        mixture[k] = exp(p[2 * count + k] - top)
        total += mixture[k]
    for k in range(count):
        mixture[k] /= total


@kernel()
def scores(p: Array, state: Array, length: Array, out: Array, moved: Array, work: Array) -> None:
    """Scores ``out`` [N, T] of the positions 1 to T, and the moved centres ``moved`` [N, K]."""
    count = state.shape[1]
    for n in range(out.shape[0]):
        _mixture(p[n], work)
        for k in range(count):
            moved[n, k] = state[n, k] + exp(p[n, k])
        for t in range(out.shape[1]):
            u, total = f32(t + 1), f32(0.0)
            for k in range(count):
                width = exp(p[n, count + k]) + _EPSILON
                above = sigmoid_of((u + f32(0.5) - moved[n, k]) / width)
                total += work[k] * (above - sigmoid_of((u - f32(0.5) - moved[n, k]) / width))
            hidden = length.size > 0 and u > length[n]
            out[n, t] = f32(0.0) if hidden else total


@kernel()
def derivative(
    p: Array, state: Array, length: Array, g: Array, gmoved: Array, dp: Array, dstate: Array, work: Array
) -> None:
    """Derivatives by ``p`` and the state from ``g`` [N, T] by the scores and ``gmoved`` by the centres (may be
    empty).
    """
    count = state.shape[1]
    for n in range(g.shape[0]):
        _mixture(p[n], work)
        inner = f32(0.0)
        for k in range(count):
            step, spread = exp(p[n, k]), exp(p[n, count + k])
            width, centre = spread + _EPSILON, state[n, k] + step
            to_mixture, to_centre, to_width = f32(0.0), f32(0.0), f32(0.0)
            for t in range(g.shape[1]):
                u = f32(t + 1)
                v = f32(0.0) if length.size > 0 and u > length[n] else g[n, t]
                above, below = (u + f32(0.5) - centre) / width, (u - f32(0.5) - centre) / width
                high, low = sigmoid_of(above), sigmoid_of(below)
                slope_high, slope_low = high * (f32(1.0) - high), low * (f32(1.0) - low)
                to_mixture += v * (high - low)
                to_centre -= v * (slope_high - slope_low)
                to_width -= v * (slope_high * above - slope_low * below)
            to_centre *= work[k] / width
            if gmoved.size:
                to_centre += gmoved[n * count + k]
            dstate[n, k] = to_centre
            dp[n, k] = to_centre * step
            dp[n, count + k] = to_width * work[k] / width * spread
            dp[n, 2 * count + k] = to_mixture
            inner += work[k] * to_mixture
        for k in range(count):
            dp[n, 2 * count + k] = work[k] * (dp[n, 2 * count + k] - inner)
