"""3x3 convolution of stride 1 by Winograd's transforms: forward, input derivative, weight gradient (float32, NCHW).

Tiles of ``size`` x ``size`` outputs (4 or 2) turn into ``(size + 2)^2`` matrix products over the channels.  Images are
turned into vectors of LANES channels by register transposes, transformed, multiplied on the register tile, transformed
back and turned again.  Channels and filters must be multiples of CHANNELS, padding at most 2 a side.

The work goes chunk by chunk of tiles and block by block of filters, so that the scratch is bounded (``plan``).  A tile's
result depends on neither its chunk nor its neighbours.  Errors relative to the largest result, measured against
float64: below 1e-6 for size 2, 2e-5 for size 4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import prange

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.matmul import multiply_rows
from nntrainer_py.tensor.kernels.micro_kernel import ADD_ROWS, COLUMNS, LANES, ROWS, add_run, copy_run, transpose
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
Cut = npt.NDArray[np.int64]

CHANNELS = 32  # channels and filters come in multiples of this
_RESIDENT = 2_500_000  # bytes: transformed weights up to this are made once and kept for all chunks
_PAD = LANES  # floats between the planes of a transformed array: planes 4 KiB apart would share one set of the cache


class Plan(NamedTuple):
    """How the work is cut: ``tiles`` per chunk, ``filters`` per block, floats of the parts of the scratch."""

    tiles: int
    filters: int
    weights: int
    inputs: int
    outputs: int
    slab: int  # for each part

    def nbytes(self, parts: int) -> int:
        return 4 * (self.weights + self.inputs + self.outputs + parts * self.slab)


def _slab(height: int, width: int, rows: int, size: int) -> int:
    """Floats of one part's turned image rows for ``rows`` rows of tiles, or of its turned weights."""
    image = min(height, rows * size + 2) * width
    return (max(image, 9 * LANES) + LANES + (size + 2) ** 2) * LANES


def _tile_rows(tiles: int, across: int, batch: int, down: int) -> int:
    return max(1, min(tiles // across, batch * down))


def product_plan(inner: int, outer: int, batch: int, height: int, width: int, size: int) -> Plan:
    """Plan of ``product`` for ``inner`` channels summed over, ``outer`` made, outputs of ``height`` x ``width``."""
    planes = (size + 2) ** 2
    down, across = -(-height // size), -(-width // size)
    if 4 * planes * inner * outer <= _RESIDENT:
        block, tiles = outer, 1_200_000 // (4 * planes * (inner + outer))
    else:
        block, tiles = CHANNELS, 2_400_000 // (4 * planes * inner)
    rows = _tile_rows(max(tiles, ROWS), across, batch, down)
    tiles = rows * across
    return Plan(
        rows,
        block,
        planes * (inner * block + _PAD),
        planes * (tiles * inner + _PAD),
        planes * (tiles * block + _PAD),
        _slab(height + 2, width + 2, rows, size),
    )


class GradientPlan(NamedTuple):
    """As ``Plan``, for ``gradient``: ``channels`` x ``filters`` of the weight are made at a time."""

    tiles: int
    channels: int
    filters: int
    weights: int
    inputs: int
    outputs: int
    slab: int

    def nbytes(self, parts: int) -> int:
        return 4 * (self.weights + self.inputs + self.outputs + parts * self.slab)


def gradient_plan(channels: int, filters: int, batch: int, height: int, width: int, size: int) -> GradientPlan:
    """Plan of ``gradient`` for a weight [filters, channels, 3, 3] and outputs of ``height`` x ``width``."""
    planes = (size + 2) ** 2
    down, across = -(-height // size), -(-width // size)
    every = batch * down * across
    if 4 * planes * channels * filters <= _RESIDENT:
        some, block, tiles = channels, filters, 1_200_000 // (4 * planes * (channels + filters))
    elif 4 * planes * channels * every <= _RESIDENT:
        some, block, tiles = channels, CHANNELS, every
    else:
        some, block = min(channels, 4 * CHANNELS), min(filters, 4 * CHANNELS)
        while channels % some:
            some -= CHANNELS
        while filters % block:
            block -= CHANNELS
        tiles = 1_200_000 // (4 * planes * (some + block))
    rows = _tile_rows(max(tiles, ROWS), across, batch, down)
    tiles = rows * across
    return GradientPlan(
        rows,
        some,
        block,
        planes * (some * block + _PAD),
        planes * (tiles * some + _PAD),
        planes * (tiles * block + _PAD),
        _slab(height + 2, width + 2, rows, size),
    )


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
    part: int, parts: int, size: int, kind: int, x: Array, channel: int, channels: int, top: int, left: int, down: int,
    across: int, first: int, count: int, target: int, plane: int, panels: int, slab: int
) -> None:
    """Transform the tile rows first..first + count of the batch for ``channels`` channels from ``channel`` on.

    ``kind`` as in ``_transform_tile``; ``down`` x ``across`` tiles an image, shifted by the padding (top, left).  Lane l of
    tile t lies at target[plane, t, l], or with ``panels`` at target[plane, l / COLUMNS, t, l % COLUMNS].
    """
    height, width = x.shape[2], x.shape[3]
    edge = size + 2 if kind == 0 else size
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
    part: int, parts: int, size: int, w: Array, flip: int, first: int, count: int, inner: int, target: int, plane: int,
    slab: int
) -> None:
    """target[plane, l / COLUMNS, k, l % COLUMNS] = transformed weights for ``count`` outer channels from ``first`` on.

    Without ``flip`` outer channels are filters and k are input channels; with it the other way round and each kernel is
    turned by 180 degrees.
    """
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
                    _turn(w[k0 + k, first + block].ctypes.data, 9, LANES, 9, slab)
                    source, row_step, column_step = slab + 4 * 8 * LANES, -3 * LANES, -LANES
                place = target + 4 * ((block // COLUMNS * inner + k0 + k) * COLUMNS + block % COLUMNS)
                if size == 4:
                    weight4(source, row_step, column_step, place, 6 * plane, plane)
                else:
                    weight2(source, row_step, column_step, place, 4 * plane, plane)


@kernel()
def multiply_part(
    part: int, parts: int, size: int, inner: int, outer: int, tiles: int, a: int, a_plane: int, b: int, b_plane: int,
    c: int, c_plane: int
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
    part: int, parts: int, size: int, m: int, plane: int, out: Array, bias: Array, channel: int, channels: int, down: int,
    across: int, first: int, count: int, slab: int
) -> None:
    """Transform products back and store them as the channels channel..channel + channels of ``out``."""
    height, width = out.shape[2], out.shape[3]
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
            target = out[image, channel + block].ctypes.data + 4 * low * width
            _turn_back(turned, (high - low) * width, target, height * width)
        at += rows


@kernel()
def _add_bias(turned: int, pixels: int, bias: int) -> None:
    add_run(bias, 0, turned, LANES, pixels, 0, LANES)


@kernel()
def gradient_multiply_part(
    part: int, parts: int, size: int, channels: int, filters: int, tiles: int, v: int, v_plane: int, m: int, m_plane: int,
    u: int, u_plane: int, accumulate: int
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
def weights_back_part(
    part: int, parts: int, size: int, u: int, plane: int, dw: Array, channel: int, channels: int, first: int, filters: int,
    accumulate: int, slab: int
) -> None:
    """dw[first:first + filters, channel:channel + channels] (+)= transformed back from ``u``."""
    every = dw.shape[1]
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
                    add_run(piece, LANES, target, every * 9, LANES, 0, LANES)
                else:
                    transpose(source, LANES, target, every * 9, LANES, LANES, LANES)



@kernel()
def product(
    x: Array, w: Array, flip: int, bias: Array, out: Array, top: int, left: int, size: int, plan: Cut, scratch: Array,
    parts: int
) -> None:
    """``out`` = convolution of ``x`` [N, inner, H, W] with ``w``, plus ``bias`` [outer] or nothing if it is empty.

    ``flip`` 0: forward, w [outer, inner, 3, 3].  ``flip`` 1: derivative, x is the output's gradient, w [inner, outer, 3, 3]
    and the padding (top, left) is 2 minus the layer's.  ``plan`` is ``product_plan`` as an int64 array, ``scratch`` has its
    ``nbytes(parts)``.
    """
    inner, outer = x.shape[1], out.shape[1]
    down, across = (out.shape[2] + size - 1) // size, (out.shape[3] + size - 1) // size
    chunk, block = plan[0], plan[1]
    u = scratch.ctypes.data
    v = u + 4 * plan[2]
    m = v + 4 * plan[3]
    slab, step = m + 4 * plan[4], 4 * plan[5]
    every = x.shape[0] * down
    u_plane = inner * block + _PAD
    for first in range(0, every, chunk):
        rows = min(chunk, every - first)
        tiles = rows * across
        v_plane, m_plane = tiles * inner + _PAD, tiles * block + _PAD
        for p in range(parts):
            tiles_part(
                p, parts, size, 0, x, 0, inner, top, left, down, across, first, rows, v, v_plane, 0, slab + step * p
            )
        for o in range(0, outer, block):
            if first == 0 or block < outer:
                for p in range(parts):
                    weights_part(p, parts, size, w, flip, o, block, inner, u, u_plane, slab + step * p)
            for p in range(parts):
                multiply_part(p, parts, size, inner, block, tiles, v, v_plane, u, u_plane, m, m_plane)
            for p in range(parts):
                outputs_part(
                    p, parts, size, m, m_plane, out, bias, o, block, down, across, first, rows, slab + step * p
                )


@kernel(parallel=True)
def product_parallel(
    x: Array, w: Array, flip: int, bias: Array, out: Array, top: int, left: int, size: int, plan: Cut, scratch: Array,
    parts: int
) -> None:
    """``product`` on ``parts`` threads."""
    inner, outer = x.shape[1], out.shape[1]
    down, across = (out.shape[2] + size - 1) // size, (out.shape[3] + size - 1) // size
    chunk, block = plan[0], plan[1]
    u = scratch.ctypes.data
    v = u + 4 * plan[2]
    m = v + 4 * plan[3]
    slab, step = m + 4 * plan[4], 4 * plan[5]
    every = x.shape[0] * down
    u_plane = inner * block + _PAD
    for first in range(0, every, chunk):
        rows = min(chunk, every - first)
        tiles = rows * across
        v_plane, m_plane = tiles * inner + _PAD, tiles * block + _PAD
        for p in prange(parts):
            tiles_part(
                p, parts, size, 0, x, 0, inner, top, left, down, across, first, rows, v, v_plane, 0, slab + step * p
            )
        for o in range(0, outer, block):
            if first == 0 or block < outer:
                for p in prange(parts):
                    weights_part(p, parts, size, w, flip, o, block, inner, u, u_plane, slab + step * p)
            for p in prange(parts):
                multiply_part(p, parts, size, inner, block, tiles, v, v_plane, u, u_plane, m, m_plane)
            for p in prange(parts):
                outputs_part(
                    p, parts, size, m, m_plane, out, bias, o, block, down, across, first, rows, slab + step * p
                )


@kernel()
def gradient(
    x: Array, dy: Array, dw: Array, top: int, left: int, size: int, accumulate: int, plan: Cut, scratch: Array, parts: int
) -> None:
    """dw [filters, channels, 3, 3] (+)= gradient of the weight for input ``x`` and output gradient ``dy``.

    ``plan`` is ``gradient_plan`` as an int64 array, ``scratch`` has its ``nbytes(parts)``.
    """
    channels, filters = x.shape[1], dy.shape[1]
    down, across = (dy.shape[2] + size - 1) // size, (dy.shape[3] + size - 1) // size
    chunk, some, block = plan[0], plan[1], plan[2]
    u = scratch.ctypes.data
    v = u + 4 * plan[3]
    m = v + 4 * plan[4]
    slab, step = m + 4 * plan[5], 4 * plan[6]
    every = x.shape[0] * down
    u_plane = some * block + _PAD
    for c in range(0, channels, some):
        for o in range(0, filters, block):
            for first in range(0, every, chunk):
                rows = min(chunk, every - first)
                tiles = rows * across
                v_plane, m_plane = tiles * some + _PAD, tiles * block + _PAD
                for p in range(parts):
                    if o == 0 or chunk < every:
                        tiles_part(
                            p, parts, size, 0, x, c, some, top, left, down, across, first, rows, v, v_plane, 0,
                            slab + step * p,
                        )
                    tiles_part(
                        p, parts, size, 1, dy, o, block, 0, 0, down, across, first, rows, m, m_plane, 1, slab + step * p
                    )
                add = 1 if first > 0 else 0
                for p in range(parts):
                    gradient_multiply_part(
                        p, parts, size, some, block, tiles, v, v_plane, m, m_plane, u, u_plane, add
                    )
            for p in range(parts):
                weights_back_part(p, parts, size, u, u_plane, dw, c, some, o, block, accumulate, slab + step * p)


@kernel(parallel=True)
def gradient_parallel(
    x: Array, dy: Array, dw: Array, top: int, left: int, size: int, accumulate: int, plan: Cut, scratch: Array, parts: int
) -> None:
    """``gradient`` on ``parts`` threads."""
    channels, filters = x.shape[1], dy.shape[1]
    down, across = (dy.shape[2] + size - 1) // size, (dy.shape[3] + size - 1) // size
    chunk, some, block = plan[0], plan[1], plan[2]
    u = scratch.ctypes.data
    v = u + 4 * plan[3]
    m = v + 4 * plan[4]
    slab, step = m + 4 * plan[5], 4 * plan[6]
    every = x.shape[0] * down
    u_plane = some * block + _PAD
    for c in range(0, channels, some):
        for o in range(0, filters, block):
            for first in range(0, every, chunk):
                rows = min(chunk, every - first)
                tiles = rows * across
                v_plane, m_plane = tiles * some + _PAD, tiles * block + _PAD
                for p in prange(parts):
                    if o == 0 or chunk < every:
                        tiles_part(
                            p, parts, size, 0, x, c, some, top, left, down, across, first, rows, v, v_plane, 0,
                            slab + step * p,
                        )
                    tiles_part(
                        p, parts, size, 1, dy, o, block, 0, 0, down, across, first, rows, m, m_plane, 1, slab + step * p
                    )
                add = 1 if first > 0 else 0
                for p in prange(parts):
                    gradient_multiply_part(
                        p, parts, size, some, block, tiles, v, v_plane, m, m_plane, u, u_plane, add
                    )
            for p in prange(parts):
                weights_back_part(p, parts, size, u, u_plane, dw, c, some, o, block, accumulate, slab + step * p)
