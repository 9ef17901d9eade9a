"""The rules of the optimizers: one pass over weight, gradient and state, in place.

Every kernel first forms ``g = gradient * scale + decay * weight`` (clipping, then regularizer and decay, in NNTrainer's
order). Arrays are flat parts of a weight. ``1 - beta`` is formed in float64 by the callers (``c1``, ``c2``, ``rest``):
from the float32 nearest to 0.999 it would be off by 5e-5.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel

Array = npt.NDArray[Any]
f32 = np.float32


@kernel()
def sgd_part(w: Array, g: Array, scale: np.float32, decay: np.float32, rate: np.float32) -> None:
    """``w -= rate * g``."""
    for i in range(w.size):
        w[i] -= rate * (g[i] * scale + decay * w[i])


@kernel()
def momentum_part(
    w: Array,
    g: Array,
    v: Array,
    scale: np.float32,
    decay: np.float32,
    rate: np.float32,
    momentum: np.float32,
    ahead: np.float32,
    now: np.float32,
) -> None:
    """``v = momentum * v + g``, ``w -= rate * (ahead * v + now * g)``."""
    for i in range(w.size):
        d = g[i] * scale + decay * w[i]
        u = momentum * v[i] + d
        v[i] = u
        w[i] -= rate * (ahead * u + now * d)


@kernel()
def adam_part(
    w: Array,
    g: Array,
    m: Array,
    v: Array,
    scale: np.float32,
    decay: np.float32,
    keep: np.float32,
    b1: np.float32,
    b2: np.float32,
    c1: np.float32,
    c2: np.float32,
    rate: np.float32,
    root: np.float32,
    epsilon: np.float32,
) -> None:
    """Moments, then ``w = keep * w - rate * m / (root * sqrt(v) + epsilon)``."""
    for i in range(w.size):
        d = g[i] * scale + decay * w[i]
        a = b1 * m[i] + c1 * d
        b = b2 * v[i] + c2 * d * d
        m[i] = a
        v[i] = b
        w[i] = keep * w[i] - rate * a / (root * np.sqrt(b) + epsilon)


@kernel()
def rmsprop_part(
    w: Array,
    g: Array,
    v: Array,
    scale: np.float32,
    decay: np.float32,
    rate: np.float32,
    rho: np.float32,
    rest: np.float32,
    epsilon: np.float32,
) -> None:
    """``v = rho * v + (1 - rho) * g**2``, ``w -= rate * g / (sqrt(v) + epsilon)``."""
    for i in range(w.size):
        d = g[i] * scale + decay * w[i]
        b = rho * v[i] + rest * d * d
        v[i] = b
        w[i] -= rate * d / (np.sqrt(b) + epsilon)


@kernel()
def adagrad_part(
    w: Array, g: Array, v: Array, scale: np.float32, decay: np.float32, rate: np.float32, epsilon: np.float32
) -> None:
    """``v += g**2``, ``w -= rate * g / (sqrt(v) + epsilon)``."""
    for i in range(w.size):
        d = g[i] * scale + decay * w[i]
        b = v[i] + d * d
        v[i] = b
        w[i] -= rate * d / (np.sqrt(b) + epsilon)


@kernel()
def lion_part(
    w: Array,
    g: Array,
    m: Array,
    scale: np.float32,
    decay: np.float32,
    keep: np.float32,
    rate: np.float32,
    b1: np.float32,
    b2: np.float32,
    c1: np.float32,
    c2: np.float32,
) -> None:
    """``w = keep * w - rate * sign(b1 * m + (1 - b1) * g)``, ``m = b2 * m + (1 - b2) * g``; NaN stays NaN."""
    for i in range(w.size):
        d = g[i] * scale + decay * w[i]
        u = b1 * m[i] + c1 * d
        step = f32(1.0) if u > f32(0.0) else (f32(-1.0) if u < f32(0.0) else u)
        m[i] = b2 * m[i] + c2 * d
        w[i] = keep * w[i] - rate * step


@kernel()
def lamb_part(
    w: Array,
    g: Array,
    m: Array,
    v: Array,
    scale: np.float32,
    decay: np.float32,
    weight_decay: np.float32,
    b1: np.float32,
    b2: np.float32,
    c1: np.float32,
    c2: np.float32,
    rate: np.float32,
    root: np.float32,
    epsilon: np.float32,
    norms: Array,
) -> None:
    """Moments, and in ``norms`` the sums of squares of ``w`` and of the step (see `lamb_step`)."""
    weights, steps = 0.0, 0.0
    for i in range(w.size):
        d = g[i] * scale + decay * w[i]
        a = b1 * m[i] + c1 * d
        b = b2 * v[i] + c2 * d * d
        m[i] = a
        v[i] = b
        step = rate * a / (root * np.sqrt(b) + epsilon) + weight_decay * w[i]
        weights += np.float64(w[i]) * np.float64(w[i])
        steps += np.float64(step) * np.float64(step)
    norms[0], norms[1] = weights, steps


@kernel()
def lamb_step(
    w: Array,
    m: Array,
    v: Array,
    weight_decay: np.float32,
    rate: np.float32,
    root: np.float32,
    epsilon: np.float32,
    trust: np.float32,
) -> None:
    """``w -= trust * (rate * m / (root * sqrt(v) + epsilon) + weight_decay * w)``."""
    for i in range(w.size):
        w[i] -= trust * (rate * m[i] / (root * np.sqrt(v[i]) + epsilon) + weight_decay * w[i])
