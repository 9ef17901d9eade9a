"""Direct 2-D convolution (cross-correlation) of float32 NCHW arrays: forward, input derivative, weight gradient.

An implicit matrix product: panels of COLUMNS output pixels (or taps) are gathered from the image as they are needed,
so the scratch is one panel per part, whatever the layer.  Any kernel, stride, padding, dilation and groups.

``geometry`` is the int64 array (groups, stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w); padding at
the bottom and right follows from the shape of the output.  All sums run in an order fixed by the shapes of one
sample.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import prange

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.matmul import multiply_rows, pack_rows
from nntrainer_py.tensor.kernels.micro_kernel import (
    ADD_COLUMN,
    ADD_ROWS,
    COLUMNS,
    LANES,
    ROWS,
    add_every_second,
    add_run,
    copy_every_second,
    copy_run,
    peek,
    poke,
    transpose,
)

Array = npt.NDArray[np.float32]
Geometry = npt.NDArray[np.int64]

DEPTH = 256  # sums per block of the inner dimension: a panel (32 KiB) stays in the first cache
_NEAR = 8  # channels gathered together: more would fall into one set of the first cache for images of 4 KiB


def channels_per_block(channels: int, taps: int) -> int:
    """Input channels whose taps make one block of the inner dimension."""
    return max(1, min(channels, DEPTH // taps))


def forward_scratch(channels: int, taps: int, parts: int) -> int:
    """Bytes for ``forward``: ``channels`` input channels per group, ``taps`` = kernel height times width."""
    depth = channels_per_block(channels, taps) * taps
    return 4 * parts * (depth * COLUMNS + ROWS * COLUMNS)


def derivative_scratch(filters: int, taps: int, parts: int) -> int:
    """Bytes for ``derivative``: ``filters`` output channels per group."""
    depth = min(filters, DEPTH)
    return 4 * parts * (depth * (COLUMNS + ROWS) + -(-taps // ROWS) * ROWS * COLUMNS)


def gradient_scratch(parts: int) -> int:
    """Bytes for ``gradient``."""
    return 4 * parts * (2 * DEPTH * COLUMNS + COLUMNS * LANES)


@kernel()
def _first_inside(offset: int, stride: int) -> int:
    """Smallest t >= 0 with offset + t stride >= 0."""
    return 0 if offset >= 0 else (stride - 1 - offset) // stride


@kernel()
def _end_inside(offset: int, stride: int, size: int) -> int:
    """Smallest t >= 0 with offset + t stride >= size."""
    return 0 if offset >= size else (size - offset + stride - 1) // stride


@kernel()
def _copy(
    source: int,
    source_stride: int,
    target: int,
    target_stride: int,
    count: int,
    low: int,
    high: int,
    width: int,
    step: int,
) -> None:
    """``copy_run`` with ``step`` floats between the elements read."""
    if step == 1:
        copy_run(source, source_stride, target, target_stride, count, low, high, width, np.float32(1.0))
    elif step == 2:
        copy_every_second(source, source_stride, target, target_stride, count, low, high, width)
    else:
        for row in range(count):
            for lane in range(width):
                value = np.float32(0.0)
                if low <= lane and lane < high:
                    value = peek(source + 4 * (row * source_stride + lane * step))
                poke(target + 4 * (row * target_stride + lane), value)


@kernel()
def _add(
    source: int, source_stride: int, target: int, target_stride: int, count: int, low: int, high: int, step: int
) -> None:
    """``add_run`` with ``step`` floats between the elements changed."""
    if step == 1:
        add_run(source, source_stride, target, target_stride, count, low, high)
    elif step == 2:
        add_every_second(source, source_stride, target, target_stride, count, low, high)
    else:
        for row in range(count):
            for lane in range(max(low, 0), min(high, LANES)):
                place = target + 4 * (row * target_stride + lane * step)
                poke(place, peek(place) + peek(source + 4 * (row * source_stride + lane)))


@kernel()
def _gather(
    image: int,
    height: int,
    width: int,
    channels: int,
    kernel_height: int,
    kernel_width: int,
    geometry: Geometry,
    row: int,
    column: int,
    run: int,
    target: int,
) -> None:
    """target[(c, i, j), 0:run] for ``run`` output pixels from (row, column) on; rows COLUMNS floats apart."""
    plane, taps = height * width, kernel_height * kernel_width
    step = geometry[2]
    for near in range(0, channels, _NEAR):
        count = min(_NEAR, channels - near)
        for i in range(kernel_height):
            y = row * geometry[1] - geometry[3] + i * geometry[5]
            for j in range(kernel_width):
                x = column * step - geometry[4] + j * geometry[6]
                low, high = _first_inside(x, step), _end_inside(x, step, width)
                if y < 0 or y >= height:
                    low, high = 0, 0
                source = image + 4 * (near * plane + y * width + x)
                place = target + 4 * (near * taps + i * kernel_width + j) * COLUMNS
                _copy(source, plane, place, taps * COLUMNS, count, low, high, run, step)


@kernel()
def _gather_panel(
    x: Array,
    first_channel: int,
    channels: int,
    w: Array,
    geometry: Geometry,
    out_height: int,
    out_width: int,
    first: int,
    last: int,
    target: int,
) -> None:
    """Panel [(c, i, j), COLUMNS] for the flat output pixels first..last of the batch; lanes beyond them are left."""
    height, width = x.shape[2], x.shape[3]
    at = first
    while at < last:
        image, rest = at // (out_height * out_width), at % (out_height * out_width)
        row, column = rest // out_width, rest % out_width
        run = min(min(LANES, last - at), out_width - column)
        base = x[image, first_channel].ctypes.data
        place = target + 4 * (at - first)
        _gather(base, height, width, channels, w.shape[2], w.shape[3], geometry, row, column, run, place)
        at += run


@kernel()
def _move_tile(
    tile: int, out: int, channels: int, channel: int, pixels: int, first: int, last: int, rows: int, store: int
) -> None:
    """Tile [rows, COLUMNS] to (``store``) or from the flat output pixels first..last of ``rows`` channels."""
    at = first
    while at < last:
        image, pixel = at // pixels, at % pixels
        run = min(min(LANES, last - at), pixels - pixel)
        place = out + 4 * ((image * channels + channel) * pixels + pixel)
        inside = tile + 4 * (at - first)
        if store:
            copy_run(inside, COLUMNS, place, pixels, rows, 0, run, run, np.float32(1.0))
        else:
            copy_run(place, pixels, inside, COLUMNS, rows, 0, run, run, np.float32(1.0))
        at += run


@kernel()
def forward_part(
    part: int, parts: int, x: Array, w: Array, bias: Array, out: Array, geometry: Geometry, scratch: Array
) -> None:
    """Part of ``out = convolution(x, w) (+ bias)``.

    x [N, C, H, W], w [filters, C / groups, kh, kw], out [N, filters, OH, OW], ``bias`` [filters] or empty;
    ``scratch`` has ``forward_scratch(C / groups, kh kw, parts)`` bytes.
    """
    batch, filters, out_height, out_width = out.shape
    channels, taps = w.shape[1], w.shape[2] * w.shape[3]
    groups, pixels = geometry[0], out_height * out_width
    per_group, inner = filters // groups, channels * taps
    block = max(1, min(channels, DEPTH // taps))  # channels_per_block
    packed = scratch.ctypes.data + 4 * part * (scratch.size // parts)
    tile = packed + 4 * block * taps * COLUMNS
    panels = (batch * pixels + COLUMNS - 1) // COLUMNS
    tiles = (per_group + ROWS - 1) // ROWS
    splits = min(
        tiles, (parts + groups * panels - 1) // (groups * panels)
    )  # filters are split only if panels are too few
    units = groups * panels * splits
    for unit in range(part * units // parts, (part + 1) * units // parts):
        group, split, panel = unit // (panels * splits), unit // panels % splits, unit % panels
        first, last = panel * COLUMNS, min((panel + 1) * COLUMNS, batch * pixels)
        image, pixel = first // pixels, first % pixels
        whole = pixel + (last - first) <= pixels
        for c0 in range(0, channels, block):
            count = min(block, channels - c0)
            depth = count * taps
            _gather_panel(x, group * channels + c0, count, w, geometry, out_height, out_width, first, last, packed)
            for m in range(split * tiles // splits * ROWS, min(per_group, (split + 1) * tiles // splits * ROWS), ROWS):
                rows = min(ROWS, per_group - m)
                channel = group * per_group + m
                weights = w.ctypes.data + 4 * (channel * inner + c0 * taps)
                target, stride = out[image, channel].ctypes.data + 4 * pixel, pixels
                if not whole:
                    target, stride = tile, COLUMNS
                    if c0 > 0:
                        _move_tile(tile, out.ctypes.data, filters, channel, pixels, first, last, rows, 0)
                mode, init, step = ADD_ROWS, target, stride
                if c0 == 0:
                    mode, init, step = 0, 0, 0
                    if bias.size:
                        mode, init, step = ADD_COLUMN, bias.ctypes.data + 4 * channel, 1
                multiply_rows(
                    rows, last - first, depth, weights, inner, 1, packed, COLUMNS, target, stride, init, step, mode
                )
                if not whole:
                    _move_tile(tile, out.ctypes.data, filters, channel, pixels, first, last, rows, 1)


@kernel()
def _scatter(
    tile: int,
    dx: Array,
    image: int,
    channel: int,
    w: Array,
    geometry: Geometry,
    out_width: int,
    pixel: int,
    lane: int,
    run: int,
) -> None:
    """Add tile[(i, j), lane:lane + run] to the input pixels that those taps of one channel read."""
    height, width = dx.shape[2], dx.shape[3]
    row, column = pixel // out_width, pixel % out_width
    step = geometry[2]
    base = dx[image, channel].ctypes.data
    for i in range(w.shape[2]):
        y = row * geometry[1] - geometry[3] + i * geometry[5]
        if y < 0 or y >= height:
            continue
        for j in range(w.shape[3]):
            x = column * step - geometry[4] + j * geometry[6]
            low, high = _first_inside(x, step), min(run, _end_inside(x, step, width))
            source = tile + 4 * ((i * w.shape[3] + j) * COLUMNS + lane)
            _add(source, 0, base + 4 * (y * width + x), 0, 1, low, high, step)


@kernel()
def derivative_part(
    part: int, parts: int, dy: Array, w: Array, bias: Array, dx: Array, geometry: Geometry, scratch: Array
) -> None:
    """Part of the gradient of the input: dx [N, C, H, W] from dy [N, filters, OH, OW]; shapes as in ``forward_part``.

    ``bias`` [C], if not empty, is added (a transposed convolution's forward pass).

    ``scratch`` has ``derivative_scratch(filters / groups, kh kw, parts)`` bytes.
    """
    batch, filters, out_height, out_width = dy.shape
    channels, taps = w.shape[1], w.shape[2] * w.shape[3]
    groups, pixels = geometry[0], out_height * out_width
    per_group, inner = filters // groups, channels * taps
    deepest = min(per_group, DEPTH)
    packed = scratch.ctypes.data + 4 * part * (scratch.size // parts)
    turned = packed + 4 * deepest * COLUMNS
    tile = turned + 4 * deepest * ROWS
    splits = min(channels, (parts + batch * groups - 1) // (batch * groups))
    units = batch * groups * splits
    for unit in range(part * units // parts, (part + 1) * units // parts):
        image, group, split = unit // (groups * splits), unit // splits % groups, unit % splits
        low, high = split * channels // splits, (split + 1) * channels // splits
        for channel in range(group * channels + low, group * channels + high):
            dx[image, channel] = bias[channel] if bias.size else np.float32(0.0)
        for first in range(0, pixels, COLUMNS):
            columns = min(COLUMNS, pixels - first)
            for f0 in range(0, per_group, deepest):
                depth = min(deepest, per_group - f0)
                source = dy[image, group * per_group + f0].ctypes.data + 4 * first
                for j in range(0, COLUMNS, LANES):
                    copy_run(
                        source + 4 * j, pixels, packed + 4 * j, COLUMNS, depth, 0, columns - j, LANES, np.float32(1.0)
                    )
                for channel in range(low, high):
                    for m in range(0, taps, ROWS):
                        rows = min(ROWS, taps - m)
                        weights = w[group * per_group + f0, channel].ctypes.data + 4 * m
                        pack_rows(weights, inner, rows, depth, turned)
                        multiply_rows(
                            rows,
                            columns,
                            depth,
                            turned,
                            1,
                            ROWS,
                            packed,
                            COLUMNS,
                            tile + 4 * m * COLUMNS,
                            COLUMNS,
                            0,
                            0,
                            0,
                        )
                    lane = 0
                    while lane < columns:
                        run = min(min(LANES, columns - lane), out_width - (first + lane) % out_width)
                        _scatter(
                            tile, dx, image, group * channels + channel, w, geometry, out_width, first + lane, lane, run
                        )
                        lane += run


@kernel()
def _gather_taps(
    x: Array,
    image: int,
    first_channel: int,
    first: int,
    count: int,
    w: Array,
    geometry: Geometry,
    out_width: int,
    pixel0: int,
    pixel1: int,
    target: int,
) -> None:
    """target[t, 0:pixel1 - pixel0] for the taps first..first + count of one image, rows DEPTH floats apart."""
    height, width = x.shape[2], x.shape[3]
    taps, step = w.shape[2] * w.shape[3], geometry[2]
    for t in range(count):
        channel, tap = (first + t) // taps, (first + t) % taps
        i, j = tap // w.shape[3], tap % w.shape[3]
        base = x[image, first_channel + channel].ctypes.data
        at = pixel0
        while at < pixel1:
            row, column = at // out_width, at % out_width
            run = min(min(LANES, pixel1 - at), out_width - column)
            y = row * geometry[1] - geometry[3] + i * geometry[5]
            left = column * step - geometry[4] + j * geometry[6]
            low, high = _first_inside(left, step), _end_inside(left, step, width)
            if y < 0 or y >= height:
                low, high = 0, 0
            _copy(base + 4 * (y * width + left), 0, target + 4 * (t * DEPTH + at - pixel0), 0, 1, low, high, run, step)
            at += run


@kernel()
def gradient_part(
    part: int, parts: int, x: Array, dy: Array, dw: Array, geometry: Geometry, accumulate: int, scratch: Array
) -> None:
    """Part of the gradient of the weight: ``dw (+)= sum over the batch``; shapes as in ``forward_part``.

    ``scratch`` has ``gradient_scratch(parts)`` bytes.
    """
    batch, filters, out_height, out_width = dy.shape
    channels, taps = dw.shape[1], dw.shape[2] * dw.shape[3]
    groups, pixels = geometry[0], out_height * out_width
    per_group, inner = filters // groups, channels * taps
    gathered = scratch.ctypes.data + 4 * part * (scratch.size // parts)
    packed = gathered + 4 * DEPTH * COLUMNS
    panels = (inner + COLUMNS - 1) // COLUMNS
    tiles = (per_group + ROWS - 1) // ROWS
    splits = min(tiles, (parts + groups * panels - 1) // (groups * panels))
    units = groups * panels * splits
    for unit in range(part * units // parts, (part + 1) * units // parts):
        group, panel, split = unit // (panels * splits), unit // splits % panels, unit % splits
        first = panel * COLUMNS
        columns = min(COLUMNS, inner - first)
        for image in range(batch):
            for p0 in range(0, pixels, DEPTH):
                depth = min(DEPTH, pixels - p0)
                _gather_taps(
                    x, image, group * channels, first, columns, dw, geometry, out_width, p0, p0 + depth, gathered
                )
                for j in range(0, COLUMNS, LANES):
                    for k in range(0, depth, LANES):
                        source, place = gathered + 4 * (j * DEPTH + k), packed + 4 * (k * COLUMNS + j)
                        transpose(source, DEPTH, place, COLUMNS, columns - j, depth - k, LANES)
                mode = ADD_ROWS if accumulate or image > 0 or p0 > 0 else 0
                for m in range(
                    split * tiles // splits * ROWS, min(per_group, (split + 1) * tiles // splits * ROWS), ROWS
                ):
                    rows = min(ROWS, per_group - m)
                    target = dw.ctypes.data + 4 * ((group * per_group + m) * inner + first)
                    source = dy[image, group * per_group + m].ctypes.data + 4 * p0
                    multiply_rows(
                        rows, columns, depth, source, pixels, 1, packed, COLUMNS, target, inner, target, inner, mode
                    )


@kernel()
def forward(x: Array, w: Array, bias: Array, out: Array, geometry: Geometry, scratch: Array, parts: int) -> None:
    """``forward_part`` on this thread."""
    for part in range(parts):
        forward_part(part, parts, x, w, bias, out, geometry, scratch)


@kernel(parallel=True)
def forward_parallel(
    x: Array, w: Array, bias: Array, out: Array, geometry: Geometry, scratch: Array, parts: int
) -> None:
    """``forward_part`` on several threads."""
    for part in prange(parts):
        forward_part(part, parts, x, w, bias, out, geometry, scratch)


@kernel()
def derivative(dy: Array, w: Array, bias: Array, dx: Array, geometry: Geometry, scratch: Array, parts: int) -> None:
    """``derivative_part`` on this thread."""
    for part in range(parts):
        derivative_part(part, parts, dy, w, bias, dx, geometry, scratch)


@kernel(parallel=True)
def derivative_parallel(
    dy: Array, w: Array, bias: Array, dx: Array, geometry: Geometry, scratch: Array, parts: int
) -> None:
    """``derivative_part`` on several threads."""
    for part in prange(parts):
        derivative_part(part, parts, dy, w, bias, dx, geometry, scratch)


@kernel()
def gradient(x: Array, dy: Array, dw: Array, geometry: Geometry, accumulate: int, scratch: Array, parts: int) -> None:
    """``gradient_part`` on this thread."""
    for part in range(parts):
        gradient_part(part, parts, x, dy, dw, geometry, accumulate, scratch)


@kernel(parallel=True)
def gradient_parallel(
    x: Array, dy: Array, dw: Array, geometry: Geometry, accumulate: int, scratch: Array, parts: int
) -> None:
    """``gradient_part`` on several threads."""
    for part in prange(parts):
        gradient_part(part, parts, x, dy, dw, geometry, accumulate, scratch)
