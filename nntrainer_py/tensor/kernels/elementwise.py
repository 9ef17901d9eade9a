"""Sums, copies and fills of flat arrays.

``out`` None means in place, in the first operand: the compiler then knows that it is the same memory.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.shares import CHUNK, share

Array = npt.NDArray[Any]
BLOCK = 2048  # elements of a many-fold sum that stay in the first cache


@kernel()
def fill_part(part: int, parts: int, out: Array, value: float) -> None:
    a, b = share(part, parts, out.size, CHUNK)
    result = out[a:b]
    for i in range(result.size):
        result[i] = value


@kernel(forks=True)
def fill(out: Array, value: float, parts: int) -> None:
    """The same value everywhere."""
    fork_join(fill_part, parts, (out, value))


@kernel()
def copy_part(part: int, parts: int, x: Array, out: Array) -> None:
    a, b = share(part, parts, x.size, CHUNK)
    source, result = x[a:b], out[a:b]
    for i in range(source.size):
        result[i] = source[i]


@kernel(forks=True)
def copy(x: Array, out: Array, parts: int) -> None:
    """The same elements elsewhere; other element types are converted."""
    fork_join(copy_part, parts, (x, out))


@kernel()
def add_part(part: int, parts: int, x: Array, y: Array, out: Array | None) -> None:
    a, b = share(part, parts, x.size, CHUNK)
    first, second = x[a:b], y[a:b]
    result = first if out is None else out[a:b]
    for i in range(first.size):
        result[i] = first[i] + second[i]


@kernel(forks=True)
def add(x: Array, y: Array, out: Array | None, parts: int) -> None:
    """``x + y``."""
    fork_join(add_part, parts, (x, y, out))


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
        add_part(0, 1, arrays[0][start:stop], arrays[1][start:stop], None if out is None else out[start:stop])
        for k in range(2, len(arrays)):
            add_part(0, 1, result[start:stop], arrays[k][start:stop], None)
