"""Optimizer updates of whole weights, serial and on threads, and the clipping of gradients.

The numbers that change from step to step come from the step state and are prepared in float64: the learning rate, the
loss scale (taken out of the gradient again) and the count t of updates done before. The rules are in `update_rules`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import prange

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.update_rules import (
    adagrad_part,
    adam_part,
    lamb_part,
    lamb_step,
    lion_part,
    momentum_part,
    rmsprop_part,
    sgd_part,
)

Array = npt.NDArray[Any]
f32 = np.float32
LEARNING_RATE, LOSS_SCALE = 0, 2  # places in StepState.numbers
ITERATION = 0  # place in StepState.counters
CHUNK = 16384  # elements that one thread takes at a time


@kernel()
def corrections(b1: float, b2: float, counters: Array) -> tuple[float, float]:
    """``1 - beta**(t + 1)`` of both moments."""
    t = counters[ITERATION] + 1
    return 1.0 - b1**t, 1.0 - b2**t


@kernel()
def gradient_factor(scale: Array, numbers: Array) -> np.float32:
    """The clip factor, and the loss scale taken out again."""
    return f32(scale[0] / numbers[LOSS_SCALE])


@kernel()
def adam_numbers(
    b1: float, b2: float, torch_ref: bool, weight_decay: float, numbers: Array, counters: Array
) -> tuple[np.float32, np.float32, np.float32]:
    """(keep, rate, root) of `adam_part`; ``torch_ref``: epsilon is added after the bias correction."""
    first, second = corrections(b1, b2, counters)
    rate = numbers[LEARNING_RATE]
    keep = 1.0 - rate * weight_decay
    if torch_ref:
        return f32(keep), f32(rate / first), f32(1.0 / math.sqrt(second))
    return f32(keep), f32(rate * math.sqrt(second) / first), f32(1.0)


@kernel()
def lamb_trust(norms: Array, rate: float) -> np.float32:
    """``rate * |w| / |step|``, or ``rate`` where one of them is zero; parts are added in order."""
    weights, steps = 0.0, 0.0
    for part in range(norms.shape[0]):
        weights += norms[part, 0]
        steps += norms[part, 1]
    if weights == 0.0 or steps == 0.0:
        return f32(rate)
    return f32(rate * math.sqrt(weights / steps))


@kernel()
def sgd(
    w: Array,
    g: Array,
    scale: Array,
    decay: float,
    numbers: Array,
    counters: Array,
) -> None:
    """Update of one weight."""
    factor, share = gradient_factor(scale, numbers), f32(decay)
    rate = f32(numbers[LEARNING_RATE])
    sgd_part(w, g, factor, share, rate)


@kernel(parallel=True)
def sgd_parallel(
    w: Array,
    g: Array,
    scale: Array,
    decay: float,
    numbers: Array,
    counters: Array,
    parts: int,
) -> None:
    """`sgd` in ``parts`` chunks."""
    factor, share = gradient_factor(scale, numbers), f32(decay)
    rate = f32(numbers[LEARNING_RATE])
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        sgd_part(w[a:b], g[a:b], factor, share, rate)


@kernel()
def momentum(
    w: Array,
    g: Array,
    v: Array,
    scale: Array,
    decay: float,
    momentum: float,
    nesterov: bool,
    numbers: Array,
    counters: Array,
) -> None:
    """Update of one weight."""
    factor, share = gradient_factor(scale, numbers), f32(decay)
    rate = f32(numbers[LEARNING_RATE])
    kept = f32(momentum)
    ahead, now = (kept, f32(1.0)) if nesterov else (f32(1.0), f32(0.0))
    momentum_part(w, g, v, factor, share, rate, kept, ahead, now)


@kernel(parallel=True)
def momentum_parallel(
    w: Array,
    g: Array,
    v: Array,
    scale: Array,
    decay: float,
    momentum: float,
    nesterov: bool,
    numbers: Array,
    counters: Array,
    parts: int,
) -> None:
    """`momentum` in ``parts`` chunks."""
    factor, share = gradient_factor(scale, numbers), f32(decay)
    rate = f32(numbers[LEARNING_RATE])
    kept = f32(momentum)
    ahead, now = (kept, f32(1.0)) if nesterov else (f32(1.0), f32(0.0))
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        momentum_part(w[a:b], g[a:b], v[a:b], factor, share, rate, kept, ahead, now)


@kernel()
def adam(
    w: Array,
    g: Array,
    m: Array,
    v: Array,
    scale: Array,
    decay: float,
    b1: float,
    b2: float,
    epsilon: float,
    weight_decay: float,
    torch_ref: bool,
    numbers: Array,
    counters: Array,
) -> None:
    """Update of one weight."""
    factor, share = gradient_factor(scale, numbers), f32(decay)
    keep, rate, root = adam_numbers(b1, b2, torch_ref, weight_decay, numbers, counters)
    beta1, beta2, least = f32(b1), f32(b2), f32(epsilon)
    rest1, rest2 = f32(1.0 - b1), f32(1.0 - b2)
    adam_part(w, g, m, v, factor, share, keep, beta1, beta2, rest1, rest2, rate, root, least)


@kernel(parallel=True)
def adam_parallel(
    w: Array,
    g: Array,
    m: Array,
    v: Array,
    scale: Array,
    decay: float,
    b1: float,
    b2: float,
    epsilon: float,
    weight_decay: float,
    torch_ref: bool,
    numbers: Array,
    counters: Array,
    parts: int,
) -> None:
    """`adam` in ``parts`` chunks."""
    factor, share = gradient_factor(scale, numbers), f32(decay)
    keep, rate, root = adam_numbers(b1, b2, torch_ref, weight_decay, numbers, counters)
    beta1, beta2, least = f32(b1), f32(b2), f32(epsilon)
    rest1, rest2 = f32(1.0 - b1), f32(1.0 - b2)
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        adam_part(w[a:b], g[a:b], m[a:b], v[a:b], factor, share, keep, beta1, beta2, rest1, rest2, rate, root, least)


@kernel()
def rmsprop(
    w: Array,
    g: Array,
    v: Array,
    scale: Array,
    decay: float,
    rho: float,
    epsilon: float,
    numbers: Array,
    counters: Array,
) -> None:
    """Update of one weight."""
    factor, share = gradient_factor(scale, numbers), f32(decay)
    rate, least = f32(numbers[LEARNING_RATE]), f32(epsilon)
    kept, rest = f32(rho), f32(1.0 - rho)
    rmsprop_part(w, g, v, factor, share, rate, kept, rest, least)


@kernel(parallel=True)
def rmsprop_parallel(
    w: Array,
    g: Array,
    v: Array,
    scale: Array,
    decay: float,
    rho: float,
    epsilon: float,
    numbers: Array,
    counters: Array,
    parts: int,
) -> None:
    """`rmsprop` in ``parts`` chunks."""
    factor, share = gradient_factor(scale, numbers), f32(decay)
    rate, least = f32(numbers[LEARNING_RATE]), f32(epsilon)
    kept, rest = f32(rho), f32(1.0 - rho)
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        rmsprop_part(w[a:b], g[a:b], v[a:b], factor, share, rate, kept, rest, least)


@kernel()
def adagrad(
    w: Array,
    g: Array,
    v: Array,
    scale: Array,
    decay: float,
    epsilon: float,
    numbers: Array,
    counters: Array,
) -> None:
    """Update of one weight."""
    factor, share = gradient_factor(scale, numbers), f32(decay)
    rate, least = f32(numbers[LEARNING_RATE]), f32(epsilon)
    adagrad_part(w, g, v, factor, share, rate, least)


@kernel(parallel=True)
def adagrad_parallel(
    w: Array,
    g: Array,
    v: Array,
    scale: Array,
    decay: float,
    epsilon: float,
    numbers: Array,
    counters: Array,
    parts: int,
) -> None:
    """`adagrad` in ``parts`` chunks."""
    factor, share = gradient_factor(scale, numbers), f32(decay)
    rate, least = f32(numbers[LEARNING_RATE]), f32(epsilon)
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        adagrad_part(w[a:b], g[a:b], v[a:b], factor, share, rate, least)


@kernel()
def lion(
    w: Array,
    g: Array,
    m: Array,
    scale: Array,
    decay: float,
    b1: float,
    b2: float,
    weight_decay: float,
    numbers: Array,
    counters: Array,
) -> None:
    """Update of one weight."""
    factor, share = gradient_factor(scale, numbers), f32(decay)
    rate, beta1, beta2 = f32(numbers[LEARNING_RATE]), f32(b1), f32(b2)
    rest1, rest2 = f32(1.0 - b1), f32(1.0 - b2)
    keep = f32(1.0 - numbers[LEARNING_RATE] * weight_decay)
    lion_part(w, g, m, factor, share, keep, rate, beta1, beta2, rest1, rest2)


@kernel(parallel=True)
def lion_parallel(
    w: Array,
    g: Array,
    m: Array,
    scale: Array,
    decay: float,
    b1: float,
    b2: float,
    weight_decay: float,
    numbers: Array,
    counters: Array,
    parts: int,
) -> None:
    """`lion` in ``parts`` chunks."""
    factor, share = gradient_factor(scale, numbers), f32(decay)
    rate, beta1, beta2 = f32(numbers[LEARNING_RATE]), f32(b1), f32(b2)
    rest1, rest2 = f32(1.0 - b1), f32(1.0 - b2)
    keep = f32(1.0 - numbers[LEARNING_RATE] * weight_decay)
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        lion_part(w[a:b], g[a:b], m[a:b], factor, share, keep, rate, beta1, beta2, rest1, rest2)


@kernel()
def lamb(
    w: Array,
    g: Array,
    m: Array,
    v: Array,
    scale: Array,
    decay: float,
    b1: float,
    b2: float,
    epsilon: float,
    weight_decay: float,
    numbers: Array,
    counters: Array,
    norms: Array,
) -> None:
    """Update of one weight; ``norms`` is float64 work space (chunks, 2), so that threads add alike."""
    factor, share, linear = gradient_factor(scale, numbers), f32(decay), f32(weight_decay)
    first, second = corrections(b1, b2, counters)
    rate, root = f32(1.0 / first), f32(1.0 / math.sqrt(second))
    beta1, beta2, least = f32(b1), f32(b2), f32(epsilon)
    rest1, rest2 = f32(1.0 - b1), f32(1.0 - b2)
    for part in range(norms.shape[0]):
        a, b = part * CHUNK, (part + 1) * CHUNK
        lamb_part(
            w[a:b],
            g[a:b],
            m[a:b],
            v[a:b],
            factor,
            share,
            linear,
            beta1,
            beta2,
            rest1,
            rest2,
            rate,
            root,
            least,
            norms[part],
        )
    trust = lamb_trust(norms, numbers[LEARNING_RATE])
    for part in range(norms.shape[0]):
        a, b = part * CHUNK, (part + 1) * CHUNK
        lamb_step(w[a:b], m[a:b], v[a:b], linear, rate, root, least, trust)


@kernel()
def sum_squares(x: Array) -> float:
    """Sum of squares of a chunk, in float64."""
    value = 0.0
    for i in range(x.size):
        value += np.float64(x[i]) * np.float64(x[i])
    return value


@kernel()
def global_norm(arrays: tuple[Array, ...], numbers: Array, norm: Array) -> None:
    """Square root of the sum of squares of all arrays, without the loss scale; chunks are added in order."""
    value = 0.0
    for k in range(len(arrays)):
        for start in range(0, arrays[k].size, CHUNK):
            value += sum_squares(arrays[k][start : start + CHUNK])
    norm[0] = math.sqrt(value) / numbers[LOSS_SCALE]


@kernel()
def clip_scale(norm: Array, limit: float, scale: Array) -> None:
    """``limit / (norm + 1e-6)`` where ``norm + 1e-6`` is above the limit, else 1."""
    size = norm[0] + 1e-6
    scale[0] = limit / size if size > limit else 1.0
