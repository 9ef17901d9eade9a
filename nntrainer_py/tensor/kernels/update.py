"""Optimizer updates of whole weights, in place, and the clipping of gradients.

Every update first forms ``g = gradient * scale + decay * weight`` (clipping, then regularizer and decay, in NNTrainer's
order). The numbers that change from step to step come from the step state and are prepared in float64: the learning
rate, the loss scale (taken out of the gradient again) and the count t of updates done before. So is ``1 - beta``: from
the float32 nearest to 0.999 it would be off by 5e-5.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.shares import CHUNK, share

Array = npt.NDArray[Any]
f32 = np.float32
LEARNING_RATE, LOSS_SCALE = 0, 2  # places in StepState.numbers
ITERATION = 0  # place in StepState.counters


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
    """(keep, rate, root) of `adam`; ``torch_ref``: epsilon is added after the bias correction."""
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
def sgd_part(
    part: int, parts: int, w: Array, g: Array, scale: Array, decay: float, numbers: Array, counters: Array,
) -> None:  # fmt: skip
    factor, decline = gradient_factor(scale, numbers), f32(decay)
    rate = f32(numbers[LEARNING_RATE])
    a, b = share(part, parts, w.size, CHUNK)
    weight, gradient = w[a:b], g[a:b]
    for i in range(weight.size):
        weight[i] -= rate * (gradient[i] * factor + decline * weight[i])


@kernel(forks=True)
def sgd(
    w: Array, g: Array, scale: Array, decay: float, numbers: Array, counters: Array, parts: int,
) -> None:  # fmt: skip
    """``w -= rate * g``."""
    fork_join(sgd_part, parts, (w, g, scale, decay, numbers, counters))


@kernel()
def momentum_part(
    part: int, parts: int, w: Array, g: Array, v: Array, scale: Array, decay: float, momentum: float, nesterov: bool,
    numbers: Array, counters: Array,
) -> None:  # fmt: skip
    factor, decline = gradient_factor(scale, numbers), f32(decay)
    rate, kept = f32(numbers[LEARNING_RATE]), f32(momentum)
    ahead, now = (kept, f32(1.0)) if nesterov else (f32(1.0), f32(0.0))
    a, b = share(part, parts, w.size, CHUNK)
    weight, gradient, speed = w[a:b], g[a:b], v[a:b]
    for i in range(weight.size):
        d = gradient[i] * factor + decline * weight[i]
        u = kept * speed[i] + d
        speed[i] = u
        weight[i] -= rate * (ahead * u + now * d)


@kernel(forks=True)
def momentum(
    w: Array, g: Array, v: Array, scale: Array, decay: float, momentum: float, nesterov: bool, numbers: Array,
    counters: Array, parts: int,
) -> None:  # fmt: skip
    """``v = momentum * v + g``, ``w -= rate * v``; ``nesterov``: ``w -= rate * (g + momentum * v)``."""
    fork_join(momentum_part, parts, (w, g, v, scale, decay, momentum, nesterov, numbers, counters))


@kernel()
def adam_part(
    part: int, parts: int, w: Array, g: Array, m: Array, v: Array, scale: Array, decay: float, b1: float, b2: float,
    epsilon: float, weight_decay: float, torch_ref: bool, numbers: Array, counters: Array,
) -> None:  # fmt: skip
    factor, decline = gradient_factor(scale, numbers), f32(decay)
    keep, rate, root = adam_numbers(b1, b2, torch_ref, weight_decay, numbers, counters)
    beta1, beta2, least = f32(b1), f32(b2), f32(epsilon)
    rest1, rest2 = f32(1.0 - b1), f32(1.0 - b2)
    a, b = share(part, parts, w.size, CHUNK)
    weight, gradient, first, second = w[a:b], g[a:b], m[a:b], v[a:b]
    for i in range(weight.size):
        d = gradient[i] * factor + decline * weight[i]
        one = beta1 * first[i] + rest1 * d
        two = beta2 * second[i] + rest2 * d * d
        first[i] = one
        second[i] = two
        weight[i] = keep * weight[i] - rate * one / (root * np.sqrt(two) + least)


@kernel(forks=True)
def adam(
    w: Array, g: Array, m: Array, v: Array, scale: Array, decay: float, b1: float, b2: float, epsilon: float,
    weight_decay: float, torch_ref: bool, numbers: Array, counters: Array, parts: int,
) -> None:  # fmt: skip
    """Moments, then ``w = keep * w - rate * m / (root * sqrt(v) + epsilon)``; see `adam_numbers`."""
    fork_join(adam_part, parts, (w, g, m, v, scale, decay, b1, b2, epsilon, weight_decay, torch_ref, numbers, counters))


@kernel()
def rmsprop_part(
    part: int, parts: int, w: Array, g: Array, v: Array, scale: Array, decay: float, rho: float, epsilon: float,
    numbers: Array, counters: Array,
) -> None:  # fmt: skip
    factor, decline = gradient_factor(scale, numbers), f32(decay)
    rate, least = f32(numbers[LEARNING_RATE]), f32(epsilon)
    kept, rest = f32(rho), f32(1.0 - rho)
    a, b = share(part, parts, w.size, CHUNK)
    weight, gradient, mean = w[a:b], g[a:b], v[a:b]
    for i in range(weight.size):
        d = gradient[i] * factor + decline * weight[i]
        square = kept * mean[i] + rest * d * d
        mean[i] = square
        weight[i] -= rate * d / (np.sqrt(square) + least)


@kernel(forks=True)
def rmsprop(
    w: Array, g: Array, v: Array, scale: Array, decay: float, rho: float, epsilon: float, numbers: Array,
    counters: Array, parts: int,
) -> None:  # fmt: skip
    """``v = rho * v + (1 - rho) * g**2``, ``w -= rate * g / (sqrt(v) + epsilon)``."""
    fork_join(rmsprop_part, parts, (w, g, v, scale, decay, rho, epsilon, numbers, counters))


@kernel()
def adagrad_part(
    part: int, parts: int, w: Array, g: Array, v: Array, scale: Array, decay: float, epsilon: float, numbers: Array,
    counters: Array,
) -> None:  # fmt: skip
    factor, decline = gradient_factor(scale, numbers), f32(decay)
    rate, least = f32(numbers[LEARNING_RATE]), f32(epsilon)
    a, b = share(part, parts, w.size, CHUNK)
    weight, gradient, sum_of_squares = w[a:b], g[a:b], v[a:b]
    for i in range(weight.size):
        d = gradient[i] * factor + decline * weight[i]
        square = sum_of_squares[i] + d * d
        sum_of_squares[i] = square
        weight[i] -= rate * d / (np.sqrt(square) + least)


@kernel(forks=True)
def adagrad(
    w: Array, g: Array, v: Array, scale: Array, decay: float, epsilon: float, numbers: Array, counters: Array,
    parts: int,
) -> None:  # fmt: skip
    """``v += g**2``, ``w -= rate * g / (sqrt(v) + epsilon)``."""
    fork_join(adagrad_part, parts, (w, g, v, scale, decay, epsilon, numbers, counters))


@kernel()
def lion_part(
    part: int, parts: int, w: Array, g: Array, m: Array, scale: Array, decay: float, b1: float, b2: float,
    weight_decay: float, numbers: Array, counters: Array,
) -> None:  # fmt: skip
    factor, decline = gradient_factor(scale, numbers), f32(decay)
    rate, beta1, beta2 = f32(numbers[LEARNING_RATE]), f32(b1), f32(b2)
    rest1, rest2 = f32(1.0 - b1), f32(1.0 - b2)
    keep = f32(1.0 - numbers[LEARNING_RATE] * weight_decay)
    a, b = share(part, parts, w.size, CHUNK)
    weight, gradient, mean = w[a:b], g[a:b], m[a:b]
    for i in range(weight.size):
        d = gradient[i] * factor + decline * weight[i]
        u = beta1 * mean[i] + rest1 * d
        step = f32(1.0) if u > f32(0.0) else (f32(-1.0) if u < f32(0.0) else u)
        mean[i] = beta2 * mean[i] + rest2 * d
        weight[i] = keep * weight[i] - rate * step


@kernel(forks=True)
def lion(
    w: Array, g: Array, m: Array, scale: Array, decay: float, b1: float, b2: float, weight_decay: float,
    numbers: Array, counters: Array, parts: int,
) -> None:  # fmt: skip
    """``w = keep * w - rate * sign(b1 * m + (1 - b1) * g)``, ``m = b2 * m + (1 - b2) * g``; NaN stays NaN."""
    fork_join(lion_part, parts, (w, g, m, scale, decay, b1, b2, weight_decay, numbers, counters))


@kernel()
def lamb_moments(
    w: Array, g: Array, m: Array, v: Array, scale: np.float32, decay: np.float32, weight_decay: np.float32,
    b1: np.float32, b2: np.float32, c1: np.float32, c2: np.float32, rate: np.float32, root: np.float32,
    epsilon: np.float32, norms: Array,
) -> None:  # fmt: skip
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
    w: Array, m: Array, v: Array, weight_decay: np.float32, rate: np.float32, root: np.float32, epsilon: np.float32,
    trust: np.float32,
) -> None:  # fmt: skip
    """``w -= trust * (rate * m / (root * sqrt(v) + epsilon) + weight_decay * w)``."""
    for i in range(w.size):
        w[i] -= trust * (rate * m[i] / (root * np.sqrt(v[i]) + epsilon) + weight_decay * w[i])


@kernel()
def lamb(
    w: Array, g: Array, m: Array, v: Array, scale: Array, decay: float, b1: float, b2: float, epsilon: float,
    weight_decay: float, numbers: Array, counters: Array, norms: Array,
) -> None:  # fmt: skip
    """Update of one weight; ``norms`` is float64 work space (chunks, 2), so that threads add alike."""
    factor, decline, linear = gradient_factor(scale, numbers), f32(decay), f32(weight_decay)
    first, second = corrections(b1, b2, counters)
    rate, root = f32(1.0 / first), f32(1.0 / math.sqrt(second))
    beta1, beta2, least = f32(b1), f32(b2), f32(epsilon)
    rest1, rest2 = f32(1.0 - b1), f32(1.0 - b2)
    for part in range(norms.shape[0]):
        a, b = part * CHUNK, (part + 1) * CHUNK
        lamb_moments(
            w[a:b], g[a:b], m[a:b], v[a:b], factor, decline, linear, beta1, beta2, rest1, rest2, rate, root, least,
            norms[part],
        )  # fmt: skip
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
