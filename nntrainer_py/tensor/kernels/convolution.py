"""Direct 2-D convolution (cross-correlation) of float32 NCHW arrays: forward, input derivative, weight gradient.

An implicit matrix product: panels of COLUMNS output pixels (or taps) are gathered from the image as they are needed,
so the scratch is a few panels per part, whatever the layer.  Any kernel, stride, padding, dilation and groups.

``geometry`` is the int64 array (groups, stride_h, stride_w, pad_top, pad_left, dilation_h, dilation_w); padding at
the bottom and right follows from the shape of the output.  All sums run in an order fixed by the shapes of one
sample; the weight gradient sums the samples in ascending order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.convolution_gather import (
    gather_panel,
    gather_taps,
    move_tile,
    pack_images,
    pack_pixels,
    scatter_tile,
)
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.matmul import multiply_rows, pack_transposed
from nntrainer_py.tensor.kernels.micro_kernel import ADD_COLUMN, ADD_ROWS, COLUMNS, RELU, ROWS

Array = npt.NDArray[np.float32]
Geometry = npt.NDArray[np.int64]

DEPTH = 256  # sums per block of the inner dimension: a panel (32 KiB) stays in the first cache
_DEEP = 512  # the same where each block costs a scattered addition
_TOGETHER = 4  # panels of taps that a packed tile of the output's gradient is used for
_TILE = 128  # rows of products that are scattered together


def channels_per_block(channels: int, taps: int) -> int:
    """Input channels whose taps make one block of the inner dimension."""
    return max(1, min(channels, DEPTH // taps))


def channels_per_tile(channels: int, taps: int) -> int:
    """Input channels whose products are made and scattered together; a multiple of ROWS where that is possible."""
    count = _TILE // taps
    if count >= ROWS:
        count -= count % ROWS
    return max(1, min(channels, count))


def forward_scratch(channels: int, taps: int, parts: int) -> int:
    """Bytes for ``forward``: ``channels`` input channels per group, ``taps`` = kernel height times width."""
    depth = channels_per_block(channels, taps) * taps
    return 4 * parts * (depth * COLUMNS + ROWS * COLUMNS)


def derivative_scratch(filters: int, channels: int, taps: int, parts: int) -> int:
    """Bytes for ``derivative``: ``filters`` output and ``channels`` input channels per group."""
    return 4 * parts * (min(filters, _DEEP) + channels_per_tile(channels, taps) * taps) * COLUMNS


def gradient_scratch(inner: int, parts: int) -> int:
    """Bytes for ``gradient``: ``inner`` = input channels per group times taps."""
    panels = min(_TOGETHER, -(-inner // COLUMNS))
    return 4 * parts * DEPTH * ((1 + panels) * COLUMNS + ROWS)


@kernel()
def forward_part(
    part: int,
    parts: int,
    x: Array,
    w: Array,
    bias: Array,
    rectify: int,
    out: Array,
    geometry: Geometry,
    scratch: Array,
) -> None:
    """Part of ``out = convolution(x, w) (+ bias)``, negative results 0 if ``rectify``.

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
    splits = min(tiles, (parts + groups * panels - 1) // (groups * panels))  # filters are split if panels are too few
    units = groups * panels * splits
    for unit in range(part * units // parts, (part + 1) * units // parts):
        group, split, panel = unit // (panels * splits), unit // panels % splits, unit % panels
        first, last = panel * COLUMNS, min((panel + 1) * COLUMNS, batch * pixels)
        image, pixel = first // pixels, first % pixels
        whole = pixel + (last - first) <= pixels
        for c0 in range(0, channels, block):
            count = min(block, channels - c0)
            depth = count * taps
            gather_panel(x, group * channels + c0, count, w, geometry, out_height, out_width, first, last, packed)
            for m in range(split * tiles // splits * ROWS, min(per_group, (split + 1) * tiles // splits * ROWS), ROWS):
                rows = min(ROWS, per_group - m)
                channel = group * per_group + m
                weights = w.ctypes.data + 4 * (channel * inner + c0 * taps)
                target, stride = out[image, channel].ctypes.data + 4 * pixel, pixels
                if not whole:
                    target, stride = tile, COLUMNS
                    if c0 > 0:
                        move_tile(tile, out.ctypes.data, filters, channel, pixels, first, last, rows, 0)
                mode, init, step = ADD_ROWS, target, stride
                if c0 == 0:
                    mode, init, step = 0, 0, 0
                    if bias.size:
                        mode, init, step = ADD_COLUMN, bias.ctypes.data + 4 * channel, 1
                if rectify and c0 + count == channels:
                    mode |= RELU
                multiply_rows(
                    rows, last - first, depth, weights, inner, 1, packed, COLUMNS, target, stride, init, step, mode
                )
                if not whole:
                    move_tile(tile, out.ctypes.data, filters, channel, pixels, first, last, rows, 1)


@kernel()
def derivative_part(
    part: int, parts: int, dy: Array, w: Array, bias: Array, dx: Array, geometry: Geometry, scratch: Array
) -> None:
    """Part of the gradient of the input: dx [N, C, H, W] from dy [N, filters, OH, OW]; shapes as in ``forward_part``.

    ``bias`` [C], if not empty, is added (a transposed convolution's forward pass).
    ``scratch`` has ``derivative_scratch(filters / groups, C / groups, kh kw, parts)`` bytes.
    """
    batch, filters, out_height, out_width = dy.shape
    channels, taps = w.shape[1], w.shape[2] * w.shape[3]
    groups, pixels = geometry[0], out_height * out_width
    per_group, inner = filters // groups, channels * taps
    deepest = min(per_group, _DEEP)
    together = _TILE // taps  # channels_per_tile
    if together >= ROWS:
        together -= together % ROWS
    together = max(1, min(channels, together))
    packed = scratch.ctypes.data + 4 * part * (scratch.size // parts)
    tile = packed + 4 * deepest * COLUMNS
    images = max(1, COLUMNS // pixels)  # small images share a panel
    bunches = (batch + images - 1) // images
    blocks = (channels + together - 1) // together
    splits = min(blocks, (parts + bunches * groups - 1) // (bunches * groups))
    units = bunches * groups * splits
    for unit in range(part * units // parts, (part + 1) * units // parts):
        bunch, group, split = unit // (groups * splits), unit // splits % groups, unit % splits
        low, high = split * blocks // splits * together, min(channels, (split + 1) * blocks // splits * together)
        first_image = bunch * images
        here = min(images, batch - first_image)
        for image in range(first_image, first_image + here):
            for channel in range(group * channels + low, group * channels + high):
                dx[image, channel] = bias[channel] if bias.size else np.float32(0.0)
        for first in range(first_image * pixels, (first_image + here) * pixels, COLUMNS):
            last = min(first + COLUMNS, (first_image + here) * pixels)
            for f0 in range(0, per_group, deepest):
                depth = min(deepest, per_group - f0)
                filter0 = group * per_group + f0
                pack_pixels(dy.ctypes.data, filters, filter0, pixels, first, last, depth, packed)
                for channel in range(low, high, together):
                    count = min(together, high - channel)
                    weights = w.ctypes.data + 4 * (filter0 * inner + channel * taps)
                    for m in range(0, count * taps, ROWS):
                        rows = min(ROWS, count * taps - m)
                        place = tile + 4 * m * COLUMNS
                        multiply_rows(
                            rows, COLUMNS, depth, weights + 4 * m, 1, inner, packed, COLUMNS, place, COLUMNS, 0, 0, 0
                        )
                    scatter_tile(
                        tile, dx, group * channels + channel, count, w, geometry, out_height, out_width, first, last
                    )


@kernel()
def _gradient_block(
    x: Array,
    dy: Array,
    dw: Array,
    geometry: Geometry,
    accumulate: int,
    group: int,
    first: int,
    columns: int,
    low: int,
    high: int,
    scratch: int,
) -> None:
    """Filters low..high of a group by taps first..first + columns, summed over the batch."""
    batch, filters, out_height, out_width = dy.shape
    pixels, channels = out_height * out_width, dw.shape[1]
    inner = channels * dw.shape[2] * dw.shape[3]
    gathered = scratch
    tile = gathered + 4 * DEPTH * COLUMNS
    packed = tile + 4 * DEPTH * ROWS
    bunch = DEPTH // pixels if pixels < DEPTH // 4 else 1  # small images are summed together
    columns_at_once = min(out_width, DEPTH)
    rows_at_once = max(1, DEPTH // out_width)  # whole rows, or a piece of one that is longer
    mode = ADD_ROWS if accumulate else 0
    for image in range(0, batch, bunch):
        images = min(bunch, batch - image)
        for row in range(0, out_height, rows_at_once):
            for column in range(0, out_width, columns_at_once):
                height, width = min(rows_at_once, out_height - row), min(columns_at_once, out_width - column)
                depth = images * height * width
                for q in range(0, columns, COLUMNS):
                    count = min(COLUMNS, columns - q)
                    for i in range(images):
                        place = gathered + 4 * i * height * width
                        gather_taps(
                            x,
                            image + i,
                            group * channels,
                            first + q,
                            count,
                            dw,
                            geometry,
                            row,
                            column,
                            height,
                            width,
                            place,
                            depth,
                        )
                    pack_transposed(gathered, depth, depth, count, packed + 4 * depth * q)
                for m in range(low, high, ROWS):
                    rows = min(ROWS, high - m)
                    channel = group * (filters // geometry[0]) + m
                    source, step = dy[image, channel].ctypes.data + 4 * (row * out_width + column), pixels
                    if images > 1:
                        pack_images(source, filters * pixels, pixels, images, rows, tile)
                        source, step = tile, depth
                    for q in range(0, columns, COLUMNS):
                        count = min(COLUMNS, columns - q)
                        target, panel = dw.ctypes.data + 4 * (channel * inner + first + q), packed + 4 * depth * q
                        multiply_rows(
                            rows, count, depth, source, step, 1, panel, COLUMNS, target, inner, target, inner, mode
                        )
                mode = ADD_ROWS


@kernel()
def gradient_part(
    part: int, parts: int, x: Array, dy: Array, dw: Array, geometry: Geometry, accumulate: int, scratch: Array
) -> None:
    """Part of the gradient of the weight: ``dw (+)= sum over the batch``; shapes as in ``forward_part``.

    ``scratch`` has ``gradient_scratch(C / groups kh kw, parts)`` bytes.
    """
    groups, inner = geometry[0], dw.shape[1] * dw.shape[2] * dw.shape[3]
    panels = (inner + COLUMNS - 1) // COLUMNS
    tiles = (dw.shape[0] // groups + ROWS - 1) // ROWS
    splits = min(tiles, (parts + groups * panels - 1) // (groups * panels))
    units = groups * panels * splits
    at, last = part * units // parts, (part + 1) * units // parts
    place = scratch.ctypes.data + 4 * part * (scratch.size // parts)
    while at < last:
        group, split, panel = at // (panels * splits), at // panels % splits, at % panels
        many = min(min(_TOGETHER, panels - panel), last - at)
        low, high = split * tiles // splits * ROWS, min(dw.shape[0] // groups, (split + 1) * tiles // splits * ROWS)
        columns = min(many * COLUMNS, inner - panel * COLUMNS)
        _gradient_block(x, dy, dw, geometry, accumulate, group, panel * COLUMNS, columns, low, high, place)
        at += many


@kernel(forks=True)
def forward(
    x: Array, w: Array, bias: Array, rectify: int, out: Array, geometry: Geometry, scratch: Array, parts: int
) -> None:
    """All parts of ``forward_part``, on as many threads."""
    fork_join(forward_part, parts, (x, w, bias, rectify, out, geometry, scratch))


@kernel(forks=True)
def derivative(dy: Array, w: Array, bias: Array, dx: Array, geometry: Geometry, scratch: Array, parts: int) -> None:
    """All parts of ``derivative_part``, on as many threads."""
    fork_join(derivative_part, parts, (dy, w, bias, dx, geometry, scratch))


@kernel(forks=True)
def gradient(x: Array, dy: Array, dw: Array, geometry: Geometry, accumulate: int, scratch: Array, parts: int) -> None:
    """All parts of ``gradient_part``, on as many threads."""
    fork_join(gradient_part, parts, (x, dy, dw, geometry, accumulate, scratch))
