"""Sums, copies and fills of flat arrays.

``out`` None means in place, in the first operand: the compiler then knows that it is the same memory.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from numba import prange

from nntrainer_py.tensor.kernels.compile import kernel

Array = npt.NDArray[Any]
CHUNK = 16384  # elements that one thread takes at a time
BLOCK = 2048  # elements of a many-fold sum that stay in the first cache


@kernel()
def fill(out: Array, value: float) -> None:
    """The same value everywhere."""
    for i in range(out.size):
        out[i] = value


@kernel()
def copy(x: Array, out: Array) -> None:
    """The same elements elsewhere; other element types are converted."""
    for i in range(x.size):
        out[i] = x[i]


@kernel()
def add(x: Array, y: Array, out: Array | None) -> None:
    """``x + y``."""
    if out is None:
        result = x
    else:
        result = out
    for i in range(x.size):
        result[i] = x[i] + y[i]


@kernel()
def add_many(arrays: tuple[Array, ...], out: Array | None) -> None:
    """The sum of three or more arrays, added from the first to the last."""
    if out is None:
        result = arrays[0]
    else:
        result = out
    size = result.size
    for start in range(0, size, BLOCK):
        stop = min(start + BLOCK, size)
        add(arrays[0][start:stop], arrays[1][start:stop], None if out is None else out[start:stop])
        for k in range(2, len(arrays)):
            add(result[start:stop], arrays[k][start:stop], None)


@kernel(parallel=True)
def fill_parallel(out: Array, value: float, parts: int) -> None:
    """`fill` in ``parts`` chunks."""
    for part in prange(parts):
        fill(out[part * CHUNK : (part + 1) * CHUNK], value)


@kernel(parallel=True)
def copy_parallel(x: Array, out: Array, parts: int) -> None:
    """`copy` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        copy(x[a:b], out[a:b])


@kernel(parallel=True)
def add_parallel(x: Array, y: Array, out: Array | None, parts: int) -> None:
    """`add` in ``parts`` chunks."""
    for part in prange(parts):
        a, b = part * CHUNK, (part + 1) * CHUNK
        add(x[a:b], y[a:b], None if out is None else out[a:b])
