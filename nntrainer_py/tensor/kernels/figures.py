"""Figures beside the loss: answers that are right, and sums for the errors of a regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel

Array = npt.NDArray[Any]
f32 = np.float32


@kernel()
def count_correct(x: Array, t: Array, indices: bool, threshold: bool, out: Array) -> None:
    """How many samples (rows) have their largest prediction where the label is largest; the first one wins a tie.

    ``threshold``: one prediction a sample, a logit, which says 1 when positive. NaN is never right.
    """
    count = 0
    for i in range(x.shape[0]):
        if threshold:
            v = x[i, 0]
            count += (v > f32(0.0)) == (t[i, 0] > f32(0.5)) and v == v
            continue
        best, finite = 0, x[i, 0] == x[i, 0]
        for j in range(1, x.shape[1]):
            finite = finite and x[i, j] == x[i, j]
            best = j if x[i, j] > x[i, best] else best
        wanted = int(t[i, 0]) if indices else 0
        if not indices:
            for j in range(1, t.shape[1]):
                wanted = j if t[i, j] > t[i, wanted] else wanted
        count += best == wanted and finite
    out[0] = count


@kernel()
def regression_sums(y: Array, t: Array, sums: Array) -> None:
    """Sums over all elements of ``|y - t|``, ``(y - t)**2``, ``t`` and ``t**2``."""
    absolute, squares, labels, label_squares = 0.0, 0.0, 0.0, 0.0
    for i in range(y.size):
        label = np.float64(t[i])
        d = np.float64(y[i]) - label
        absolute += abs(d)
        squares += d * d
        labels += label
        label_squares += label * label
    sums[0], sums[1], sums[2], sums[3] = absolute, squares, labels, label_squares
