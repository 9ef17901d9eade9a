"""Focal loss over a softmax: cross entropy in which samples that are right already count less.

Arrays are matrices whose rows are the width of a tensor; labels are described in `labels`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.labels import (
    BAD,
    label_derivative,
    label_loss,
    label_of,
    target,
    valid_distribution,
    valid_index,
)
from nntrainer_py.tensor.kernels.softmax import largest

Array = npt.NDArray[Any]
f32 = np.float32


@kernel()
def focal_slope(p: float, a: float, gamma: float) -> float:
    """``p`` times the derivative of ``-a (1 - p)**gamma ln p``."""
    if a == 0.0 or p >= 1.0:
        return 0.0 if a == 0.0 or gamma > 0.0 else -a
    q = 1.0 - p
    if p < 1e-38:
        return -a  # p ln p is zero there
    return float(a * (gamma * p * q ** (gamma - 1.0) * math.log(p) - q**gamma))


@label_loss
def focal(x: Array, t: Array, indices: bool, weights: Array, gamma: float, i: int, out: Array) -> Any:
    """Softmax, and ``-sum_j a_j (1 - p_j)**gamma ln p_j``."""
    good = valid_index(t[i, 0], x.shape[1]) if indices else valid_distribution(t, i)
    k = int(t[i, 0]) if indices and good else 0
    top = np.float64(largest(x, i))
    spread = 0.0
    for j in range(x.shape[1]):
        spread += math.exp(np.float64(x[i, j]) - top)
    logarithm = math.log(spread)
    value = 0.0
    for j in range(x.shape[1]):
        label = label_of(t, i, j, indices, k)
        log_p = np.float64(x[i, j]) - top - logarithm
        if label != 0.0:
            value -= target(label, weights, j, 0.0, 0.0) * (-math.expm1(log_p)) ** gamma * log_p
        out[i, j] = f32(math.exp(log_p))
    return value if good else BAD


@label_derivative
def focal_derivative(
    p: Array, t: Array, indices: bool, weights: Array, gamma: float, scale: float, i: int, out: Array
) -> None:
    """``(q_k - p_k sum(q)) / N`` with ``q = a (gamma p (1 - p)**(gamma - 1) ln p - (1 - p)**gamma)``."""
    good = valid_index(t[i, 0], p.shape[1]) if indices else True
    k = int(t[i, 0]) if indices and good else 0
    mass = 0.0 if good else np.nan
    for j in range(p.shape[1]):
        a = target(label_of(t, i, j, indices, k), weights, j, 0.0, 0.0)
        mass += focal_slope(np.float64(p[i, j]), a, gamma)
    for j in range(p.shape[1]):
        a = target(label_of(t, i, j, indices, k), weights, j, 0.0, 0.0)
        v = np.float64(p[i, j])
        out[i, j] = f32((focal_slope(v, a, gamma) - v * mass) * scale)
