"""Convolutions of stride 1 with few channels: images are padded once and read where they lie, nothing is gathered.

In a padded image of ``pitch`` floats a row, an output pixel (y, x) and the tap (i, j) meet at the flat place
y pitch + x + i pitch + j: for a fixed tap, consecutive flat places of the output read consecutive floats. The places
between the end of an output row and the next are computed too and dropped. ``geometry`` as in ``convolution``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.dot_kernel import NARROW, WIDE, dot_narrow, dot_wide
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.matmul import pieces
from nntrainer_py.tensor.kernels.micro_kernel import ADD_COLUMN, COLUMNS, LANES, RELU, ROWS, product_indexed
from nntrainer_py.tensor.kernels.vectors import copy_grid

Array = npt.NDArray[np.float32]
Geometry = npt.NDArray[np.int64]

FEW = 16  # outer channels up to which reading in place beats gathering
_MOST = 1 << 20  # bytes of scratch of a part
_BUNCH = 1 << 13  # floats of images summed at a time in the gradient


def _padded(out: int, kernel_size: int, dilation: int) -> int:
    return out + (kernel_size - 1) * dilation


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


def _image(inner: int, out: tuple[int, int], window: tuple[int, int], dilation: tuple[int, int]) -> tuple[int, int]:
    """(floats of ``inner`` padded planes, flat places of an output plane up to its last pixel)."""
    high, pitch = _padded(out[0], window[0], dilation[0]), _padded(out[1], window[1], dilation[1])
    return inner * high * pitch, (out[0] - 1) * pitch + out[1]


def offsets(inner: int, out: tuple[int, int], window: tuple[int, int], dilation: tuple[int, int]) -> Geometry:
    """Flat place of each (channel, tap) in the padded image: the table that ``product`` reads."""
    high, pitch = _padded(out[0], window[0], dilation[0]), _padded(out[1], window[1], dilation[1])
    channel = np.arange(inner)[:, None, None] * high * pitch
    down = np.arange(window[0])[None, :, None] * dilation[0] * pitch
    return np.asarray((channel + down + np.arange(window[1]) * dilation[1]).reshape(-1), np.int64)


def product_scratch(
    inner: int, outer: int, out: tuple[int, int], window: tuple[int, int], dilation: tuple[int, int], parts: int
) -> int:
    """Bytes for ``product``: ``inner`` channels summed over, ``outer`` made by a group, an output of ``out`` pixels."""
    planes, flat = _image(inner, out, window, dilation)
    part = _up(planes + 2 * COLUMNS, LANES) + outer * _up(flat, COLUMNS) + outer * inner * window[0] * window[1]
    return 4 * parts * _up(part, LANES)


def gradient_scratch(
    channels: int, filters: int, out: tuple[int, int], window: tuple[int, int], dilation: tuple[int, int], parts: int
) -> int:
    """Bytes for ``gradient``."""
    planes, flat = _image(channels, out, window, dilation)
    image = _up(planes, LANES) + filters * _up(flat, LANES)
    return 4 * parts * (max(1, _BUNCH // image) * image + 2 * LANES)


def suits_product(
    inner: int, outer: int, out: tuple[int, int], window: tuple[int, int], dilation: tuple[int, int]
) -> bool:
    """Whether ``product`` is worth while: few outer channels, and a scratch that stays small."""
    return outer <= FEW and product_scratch(inner, outer, out, window, dilation, 1) <= _MOST


def suits_gradient(
    channels: int, filters: int, groups: int, out: tuple[int, int], window: tuple[int, int], dilation: tuple[int, int]
) -> bool:
    """Whether ``gradient`` is worth while, for all ``channels`` and ``filters``."""
    few = filters // groups <= (FEW if window[1] > NARROW[1] else FEW // 2)
    return few and gradient_scratch(channels, filters, out, window, dilation, 1) <= _MOST


@kernel()
def _pad_image(
    image: int, height: int, width: int, channels: int, top: int, left: int, high: int, pitch: int, target: int
) -> None:
    """Copy ``channels`` planes to the inside of planes of ``high`` x ``pitch``, whose borders hold zeros already."""
    first, last = max(0, -top), min(height, high - top)
    start, end = max(0, -left), min(width, pitch - left)
    for x in range(start, end, LANES):
        run = min(LANES, end - x)
        place = target + 4 * ((first + top) * pitch + x + left)
        source = image + 4 * (first * width + x)
        copy_grid(source, height * width, width, place, high * pitch, pitch, channels, last - first, 0, run, run)


@kernel()
def _clear(target: int, count: int) -> None:
    runs = count // LANES
    copy_grid(target, 0, 0, target, LANES, 0, runs, 1, 0, 0, LANES)
    copy_grid(target, 0, 0, target + 4 * runs * LANES, 0, 0, 1, 1, 0, 0, count - runs * LANES)


@kernel()
def _turn_weights(w: Array, first: int, inner: int, turned: Array) -> None:
    """turned[m, k, tap] = w[first + k, m, last tap - tap]."""
    outer, taps, width = w.shape[1], w.shape[2] * w.shape[3], w.shape[3]
    for m in range(outer):
        for k in range(inner):
            for t in range(taps):
                back = taps - 1 - t
                turned[(m * inner + k) * taps + t] = w[first + k, m, back // width, back % width]


@kernel()
def product_part(
    part: int,
    parts: int,
    x: Array,
    w: Array,
    flip: int,
    bias: Array,
    rectify: int,
    out: Array,
    geometry: Geometry,
    table: Geometry,
    scratch: Array,
) -> None:
    """Part (of the images) of ``out`` [N, outer, H, W] = convolution of x [N, inner, ...] with w, plus ``bias``.

    Rectified if ``rectify``.

    ``flip`` 0: w is [outer, inner, kh, kw]; 1: x is the output's gradient, w is [inner, outer, kh, kw] and is turned.
    With groups the second axis of w is that of one group.
    """
    batch, _, out_height, out_width = out.shape
    groups = geometry[0]
    outer, inner, window_height, window_width = out.shape[1] // groups, x.shape[1] // groups, w.shape[2], w.shape[3]
    taps = window_height * window_width
    depth = inner * taps
    reach_down, reach = (window_height - 1) * geometry[5], (window_width - 1) * geometry[6]
    high, pitch = out_height + reach_down, out_width + reach
    top, left = geometry[3], geometry[4]
    if flip:
        top, left = reach_down - top, reach - left
    flat = (out_height - 1) * pitch + out_width
    wide = (flat + COLUMNS - 1) // COLUMNS * COLUMNS
    size = scratch.size // parts
    padded = scratch.ctypes.data + 4 * part * size
    weights = padded + 4 * (size - outer * depth)
    result = weights - 4 * outer * wide
    _clear(padded, size - outer * (depth + wide))
    turned = scratch[part * size + size - outer * depth : part * size + size]
    mode = (ADD_COLUMN if bias.size else 0) | (RELU if rectify else 0)
    units = batch * groups
    for unit in range(part * units // parts, (part + 1) * units // parts):
        image, group = unit // groups, unit % groups
        source = w.ctypes.data + 4 * group * outer * depth
        if flip:
            source = weights
            if groups > 1 or unit == part * units // parts:
                _turn_weights(w, group * inner, inner, turned)
        first = x[image, group * inner].ctypes.data
        _pad_image(first, x.shape[2], x.shape[3], inner, top, left, high, pitch, padded)
        bias_at = bias.ctypes.data + 4 * group * outer
        for m in range(0, outer, ROWS):
            last = min(outer, m + ROWS)
            for p in range(0, wide, COLUMNS):
                row = m
                while row < last:
                    rows = pieces(last - row)
                    product_indexed(
                        rows,
                        COLUMNS,
                        depth,
                        source + 4 * row * depth,
                        depth,
                        1,
                        padded + 4 * p,
                        table.ctypes.data,
                        result + 4 * (row * wide + p),
                        wide,
                        bias_at + 4 * row,
                        1,
                        mode,
                    )
                    row += rows
        made = out[image, group * outer].ctypes.data
        for p in range(0, out_width, LANES):
            run, plane = min(LANES, out_width - p), out_height * out_width
            copy_grid(result + 4 * p, wide, pitch, made + 4 * p, plane, out_width, outer, out_height, 0, run, run)


@kernel()
def gradient_part(
    part: int, parts: int, x: Array, dy: Array, dw: Array, geometry: Geometry, accumulate: int, scratch: Array
) -> None:
    """Part (of the pairs of channel and kernel row) of dw [filters, channels, kh, kw] (+)= the weight's gradient."""
    batch, filters, out_height, out_width = dy.shape
    groups, window_height, window_width = geometry[0], dw.shape[2], dw.shape[3]
    channels, per_group = groups * dw.shape[1], filters // groups
    down, along = geometry[5], geometry[6]
    high, pitch = out_height + (window_height - 1) * down, out_width + (window_width - 1) * along
    flat = ((out_height - 1) * pitch + out_width + LANES - 1) // LANES * LANES
    plane = high * pitch
    planes = (channels * plane + LANES - 1) // LANES * LANES
    image_floats = planes + filters * flat
    size = scratch.size // parts
    bunch = min(batch, (size - 2 * LANES) // image_floats)
    gradients = scratch.ctypes.data + 4 * part * size
    padded = gradients + 4 * bunch * filters * flat
    _clear(gradients, size)
    narrow = (window_width + NARROW[1] - 1) // NARROW[1] * NARROW[1] * WIDE[0] * WIDE[1] < (
        (window_width + WIDE[1] - 1) // WIDE[1] * WIDE[1] * NARROW[0] * NARROW[1]
    )
    many, taps = (NARROW[0], NARROW[1]) if narrow else (WIDE[0], WIDE[1])
    units = channels * window_height
    inner = units // groups * window_width
    for first in range(0, batch, bunch):
        images = min(bunch, batch - first)
        for i in range(images):
            image = first + i
            place = padded + 4 * i * planes
            _pad_image(
                x[image].ctypes.data, x.shape[2], x.shape[3], channels, geometry[3], geometry[4], high, pitch, place
            )
            for p in range(0, out_width, LANES):
                run = min(LANES, out_width - p)
                source, target = dy[image].ctypes.data + 4 * p, gradients + 4 * (i * filters * flat + p)
                copy_grid(
                    source, out_height * out_width, out_width, target, flat, pitch, filters, out_height, 0, run, run
                )
        add = 1 if accumulate or first > 0 else 0
        for unit in range(part * units // parts, (part + 1) * units // parts):
            channel, i = unit // window_height, unit % window_height
            group = channel // dw.shape[1]
            column = (channel % dw.shape[1] * window_height + i) * window_width
            for m in range(group * per_group, (group + 1) * per_group, many):
                rows = min(many, (group + 1) * per_group - m)
                a = gradients + 4 * m * flat
                for j in range(0, window_width, taps):
                    some, runs = min(taps, window_width - j), flat // LANES
                    b = padded + 4 * (channel * plane + i * down * pitch + j * along)
                    c = dw.ctypes.data + 4 * (m * inner + column + j)
                    if narrow:
                        dot_narrow(rows, some, images, runs, a, flat, filters * flat, b, along, planes, c, inner, add)
                    else:
                        dot_wide(rows, some, images, runs, a, flat, filters * flat, b, along, planes, c, inner, add)


@kernel(forks=True)
def product(
    x: Array,
    w: Array,
    flip: int,
    bias: Array,
    rectify: int,
    out: Array,
    geometry: Geometry,
    table: Geometry,
    scratch: Array,
    parts: int,
) -> None:
    """All parts of ``product_part``; ``table`` is ``offsets``, ``scratch`` has ``product_scratch`` bytes."""
    fork_join(product_part, parts, (x, w, flip, bias, rectify, out, geometry, table, scratch))


@kernel(forks=True)
def gradient(x: Array, dy: Array, dw: Array, geometry: Geometry, accumulate: int, scratch: Array, parts: int) -> None:
    """All parts of ``gradient_part``; ``scratch`` has ``gradient_scratch`` bytes."""
    fork_join(gradient_part, parts, (x, dy, dw, geometry, accumulate, scratch))
