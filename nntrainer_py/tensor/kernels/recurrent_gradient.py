"""Gradient of a recurrent matrix: a matrix product whose rows pair a hidden state with the gates of the step after
it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.matmul import DEPTH, PANELS, multiply_rows, pack_columns, pack_rows
from nntrainer_py.tensor.kernels.micro_kernel import ADD_ROWS, COLUMNS, ROWS

Array = npt.NDArray[np.float32]


def scratch_floats(parts: int) -> int:
    """Work space: packed panels and one packed tile for each part."""
    return parts * DEPTH * (PANELS * COLUMNS + ROWS)


@kernel()
def _part(
    part: int, parts: int, a: Array, b: Array, first: int, columns: int, out: Array, place: int, shift: int,
    accumulate: int, scratch: Array,
) -> None:  # fmt: skip
    """Columns of one part of ``out[:, place : place + columns] (+)= sum of a[n, t - shift]^T b[n, t, first:]``."""
    batch, steps, units = a.shape
    width, panels = b.shape[2], (columns + COLUMNS - 1) // COLUMNS
    per_sample = steps - abs(shift)
    rows = batch * per_sample
    a_at = a.ctypes.data + 4 * units * max(-shift, 0)
    b_at = b.ctypes.data + 4 * (first + width * max(shift, 0))
    packed = scratch.ctypes.data + 4 * part * (scratch.size // parts)
    tile = packed + 4 * DEPTH * PANELS * COLUMNS
    begin, end = part * panels // parts, (part + 1) * panels // parts
    for panel in range(begin, end, PANELS):
        j0 = panel * COLUMNS
        wide = min(columns, min(panel + PANELS, end) * COLUMNS) - j0
        if rows == 0 and not accumulate:
            out[:, place + j0 : place + j0 + wide] = np.float32(0.0)
        for k0 in range(0, rows, DEPTH):
            depth = min(DEPTH, rows - k0)
            done = 0
            while done < depth:  # a run: steps of one sample
                n, t = (k0 + done) // per_sample, (k0 + done) % per_sample
                run = min(per_sample - t, depth - done)
                source = b_at + 4 * ((n * steps + t) * width + j0)
                for j in range(0, wide, COLUMNS):
                    target = packed + 4 * (DEPTH * j + done * COLUMNS)
                    pack_columns(source + 4 * j, width, run, min(COLUMNS, wide - j), np.float32(1.0), target)
                done += run
            for i in range(0, units, ROWS):
                high, done = min(ROWS, units - i), 0
                while done < depth:
                    n, t = (k0 + done) // per_sample, (k0 + done) % per_sample
                    run = min(per_sample - t, depth - done)
                    pack_rows(a_at + 4 * ((n * steps + t) * units + i), units, high, run, tile + 4 * done * ROWS)
                    done += run
                for j in range(0, wide, COLUMNS):
                    c = out.ctypes.data + 4 * (i * out.shape[1] + place + j0 + j)
                    mode = ADD_ROWS if k0 > 0 or accumulate else 0
                    multiply_rows(
                        high, min(COLUMNS, wide - j), depth, tile, 1, ROWS, packed + 4 * DEPTH * j, COLUMNS, c,
                        out.shape[1], c, out.shape[1], mode,
                    )  # fmt: skip


@kernel(forks=True)
def gradient(
    a: Array, b: Array, first: int, columns: int, out: Array, shift: int, accumulate: int, scratch: Array, parts: int
) -> None:
    """``out[u, columns] (+)= sum over samples and steps of a[n, t - shift]^T b[n, t, first : first + columns]``."""
    fork_join(_part, parts, (a, b, first, columns, out, 0, shift, accumulate, scratch))


@kernel(forks=True)
def gradient_of_two(
    a: Array, b: Array, columns: int, a2: Array, b2: Array, first2: int, shift2: int, out: Array, shift: int,
    accumulate: int, scratch: Array, parts: int,
) -> None:  # fmt: skip
    """The first ``columns`` of ``out`` from ``a`` and ``b``, the others from ``a2`` and ``b2[..., first2:]``."""
    rest = out.shape[1] - columns
    fork_join(_part, parts, (a, b, 0, columns, out, 0, shift, accumulate, scratch))
    fork_join(_part, parts, (a2, b2, first2, rest, out, columns, shift2, accumulate, scratch))
