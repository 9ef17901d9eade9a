"""softmax over the rows of a matrix, and its derivative. A row's result depends on nothing but the row.

Sums stand in loops of their own that write nothing: the compiler then orders their terms alike in every variant of a
kernel (in place or not, on threads or not), so that no bit depends on the variant.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.exponential import exp
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.shares import share

Array = npt.NDArray[Any]
f32 = np.float32
i32 = np.int32
_SIGN = i32(0x7FFFFFFF)


@kernel()
def largest(x: Array, row: int) -> np.float32:
    """The largest element of a row.

    Bits are compared as integers in the order of the floats, because only that becomes vector code while NaN is heeded.
    """
    best = i32(-0x80000000)
    for j in range(x.shape[1]):
        bits = np.float32(x[row, j]).view(np.int32)
        ordered = i32(bits ^ i32(i32(bits >> i32(31)) & _SIGN))
        best = ordered if ordered > best else best
    return np.int32(best ^ i32(i32(best >> i32(31)) & _SIGN)).view(np.float32)


@kernel()
def row_sum(x: Array, row: int) -> np.float32:
    """The sum of a row."""
    total = f32(0.0)
    for j in range(x.shape[1]):
        total += x[row, j]
    return total


@kernel()
def row_product(x: Array, y: Array, row: int) -> np.float32:
    """The inner product of two rows."""
    total = f32(0.0)
    for j in range(x.shape[1]):
        total += x[row, j] * y[row, j]
    return total


@kernel()
def softmax_part(part: int, parts: int, x: Array, out: Array | None) -> None:
    result = x if out is None else out
    first, last = share(part, parts, x.shape[0], 1)
    width = x.shape[1]
    for i in range(first, last):
        top = largest(x, i)
        for j in range(width):
            result[i, j] = exp(x[i, j] - top)
        factor = f32(1.0) / row_sum(result, i)
        for j in range(width):
            result[i, j] *= factor


@kernel(forks=True)
def softmax(x: Array, out: Array | None, parts: int) -> None:
    """``exp(x - max) / sum`` of the rows of ``x``; ``out`` None: in place."""
    fork_join(softmax_part, parts, (x, out))


@kernel()
def softmax_derivative_part(part: int, parts: int, y: Array, g: Array, out: Array | None) -> None:
    result = g if out is None else out
    first, last = share(part, parts, y.shape[0], 1)
    width = y.shape[1]
    for i in range(first, last):
        inner = row_product(g, y, i)
        for j in range(width):
            result[i, j] = y[i, j] * (g[i, j] - inner)


@kernel(forks=True)
def softmax_derivative(y: Array, g: Array, out: Array | None, parts: int) -> None:
    """``y * (g - sum(g * y))`` of the rows; ``out`` None: in ``g``."""
    fork_join(softmax_derivative_part, parts, (y, g, out))
