"""The phases of a Winograd convolution, each cut in parts that threads can do in any order (see ``winograd``).

Turned arrays hold vectors of LANES channels: image rows as [pixel, LANES], transformed tiles as [plane, tile, channel].
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.matmul import multiply_rows
from nntrainer_py.tensor.kernels.micro_kernel import ADD_ROWS, COLUMNS, LANES, ROWS, transpose
from nntrainer_py.tensor.kernels.vectors import add_grid, copy_run, rectify_runs
from nntrainer_py.tensor.kernels.winograd_transforms import (
    input2,
    input4,
    output2,
    output2_transposed,
    output4,
    output4_transposed,
    weight2,
    weight2_transposed,
    weight4,
    weight4_transposed,
)

Array = npt.NDArray[np.float32]


@kernel()
def _turn(source: int, stride: int, rows: int, columns: int, target: int) -> None:
    """target[column, 0:LANES] = source[0:LANES, column]; fewer than LANES rows leave zeros."""
    for k in range(0, columns, LANES):
        transpose(source + 4 * k, stride, target + 4 * k * LANES, LANES, rows, columns - k, LANES)


@kernel()
def _turn_back(source: int, pixels: int, target: int, stride: int) -> None:
    """target[0:LANES, pixel] = source[pixel, 0:LANES]."""
    for k in range(0, pixels, LANES):
        transpose(source + 4 * k * LANES, LANES, target + 4 * k, stride, pixels - k, LANES, min(LANES, pixels - k))


@kernel()
def _transform_tile(
    size: int, kind: int, source: int, row_step: int, column_step: int, target: int, plane: int
) -> None:
    """An input tile (``kind`` 0) or a tile of the output's gradient (1) to its (size + 2)^2 planes."""
    if kind == 0 and size == 4:
        input4(source, row_step, column_step, target, 6 * plane, plane)
    elif kind == 0:
        input2(source, row_step, column_step, target, 4 * plane, plane)
    elif size == 4:
        output4_transposed(source, row_step, column_step, target, 6 * plane, plane)
    else:
        output2_transposed(source, row_step, column_step, target, 4 * plane, plane)


@kernel()
def _patch(source: int, width: int, y0: int, y1: int, x: int, edge: int, first: int, target: int) -> None:
    """Zero-padded square of ``edge`` pixels: rows y0..y1 of the square exist, its column 0 is image column x."""
    for i in range(edge):
        low, high = max(0, -x), min(edge, width - x)
        if i < y0 or i >= y1:
            high = low
        place = target + 4 * i * edge * LANES
        for j in range(edge):
            inside = LANES if j >= low and j < high else 0
            pixel = source + 4 * ((first + i) * width + x + j) * LANES
            copy_run(pixel, 0, place + 4 * j * LANES, 0, 1, 0, inside, LANES, np.float32(1.0))


@kernel()
def tiles_part(
    part: int,
    parts: int,
    size: int,
    kind: int,
    x: Array,
    channel: int,
    channels: int,
    top: int,
    left: int,
    down: int,
    across: int,
    first: int,
    count: int,
    target: int,
    plane: int,
    panels: int,
    slabs: int,
    slab_step: int,
) -> None:
    """Transform the tile rows first..first + count of the batch for ``channels`` channels from ``channel`` on.

    ``kind`` as in ``_transform_tile``; ``down`` x ``across`` tiles an image, shifted by the padding (top, left).
    Lane l of tile t lies at target[plane, t, l], or with ``panels`` at target[plane, l / COLUMNS, t, l % COLUMNS].
    Each part has a slab of scratch of its own, ``slab_step`` bytes from the last part's.
    """
    height, width = x.shape[2], x.shape[3]
    edge = size + 2 if kind == 0 else size
    slab = slabs + slab_step * part
    patch = slab
    turned = slab + 4 * (size + 2) * (size + 2) * LANES
    unit = 0
    at = first
    while at < first + count:
        image, row0 = at // down, at % down
        rows = min(down - row0, first + count - at)
        low, high = max(0, row0 * size - top), min(height, (row0 + rows - 1) * size - top + edge)
        for block in range(0, channels, LANES):
            unit += 1
            if unit % parts != part:
                continue
            if high > low:
                source = x[image, channel + block].ctypes.data + 4 * low * width
                _turn(source, height * width, LANES, (high - low) * width, turned)
            tile = (at - first) * across
            place = target + 4 * (tile * channels + block)
            step = channels
            if panels:
                place = target + 4 * ((block // COLUMNS * count * across + tile) * COLUMNS + block % COLUMNS)
                step = COLUMNS
            for ty in range(row0, row0 + rows):
                y = ty * size - top
                for tx in range(across):
                    left_edge = tx * size - left
                    if y >= low and y + edge <= high and left_edge >= 0 and left_edge + edge <= width:
                        pixel = turned + 4 * ((y - low) * width + left_edge) * LANES
                        _transform_tile(size, kind, pixel, width * LANES, LANES, place, plane)
                    else:
                        _patch(turned, width, max(0, low - y), min(edge, high - y), left_edge, edge, y - low, patch)
                        _transform_tile(size, kind, patch, edge * LANES, LANES, place, plane)
                    place += 4 * step
        at += rows


@kernel()
def weights_part(
    part: int,
    parts: int,
    size: int,
    w: Array,
    flip: int,
    first: int,
    count: int,
    inner: int,
    target: int,
    plane: int,
    slabs: int,
    slab_step: int,
) -> None:
    """target[plane, l / COLUMNS, k, l % COLUMNS] = transformed weights for ``count`` outer channels from ``first`` on.

    Without ``flip`` outer channels are filters and k are input channels; with it the other way round and each kernel is
    turned by 180 degrees.
    """
    slab = slabs + slab_step * part
    whole = (9 + LANES - 1) // LANES * LANES
    unit = 0
    for block in range(0, count, LANES):
        for k0 in range(0, inner, LANES):
            unit += 1
            if unit % parts != part:
                continue
            if flip == 0:
                _turn(w[first + block, k0].ctypes.data, inner * 9, LANES, 9 * LANES, slab)
            for k in range(LANES):
                source, row_step, column_step = slab + 4 * 9 * k * LANES, 3 * LANES, LANES
                if flip:
                    # Whole vectors read on into what follows; the last kernels of all have nothing behind them.
                    end = k0 + k == inner - 1 and first + block + LANES == w.shape[1]
                    _turn(w[k0 + k, first + block].ctypes.data, 9, LANES, 9 if end else whole, slab)
                    source, row_step, column_step = slab + 4 * 8 * LANES, -3 * LANES, -LANES
                place = target + 4 * ((block // COLUMNS * inner + k0 + k) * COLUMNS + block % COLUMNS)
                if size == 4:
                    weight4(source, row_step, column_step, place, 6 * plane, plane)
                else:
                    weight2(source, row_step, column_step, place, 4 * plane, plane)


@kernel()
def multiply_part(
    part: int,
    parts: int,
    size: int,
    inner: int,
    outer: int,
    tiles: int,
    a: int,
    a_plane: int,
    b: int,
    b_plane: int,
    c: int,
    c_plane: int,
) -> None:
    """c[plane, t, 0:outer] = a[plane, t, 0:inner] b[plane, ...]: one product for each of the (size + 2)^2 planes."""
    planes = (size + 2) * (size + 2)
    for p in range(part * planes // parts, (part + 1) * planes // parts):
        for q in range(0, outer, COLUMNS):
            panel = b + 4 * (p * b_plane + q * inner)
            for t in range(0, tiles, ROWS):
                rows = min(ROWS, tiles - t)
                source, place = a + 4 * (p * a_plane + t * inner), c + 4 * (p * c_plane + t * outer + q)
                multiply_rows(rows, COLUMNS, inner, source, inner, 1, panel, COLUMNS, place, outer, 0, 0, 0)


@kernel()
def outputs_part(
    part: int,
    parts: int,
    size: int,
    m: int,
    plane: int,
    out: Array,
    bias: Array,
    rectify: int,
    channel: int,
    channels: int,
    down: int,
    across: int,
    first: int,
    count: int,
    slabs: int,
    slab_step: int,
) -> None:
    """Transform products back and store them as the channels channel..channel + channels of ``out``."""
    height, width = out.shape[2], out.shape[3]
    slab = slabs + slab_step * part
    square = slab
    turned = slab + 4 * (size + 2) * (size + 2) * LANES
    edge = size + 2
    unit = 0
    at = first
    while at < first + count:
        image, row0 = at // down, at % down
        rows = min(down - row0, first + count - at)
        low, high = row0 * size, min(height, (row0 + rows) * size)
        for block in range(0, channels, LANES):
            unit += 1
            if unit % parts != part:
                continue
            source = m + 4 * ((at - first) * across * channels + block)
            for ty in range(rows):
                for tx in range(across):
                    pixel = turned + 4 * (ty * size * width + tx * size) * LANES
                    whole = ty * size + size <= high - low and tx * size + size <= width
                    place, row_step = (pixel, width * LANES) if whole else (square, size * LANES)
                    if size == 4:
                        output4(source, edge * plane, plane, place, row_step, LANES)
                    else:
                        output2(source, edge * plane, plane, place, row_step, LANES)
                    if not whole:
                        for i in range(min(size, high - low - ty * size)):
                            exist = min(size, width - tx * size)
                            inside, line = square + 4 * i * size * LANES, pixel + 4 * i * width * LANES
                            copy_run(inside, LANES, line, LANES, exist, 0, LANES, LANES, np.float32(1.0))
                    source += 4 * channels
            if bias.size:
                _add_bias(turned, (high - low) * width, bias.ctypes.data + 4 * (channel + block))
            if rectify:
                rectify_runs(turned, (high - low) * width)
            target = out[image, channel + block].ctypes.data + 4 * low * width
            _turn_back(turned, (high - low) * width, target, height * width)
        at += rows


@kernel()
def _add_bias(turned: int, pixels: int, bias: int) -> None:
    add_grid(bias, 0, 0, turned, LANES, 0, pixels, 1, 0, LANES)


@kernel()
def gradient_multiply_part(
    part: int,
    parts: int,
    size: int,
    channels: int,
    filters: int,
    tiles: int,
    v: int,
    v_plane: int,
    m: int,
    m_plane: int,
    u: int,
    u_plane: int,
    accumulate: int,
) -> None:
    """u[plane, q, c, 0:COLUMNS] (+)= sum over tiles of v[plane, t, c] m[plane, q, t, 0:COLUMNS]."""
    planes = (size + 2) * (size + 2)
    mode = ADD_ROWS if accumulate else 0
    for p in range(part * planes // parts, (part + 1) * planes // parts):
        for q in range(0, filters, COLUMNS):
            panel = m + 4 * (p * m_plane + q * tiles)
            for c in range(0, channels, ROWS):
                rows = min(ROWS, channels - c)
                source, place = v + 4 * (p * v_plane + c), u + 4 * (p * u_plane + q * channels + c * COLUMNS)
                multiply_rows(
                    rows, COLUMNS, tiles, source, 1, channels, panel, COLUMNS, place, COLUMNS, place, COLUMNS, mode
                )


@kernel()
def add_groups_part(part: int, parts: int, size: int, groups: int, u: int, step: int, plane: int) -> None:
    """Add ``groups`` arrays, ``step`` bytes apart, to the first: the planes of (size + 2)^2 x ``plane`` floats."""
    planes = (size + 2) * (size + 2)
    runs = plane // LANES
    for p in range(part * planes // parts, (part + 1) * planes // parts):
        at = u + 4 * p * plane
        for group in range(1, groups):
            add_grid(at + group * step, LANES, 0, at, LANES, 0, runs, 1, 0, LANES)


@kernel()
def weights_back_part(
    part: int,
    parts: int,
    size: int,
    u: int,
    plane: int,
    dw: Array,
    channel: int,
    channels: int,
    first: int,
    filters: int,
    accumulate: int,
    slabs: int,
    slab_step: int,
) -> None:
    """dw[first:first + filters, channel:channel + channels] (+)= transformed back from ``u``."""
    every = dw.shape[1]
    slab = slabs + slab_step * part
    piece = slab + 4 * 9 * LANES * LANES
    edge = size + 2
    unit = 0
    for block in range(0, filters, LANES):
        for c0 in range(0, channels, LANES):
            unit += 1
            if unit % parts != part:
                continue
            for c in range(LANES):
                source = u + 4 * ((block // COLUMNS * channels + c0 + c) * COLUMNS + block % COLUMNS)
                place = slab + 4 * 9 * c * LANES
                if size == 4:
                    weight4_transposed(source, edge * plane, plane, place, 3 * LANES, LANES)
                else:
                    weight2_transposed(source, edge * plane, plane, place, 3 * LANES, LANES)
            for k in range(0, 9 * LANES, LANES):
                target = dw[first + block, channel + c0].ctypes.data + 4 * k
                source = slab + 4 * k * LANES
                if accumulate:
                    transpose(source, LANES, piece, LANES, LANES, LANES, LANES)
                    add_grid(piece, LANES, 0, target, every * 9, 0, LANES, 1, 0, LANES)
                else:
                    transpose(source, LANES, target, every * 9, LANES, LANES, LANES)
