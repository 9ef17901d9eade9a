"""Moving pixels between images and the panels of a direct convolution; ``geometry`` as in ``convolution``."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.micro_kernel import COLUMNS, LANES
from nntrainer_py.tensor.kernels.vectors import (
    add_grid,
    add_grid_to_seconds,
    copy_grid,
    copy_grid_of_seconds,
    copy_run,
    peek,
    poke,
)

Array = npt.NDArray[np.float32]
Geometry = npt.NDArray[np.int64]

_NEAR = 8  # channels moved together: more would fall into one set of the first cache for images of 4 KiB


@kernel()
def _first_inside(offset: int, stride: int) -> int:
    """Smallest t >= 0 with offset + t stride >= 0."""
    if offset >= 0:
        return 0
    if stride == 1:
        return -offset
    if stride == 2:
        return (1 - offset) >> 1
    return (stride - 1 - offset) // stride


@kernel()
def _end_inside(offset: int, stride: int, size: int) -> int:
    """Smallest t >= 0 with offset + t stride >= size."""
    if offset >= size:
        return 0
    if stride == 1:
        return size - offset
    if stride == 2:
        return (size - offset + 1) >> 1
    return (size - offset + stride - 1) // stride


@kernel()
def _copy(
    source: int,
    source1: int,
    source2: int,
    target: int,
    target1: int,
    target2: int,
    n1: int,
    n2: int,
    low: int,
    high: int,
    width: int,
    step: int,
) -> None:
    """``copy_grid`` with ``step`` floats between the elements read."""
    if step == 1:
        copy_grid(source, source1, source2, target, target1, target2, n1, n2, low, high, width)
    elif step == 2:
        copy_grid_of_seconds(source, source1, source2, target, target1, target2, n1, n2, low, high, width)
    else:
        for i in range(n1):
            for j in range(n2):
                for lane in range(width):
                    value = np.float32(0.0)
                    if low <= lane and lane < high:
                        value = peek(source + 4 * (i * source1 + j * source2 + lane * step))
                    poke(target + 4 * (i * target1 + j * target2 + lane), value)


@kernel()
def _add(
    source: int,
    source1: int,
    source2: int,
    target: int,
    target1: int,
    target2: int,
    n1: int,
    n2: int,
    low: int,
    high: int,
    step: int,
) -> None:
    """``add_grid`` with ``step`` floats between the elements changed."""
    if step == 1:
        add_grid(source, source1, source2, target, target1, target2, n1, n2, low, high)
    elif step == 2:
        add_grid_to_seconds(source, source1, source2, target, target1, target2, n1, n2, low, high)
    else:
        for i in range(n1):
            for j in range(n2):
                for lane in range(max(low, 0), min(high, LANES)):
                    place = target + 4 * (i * target1 + j * target2 + lane * step)
                    poke(place, peek(place) + peek(source + 4 * (i * source1 + j * source2 + lane)))


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
    plane, taps, step, down = height * width, kernel_height * kernel_width, geometry[2], geometry[5]
    y = row * geometry[1] - geometry[3]
    first, last = _first_inside(y, down), min(kernel_height, _end_inside(y, down, height))
    first = min(first, last)
    line = kernel_width * COLUMNS
    for near in range(0, channels, _NEAR):
        count = min(_NEAR, channels - near)
        for j in range(kernel_width):
            x = column * step - geometry[4] + j * geometry[6]
            low, high = _first_inside(x, step), _end_inside(x, step, width)
            source = image + 4 * (near * plane + (y + first * down) * width + x)
            place = target + 4 * (near * taps + j) * COLUMNS
            inside = place + 4 * first * line
            _copy(source, plane, down * width, inside, taps * COLUMNS, line, count, last - first, low, high, run, step)
            if first > 0:
                copy_grid(source, 0, 0, place, taps * COLUMNS, line, count, first, 0, 0, run)
            if last < kernel_height:
                below = place + 4 * last * line
                copy_grid(source, 0, 0, below, taps * COLUMNS, line, count, kernel_height - last, 0, 0, run)


@kernel()
def gather_panel(
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
    image, rest = first // (out_height * out_width), first % (out_height * out_width)
    row, column = rest // out_width, rest % out_width
    at = first
    while at < last:
        run = min(min(LANES, last - at), out_width - column)
        base = x[image, first_channel].ctypes.data
        place = target + 4 * (at - first)
        _gather(base, height, width, channels, w.shape[2], w.shape[3], geometry, row, column, run, place)
        at += run
        column += run
        if column == out_width:
            column = 0
            row += 1
            if row == out_height:
                row = 0
                image += 1


@kernel()
def move_tile(
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
def pack_pixels(
    dy: int, filters: int, first_filter: int, pixels: int, first: int, last: int, depth: int, target: int
) -> None:
    """Panel [depth, COLUMNS] of the flat output pixels first..last, zero beyond them."""
    at = first
    while at < first + COLUMNS:
        place = target + 4 * (at - first)
        if at >= last:
            run = min(LANES, first + COLUMNS - at)
            copy_run(dy, 0, place, COLUMNS, depth, 0, 0, run, np.float32(1.0))
        else:
            image, pixel = at // pixels, at % pixels
            run = min(min(LANES, last - at), pixels - pixel)
            source = dy + 4 * ((image * filters + first_filter) * pixels + pixel)
            copy_run(source, pixels, place, COLUMNS, depth, 0, run, run, np.float32(1.0))
        at += run


@kernel()
def pack_images(source: int, image_step: int, pixels: int, images: int, rows: int, target: int) -> None:
    """Tile [rows, images * pixels] of ``rows`` channels of several small images."""
    depth = images * pixels
    for image in range(images):
        for pixel in range(0, pixels, LANES):
            run = min(LANES, pixels - pixel)
            place = source + 4 * (image * image_step + pixel)
            inside = target + 4 * (image * pixels + pixel)
            copy_run(place, pixels, inside, depth, rows, 0, run, run, np.float32(1.0))


@kernel()
def scatter_tile(
    tile: int,
    dx: Array,
    channel: int,
    channels: int,
    w: Array,
    geometry: Geometry,
    out_height: int,
    out_width: int,
    first: int,
    last: int,
) -> None:
    """Add tile[(c, i, j), COLUMNS] of the flat output pixels first..last to the input pixels that those taps read."""
    height, width = dx.shape[2], dx.shape[3]
    kernel_height, kernel_width = w.shape[2], w.shape[3]
    plane, taps, step, down = height * width, kernel_height * kernel_width, geometry[2], geometry[5]
    image, rest = first // (out_height * out_width), first % (out_height * out_width)
    row, column = rest // out_width, rest % out_width
    at = first
    while at < last:
        run = min(min(LANES, last - at), out_width - column)
        y = row * geometry[1] - geometry[3]
        top, bottom = _first_inside(y, down), min(kernel_height, _end_inside(y, down, height))
        base = dx[image, channel].ctypes.data
        for near in range(0, channels, _NEAR):
            count = min(_NEAR, channels - near)
            for j in range(kernel_width):
                x = column * step - geometry[4] + j * geometry[6]
                low, high = _first_inside(x, step), min(run, _end_inside(x, step, width))
                source = tile + 4 * ((near * taps + top * kernel_width + j) * COLUMNS + at - first)
                target = base + 4 * (near * plane + (y + top * down) * width + x)
                _add(
                    source,
                    taps * COLUMNS,
                    kernel_width * COLUMNS,
                    target,
                    plane,
                    down * width,
                    count,
                    bottom - top,
                    low,
                    high,
                    step,
                )
        at += run
        column += run
        if column == out_width:
            column = 0
            row += 1
            if row == out_height:
                row = 0
                image += 1


@kernel()
def gather_taps(
    x: Array,
    image: int,
    first_channel: int,
    first: int,
    count: int,
    w: Array,
    geometry: Geometry,
    row: int,
    column: int,
    rows: int,
    columns: int,
    target: int,
    stride: int,
) -> None:
    """target[t, 0:rows * columns] = what the taps first..first + count read for a rectangle of output pixels."""
    height, width = x.shape[2], x.shape[3]
    kernel_width = w.shape[3]
    taps, step = w.shape[2] * kernel_width, geometry[2]
    channel, tap = first // taps, first % taps
    i, j = tap // kernel_width, tap % kernel_width
    for t in range(count):
        base = x[image, first_channel + channel].ctypes.data
        y = row * geometry[1] - geometry[3] + i * geometry[5]
        top, bottom = _first_inside(y, geometry[1]), min(rows, _end_inside(y, geometry[1], height))
        top = min(top, bottom)
        for c in range(0, columns, LANES):
            run = min(LANES, columns - c)
            left = (column + c) * step - geometry[4] + j * geometry[6]
            low, high = _first_inside(left, step), _end_inside(left, step, width)
            place = target + 4 * (t * stride + c)
            source = base + 4 * ((y + top * geometry[1]) * width + left)
            inside = place + 4 * top * columns
            _copy(source, 0, geometry[1] * width, inside, 0, columns, 1, bottom - top, low, high, run, step)
            if top > 0:
                copy_grid(source, 0, 0, place, 0, columns, 1, top, 0, 0, run)
            if bottom < rows:
                copy_grid(source, 0, 0, place + 4 * bottom * columns, 0, columns, 1, rows - bottom, 0, 0, run)
        j += 1
        if j == kernel_width:
            j = 0
            i += 1
            if i == w.shape[2]:
                i = 0
                channel += 1
