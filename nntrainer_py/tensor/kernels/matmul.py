"""Matrix products of float32 arrays on the register tile.

``C[b] (+)= op(A[b]) op(B[b])`` with an optional bias row and rectification.  The sum over the inner dimension runs in
blocks of ``DEPTH`` in ascending order, whatever the number of rows, the position of a row, the batch or the threads.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.micro_kernel import (
    ADD_ROWS,
    COLUMNS,
    LANES,
    RELU,
    ROWS,
    product,
    product_packing,
    transpose,
)
from nntrainer_py.tensor.kernels.vectors import copy_run

Array = npt.NDArray[np.float32]
Rate = npt.NDArray[np.float64]

DEPTH = 256  # inner dimension per block: a packed panel (32 KiB) stays in the first cache
PANELS = 4  # column panels packed side by side: A is read once per PANELS * COLUMNS columns
PARALLEL_FLOPS = 1_000_000  # below this one thread is as fast (4 microseconds at 240 GF/s)


def matmul_scratch(depth: int, columns: int, parts: int) -> int:
    """Bytes of scratch for an inner dimension ``depth``, ``columns`` columns of C and ``parts`` parts."""
    return 4 * parts * _part_floats(depth, columns)


def _part_floats(depth: int, columns: int) -> int:
    block = min(DEPTH, max(depth, 1))
    panels = min(PANELS, -(-max(columns, 1) // COLUMNS))
    return block * (panels * COLUMNS + ROWS) + 16


@kernel()
def pack_columns(source: int, stride: int, depth: int, columns: int, scale: np.float32, target: int) -> None:
    """Packed panel [depth, COLUMNS] of the rows at ``source`` times ``scale``, zero beyond ``columns``."""
    for j in range(0, COLUMNS, LANES):
        copy_run(source + 4 * j, stride, target + 4 * j, COLUMNS, depth, 0, columns - j, LANES, scale)


@kernel()
def pack_transposed(source: int, stride: int, depth: int, columns: int, target: int) -> None:
    """Packed panel [depth, COLUMNS] of the transpose of ``columns`` rows at ``source``, zero beyond ``columns``."""
    for j in range(0, COLUMNS, LANES):
        for k in range(0, depth, LANES):
            place = target + 4 * (k * COLUMNS + j)
            transpose(source + 4 * (j * stride + k), stride, place, COLUMNS, columns - j, depth - k, LANES)


@kernel()
def pack_rows(source: int, stride: int, rows: int, depth: int, target: int) -> None:
    """Packed tile [depth, ROWS] of ``rows`` columns at ``source``: op(A) where A is stored transposed."""
    for i in range(0, ROWS, LANES):
        width = min(LANES, ROWS - i)
        copy_run(source + 4 * i, stride, target + 4 * i, ROWS, depth, 0, rows - i, width, np.float32(1.0))


@kernel()
def pieces(rows: int) -> int:
    """The largest number of rows up to ``rows`` that the micro-kernel does at once."""
    if rows >= ROWS:
        return ROWS
    if rows >= 6 and ROWS >= 6:
        return 6
    return 4 if rows >= 4 else 2 if rows >= 2 else 1


@kernel()
def multiply_rows(
    rows: int,
    columns: int,
    k: int,
    a: int,
    sai: int,
    sak: int,
    b: int,
    sbk: int,
    c: int,
    ldc: int,
    init: int,
    ldi: int,
    mode: int,
) -> None:
    """``product`` for any number of rows up to ROWS, in pieces that the micro-kernel has."""
    done = 0
    while done < rows:
        left = rows - done
        step = pieces(left)
        place = init + 4 * done * ldi
        product(step, columns, k, a + 4 * done * sai, sai, sak, b, sbk, c + 4 * done * ldc, ldc, place, ldi, mode)
        done += step


@kernel()
def _block(
    a: int,
    sai: int,
    sak: int,
    b: int,
    ldb: int,
    direct: int,
    c: int,
    n: int,
    bias: int,
    packed: int,
    row0: int,
    row1: int,
    columns: int,
    depth: int,
    k0: int,
    mode: int,
    factor: np.float32,
) -> None:
    """Rows row0..row1 of one block of columns for one block of the inner dimension; ``packed`` holds B's panels.

    ``direct`` 1: B is read where it lies; 2: it is times ``factor``, and the first ROWS rows pack it.
    """
    tile = packed + 4 * depth * ((columns + COLUMNS - 1) // COLUMNS) * COLUMNS
    for i in range(row0, row1, ROWS):
        rows = min(ROWS, row1 - i)
        source, step_i, step_k = a + 4 * (i * sai + k0 * sak), sai, sak
        if sai == 1:
            pack_rows(source, sak, rows, depth, tile)
            source, step_i, step_k = tile, 1, ROWS
        for j in range(0, columns, COLUMNS):
            width = min(COLUMNS, columns - j)
            target = c + 4 * (i * n + j)
            init, ldi = target, n
            if bias != 0:
                init, ldi = bias + 4 * j, 0
            panel, step_b = packed + 4 * depth * j, COLUMNS
            if direct == 2 and i == row0:
                product_packing(
                    width, depth, source, step_i, step_k, b + 4 * j, ldb, target, n, init, ldi, mode, factor, panel
                )
                continue
            if direct == 1:
                panel, step_b = b + 4 * j, ldb
            multiply_rows(rows, width, depth, source, step_i, step_k, panel, step_b, target, n, init, ldi, mode)


@kernel()
def matmul_part(
    part: int,
    parts: int,
    a: Array,
    transpose_a: int,
    b: Array,
    transpose_b: int,
    bias: Array,
    c: Array,
    rate: Rate,
    accumulate: int,
    relu: int,
    scratch: Array,
) -> None:
    """Part ``part`` of ``parts`` of ``C[b] (+)= op(A[b]) op(B[b])``, then ``+ bias``, then ``max(., 0)``.

    A is [batch, M, K] ([batch, K, M] if ``transpose_a``), B is [batch or 1, K, N] ([.., N, K] if ``transpose_b``), C is
    [batch, M, N]; ``bias`` has N elements or none (and is not added where ``accumulate``).  With an element in
    ``rate`` the product is multiplied by minus it (a step of gradient descent on C; not with ``transpose_b``).  All
    contiguous. ``scratch`` has ``matmul_scratch(K, N, parts)`` bytes.
    """
    batch, m, n = c.shape
    k = a.shape[1] if transpose_a else a.shape[2]
    sai, sak = (1, m) if transpose_a else (k, 1)
    ldb = k if transpose_b else n
    panels = (n + COLUMNS - 1) // COLUMNS
    tiles = (m + ROWS - 1) // ROWS
    splits = min(tiles, (parts + batch * panels - 1) // (batch * panels))  # rows are split only if panels are too few
    units = batch * panels * splits
    first, last = part * units // parts, (part + 1) * units // parts
    factor = np.float32(1.0)
    if rate.size:
        factor = np.float32(-rate[0])
    packed = scratch.ctypes.data + 4 * part * (scratch.size // parts)
    finish = RELU if relu else 0
    while first < last:
        at, panel = first // (panels * splits), first // splits % panels
        split = first % splits
        many = 1 if splits > 1 else min(PANELS, min(panels - panel, last - first))
        first += many
        row0, row1 = split * tiles // splits * ROWS, min(m, (split + 1) * tiles // splits * ROWS)
        j0 = panel * COLUMNS
        columns = min(many * COLUMNS, n - j0)
        # Few rows read B too seldom to repay packing; a last narrow panel has no COLUMNS floats to read in each row.
        direct = 0
        if transpose_b == 0 and columns % COLUMNS == 0:
            if row1 - row0 > ROWS:
                direct = 2
            elif rate.size == 0:
                direct = 1
        a_at, c_at = a[at].ctypes.data, c[at].ctypes.data + 4 * j0
        b_at = b[at if b.shape[0] > 1 else 0].ctypes.data + (4 * j0 * ldb if transpose_b else 4 * j0)
        bias_at = bias.ctypes.data + 4 * j0 if bias.size else 0
        for k0 in range(0, k, DEPTH):
            depth = min(DEPTH, k - k0)
            if direct == 0:
                for j in range(0, columns, COLUMNS):
                    width, place = min(COLUMNS, columns - j), packed + 4 * depth * j
                    if transpose_b:
                        pack_transposed(b_at + 4 * (j * ldb + k0), ldb, depth, width, place)
                    else:
                        pack_columns(b_at + 4 * (k0 * ldb + j), ldb, depth, width, factor, place)
            mode = ADD_ROWS if accumulate or k0 > 0 else 0
            init = 0
            if k0 == 0 and bias.size and not accumulate:
                mode, init = ADD_ROWS, bias_at
            if k0 + depth == k:
                mode |= finish
            _block(
                a_at,
                sai,
                sak,
                b_at + 4 * k0 * ldb,
                ldb,
                direct,
                c_at,
                n,
                init,
                packed,
                row0,
                row1,
                columns,
                depth,
                k0,
                mode,
                factor,
            )


@kernel(forks=True)
def matmul(
    a: Array,
    transpose_a: int,
    b: Array,
    transpose_b: int,
    bias: Array,
    c: Array,
    rate: Rate,
    accumulate: int,
    relu: int,
    scratch: Array,
    parts: int,
) -> None:
    """All parts of ``matmul_part``, on as many threads."""
    fork_join(matmul_part, parts, (a, transpose_a, b, transpose_b, bias, c, rate, accumulate, relu, scratch))
