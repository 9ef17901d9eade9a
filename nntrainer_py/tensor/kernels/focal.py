"""Focal loss over a softmax: cross entropy in which samples that are right already count less.

Arrays are matrices whose rows are the width of a tensor; labels are described in `labels`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.labels import BAD, finish, target, valid_distribution, valid_index
from nntrainer_py.tensor.kernels.shares import share
from nntrainer_py.tensor.kernels.softmax import largest

Array = npt.NDArray[Any]
f32 = np.float32
SAMPLES, LOSS_SCALE = 1, 2  # places in StepState.numbers


@kernel()
def focal_slope(p: float, a: float, gamma: float) -> float:
    """``p`` times the derivative of ``-a (1 - p)**gamma ln p``."""
    if a == 0.0 or p >= 1.0:
        return 0.0 if a == 0.0 or gamma > 0.0 else -a
    q = 1.0 - p
    if p < 1e-38:
        return -a  # p ln p is zero there
    return float(a * (gamma * p * q ** (gamma - 1.0) * math.log(p) - q**gamma))


@kernel()
def focal_part(
    part: int, parts: int, x: Array, t: Array, indices: bool, weights: Array, gamma: float, out: Array | None,
    sums: Array,
) -> None:  # fmt: skip
    result = x if out is None else out
    first, last = share(part, parts, x.shape[0], 1)
    classes = x.shape[1]
    for i in range(first, last):
        good = valid_index(t[i, 0], classes) if indices else valid_distribution(t, i)
        k = int(t[i, 0]) if indices and good else 0
        top = np.float64(largest(x, i))
        spread = 0.0
        for j in range(classes):
            spread += math.exp(np.float64(x[i, j]) - top)
        logarithm = math.log(spread)
        value = 0.0
        for j in range(classes):
            label = (1.0 if j == k else 0.0) if indices else np.float64(t[i, j])
            log_p = np.float64(x[i, j]) - top - logarithm
            if label != 0.0:
                value -= target(label, weights, j, 0.0, 0.0) * (-math.expm1(log_p)) ** gamma * log_p
            result[i, j] = f32(math.exp(log_p))
        sums[i] = value if good else BAD


@kernel(forks=True)
def focal(
    x: Array, t: Array, indices: bool, weights: Array, gamma: float, factor: float, numbers: Array, status: Array,
    rows: int, out: Array | None, sums: Array, loss: Array, parts: int,
) -> None:  # fmt: skip
    """Softmax, and the mean over the samples of ``-sum_j a_j (1 - p_j)**gamma ln p_j``."""
    fork_join(focal_part, parts, (x, t, indices, weights, gamma, out, sums))
    finish(sums, t, indices, numbers[SAMPLES] / factor, rows, numbers, status, loss)


@kernel()
def focal_derivative_part(
    part: int, parts: int, p: Array, t: Array, indices: bool, weights: Array, gamma: float, factor: float,
    numbers: Array, out: Array | None,
) -> None:  # fmt: skip
    result = p if out is None else out
    first, last = share(part, parts, p.shape[0], 1)
    classes = p.shape[1]
    scale = factor * numbers[LOSS_SCALE] / numbers[SAMPLES]
    for i in range(first, last):
        good = valid_index(t[i, 0], classes) if indices else True
        k = int(t[i, 0]) if indices and good else 0
        mass = 0.0 if good else np.nan
        for j in range(classes):
            label = (1.0 if j == k else 0.0) if indices else np.float64(t[i, j])
            mass += focal_slope(np.float64(p[i, j]), target(label, weights, j, 0.0, 0.0), gamma)
        for j in range(classes):
            label = (1.0 if j == k else 0.0) if indices else np.float64(t[i, j])
            v = np.float64(p[i, j])
            q = focal_slope(v, target(label, weights, j, 0.0, 0.0), gamma)
            result[i, j] = f32((q - v * mass) * scale)


@kernel(forks=True)
def focal_derivative(
    p: Array, t: Array, indices: bool, weights: Array, gamma: float, factor: float, numbers: Array,
    out: Array | None, parts: int,
) -> None:  # fmt: skip
    """``(q_k - p_k sum(q)) / N`` with ``q = a (gamma p (1 - p)**(gamma - 1) ln p - (1 - p)**gamma)``."""
    fork_join(focal_derivative_part, parts, (p, t, indices, weights, gamma, factor, numbers, out))
