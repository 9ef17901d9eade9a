"""Rows of a table by index, and the scatter-add of their gradients; the same for any axis of a 4-D array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.shares import share

Array = npt.NDArray[Any]
Steps = tuple[int, int, int, int]
f4 = np.float32
INDEX_OUT_OF_RANGE = 2  # the code in the status word
OFFSET = 2  # place in ``counters``


@kernel()
def row_of(value: float, rows: int) -> int:
    """The index that a float stands for (truncated), or -1 when it is none of 0 to ``rows - 1``."""
    if not (value > -1.0 and value < rows):  # false for NaN too
        return -1
    return int(value)


@kernel()
def lookup(indices: Array, table: Array, out: Array, status: Array, counters: Array) -> None:
    """``out[n, k] = table[indices[n, k]]``; a bad index gives zeros and leaves its sample in ``status``."""
    rows, width = table.shape
    for n in range(indices.shape[0]):
        for k in range(indices.shape[1]):
            row, target = row_of(indices[n, k], rows), out[n, k]
            if row < 0:
                if status[0] == 0:
                    status[0] = INDEX_OUT_OF_RANGE
                    status[1] = counters[OFFSET] + n
                for i in range(width):
                    target[i] = f4(0.0)
            else:
                source = table[row]
                for i in range(width):
                    target[i] = source[i]


@kernel()
def scatter_part(part: int, parts: int, indices: Array, g: Array, out: Array, accumulate: bool) -> None:
    """A share of the columns."""
    begin, end = share(part, parts, out.shape[1], 1)
    if not accumulate:
        for row in range(out.shape[0]):
            for i in range(begin, end):
                out[row, i] = f4(0.0)
    for k in range(indices.size):
        row = row_of(indices[k], out.shape[0])
        if row >= 0:
            for i in range(begin, end):
                out[row, i] += g[k, i]


@kernel(forks=True)
def scatter(indices: Array, g: Array, out: Array, accumulate: bool, parts: int) -> None:
    """``out[indices[k]] += g[k]`` in the order of k; ``out`` starts as zeros unless ``accumulate``."""
    fork_join(scatter_part, parts, (indices, g, out, accumulate))


@kernel()
def gather(
    data: Array, indices: Array, steps: Steps, step: int, rows: int, out: Array, status: Array, counters: Array
) -> None:
    """``out[n, c, h, w] = data`` at the same place with one axis replaced by ``indices[n, c, h, w]``.

    ``data`` is flat; ``steps`` are its strides with 0 for the gathered axis, ``step`` that one's, ``rows`` its size.
    """
    for n in range(out.shape[0]):
        for c in range(out.shape[1]):
            for h in range(out.shape[2]):
                base = n * steps[0] + c * steps[1] + h * steps[2]
                for w in range(out.shape[3]):
                    row = row_of(indices[n, c, h, w], rows)
                    if row < 0:
                        if status[0] == 0:
                            status[0] = INDEX_OUT_OF_RANGE
                            status[1] = counters[OFFSET] + n
                        out[n, c, h, w] = f4(0.0)
                    else:
                        out[n, c, h, w] = data[base + w * steps[3] + row * step]


@kernel()
def gather_derivative(indices: Array, steps: Steps, step: int, rows: int, g: Array, out: Array) -> None:
    """Adds every ``g`` to the place that `gather` took its value from; ``out`` (flat) starts as zeros."""
    for k in range(out.size):
        out[k] = f4(0.0)
    for n in range(g.shape[0]):
        for c in range(g.shape[1]):
            for h in range(g.shape[2]):
                base = n * steps[0] + c * steps[1] + h * steps[2]
                for w in range(g.shape[3]):
                    row = row_of(indices[n, c, h, w], rows)
                    if row >= 0:
                        out[base + w * steps[3] + row * step] += g[n, c, h, w]
