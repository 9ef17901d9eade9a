"""Sums over all axes but one. An array is seen as ``(outer, kept, inner)``; sums are float64 in fixed order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.shares import share

Array = npt.NDArray[Any]
COLUMNS = 64  # kept elements that stay together when they are the last axis


@kernel()
def sum_columns_part(part: int, parts: int, x: Array, out: Array, accumulate: bool, sums: Array) -> None:
    first, last = share(part, parts, x.shape[1], COLUMNS)
    for j in range(first, last):
        sums[j] = 0.0
    whole = x.shape[0] // 8 * 8
    for i in range(0, whole, 8):
        # eight rows in float32, a pass over the float64 sums for all of them
        for j in range(first, last):
            low = (x[i, j] + x[i + 1, j]) + (x[i + 2, j] + x[i + 3, j])
            high = (x[i + 4, j] + x[i + 5, j]) + (x[i + 6, j] + x[i + 7, j])
            sums[j] += np.float64(low + high)
    for i in range(whole, x.shape[0]):
        for j in range(first, last):
            sums[j] += np.float64(x[i, j])
    if accumulate:
        for j in range(first, last):
            out[j] += np.float32(sums[j])
    else:
        for j in range(first, last):
            out[j] = np.float32(sums[j])


@kernel(forks=True)
def sum_columns(x: Array, out: Array, accumulate: bool, sums: Array, parts: int) -> None:
    """``x`` (outer, kept): the sum of each column; ``sums`` is float64 work space (kept)."""
    fork_join(sum_columns_part, parts, (x, out, accumulate, sums))


@kernel()
def sum_planes_part(part: int, parts: int, x: Array, out: Array, accumulate: bool) -> None:
    first, last = share(part, parts, x.shape[1], 1)
    for k in range(first, last):
        total = 0.0
        for i in range(x.shape[0]):
            some = np.float32(0.0)
            for j in range(x.shape[2]):
                some += x[i, k, j]
            total += np.float64(some)
        out[k] = np.float32(total) + (out[k] if accumulate else np.float32(0.0))


@kernel(forks=True)
def sum_planes(x: Array, out: Array, accumulate: bool, parts: int) -> None:
    """``x`` (outer, kept, inner): the sum of each ``x[:, k, :]``."""
    fork_join(sum_planes_part, parts, (x, out, accumulate))
