"""Pooling over planes: arrays are ``[planes, height, width]``, planes are split over threads, each is one thread's own.

``window`` is (kernel height, kernel width, stride down, stride right, rows of padding above, columns of padding left).
Padding is never read: windows are cut at the edges, so an average divides by the cells it saw.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.micro_kernel import LANES
from nntrainer_py.tensor.kernels.shares import share
from nntrainer_py.tensor.kernels.vectors import average_pairs, largest_of_pairs, share_among_pairs

Array = npt.NDArray[Any]
Window = tuple[int, int, int, int, int, int]
f4 = np.float32


@kernel()
def bounds(place: int, stride: int, before: int, size: int, count: int) -> tuple[int, int]:
    """First and last (exclusive) of the output cells whose kernel cell ``place`` lies inside an axis of ``size``."""
    # i * stride + place - before >= 0 and < size
    first = max((before - place + stride - 1) // stride, 0)
    last = min((size - 1 - place + before) // stride + 1, count)
    return first, last


@kernel()
def _best_of_row(
    row: Array, start: int, stride: int, kw: int, mark: int, values: Array, marks: Array, first: int, last: int
) -> None:
    """Compare the cells of one kernel row, all inside, for the outputs ``first`` to ``last``."""
    for j in range(first, last):
        best, found = values[j], marks[j]
        for b in range(kw):
            v = row[stride * j + start + b]
            larger = (v > best) | (v != v)
            best = v if larger else best
            found = f4(mark + b) if larger else found
        values[j] = best
        marks[j] = found


@kernel()
def _best_of_edge(
    row: Array, start: int, stride: int, kw: int, mark: int, values: Array, marks: Array, first: int, last: int
) -> None:
    """`_best_of_row` where some cells lie outside."""
    for j in range(first, last):
        side = stride * j + start
        for b in range(max(-side, 0), min(kw, row.size - side)):
            v = row[side + b]
            if (v > values[j]) | (v != v):
                values[j] = v
                marks[j] = f4(mark + b)


@kernel()
def _halves(window: Window, height: int, width: int, rows: int, columns: int) -> bool:
    """Whether windows of 2 x 2 side by side cover the plane: the common case, worth code of its own."""
    kh, kw, sh, sw, top, left = window
    side_by_side = kh == 2 and kw == 2 and sh == 2 and sw == 2 and top == 0 and left == 0
    return side_by_side and height == 2 * rows and width == 2 * columns


@kernel()
def max_pool_part(part: int, parts: int, x: Array, out: Array, places: Array, window: Window, work: Array) -> None:
    begin, end = share(part, parts, x.shape[0], 1)
    kh, kw, sh, sw, top, left = window
    height, width = x.shape[1:]
    rows, columns = out.shape[1:]
    if _halves(window, height, width, rows, columns) and places.itemsize == 1:
        if end > begin:
            source, target, count = x[begin].ctypes.data, out[begin].ctypes.data, (end - begin) * rows
            for j in range(0, columns, LANES):
                run = min(LANES, columns - j)
                place = places[begin].ctypes.data + j
                largest_of_pairs(source + 8 * j, width, target + 4 * j, place, columns, count, run)
        return
    marks = work[part]
    first = min((left + sw - 1) // sw, columns)
    last = max(min((width - kw + left) // sw + 1, columns), first)
    for p in range(begin, end):
        for i in range(rows):
            values, origin = out[p, i], i * sh - top
            for j in range(columns):
                values[j] = -np.inf
                # the first cell inside, which a window of nothing but -inf keeps
                marks[j] = f4(max(-origin, 0) * kw + max(left - j * sw, 0))
            for a in range(max(-origin, 0), min(kh, height - origin)):
                row = x[p, origin + a]
                _best_of_edge(row, -left, sw, kw, a * kw, values, marks, 0, first)
                if sw == 2 and kw == 2:  # constants let the compiler unroll and read in vectors
                    _best_of_row(row, -left, 2, 2, a * 2, values, marks, first, last)
                elif sw == 2 and kw == 3:
                    _best_of_row(row, -left, 2, 3, a * 3, values, marks, first, last)
                else:
                    _best_of_row(row, -left, sw, kw, a * kw, values, marks, first, last)
                _best_of_edge(row, -left, sw, kw, a * kw, values, marks, last, columns)
            for j in range(columns):
                places[p, i, j] = np.int32(marks[j])


@kernel(forks=True)
def max_pool(x: Array, out: Array, places: Array, window: Window, work: Array, parts: int) -> None:
    """Largest value of every window and, in ``places``, its cell within the window; the first of equal ones wins.

    ``work[part]`` holds the places of one row as floats, which vector code can choose together with the values.
    """
    fork_join(max_pool_part, parts, (x, out, places, window, work))


@kernel()
def max_pool_plain_part(part: int, parts: int, x: Array, out: Array, window: Window) -> None:
    begin, end = share(part, parts, x.shape[0], 1)
    kh, kw, sh, sw, top, left = window
    height, width = x.shape[1:]
    rows, columns = out.shape[1:]
    for p in range(begin, end):
        for i in range(rows):
            values = out[p, i]
            origin = i * sh - top
            for j in range(columns):
                values[j] = -np.inf
            for a in range(max(-origin, 0), min(kh, height - origin)):
                row = x[p, origin + a]
                for b in range(kw):
                    first, last = bounds(b, sw, left, width, columns)
                    for j in range(first, last):
                        v = row[j * sw + b - left]
                        values[j] = v if (v > values[j]) | (v != v) else values[j]


@kernel(forks=True)
def max_pool_plain(x: Array, out: Array, window: Window, parts: int) -> None:
    """`max_pool` without the places, for inference."""
    fork_join(max_pool_plain_part, parts, (x, out, window))


@kernel()
def max_pool_derivative_part(part: int, parts: int, g: Array, places: Array, out: Array, window: Window) -> None:
    begin, end = share(part, parts, g.shape[0], 1)
    _, kw, sh, sw, top, left = window
    for p in range(begin, end):
        plane = out[p]
        for i in range(plane.shape[0]):
            for j in range(plane.shape[1]):
                plane[i, j] = f4(0.0)
        for i in range(g.shape[1]):
            for j in range(g.shape[2]):
                place = np.int64(places[p, i, j])
                plane[i * sh - top + place // kw, j * sw - left + place % kw] += g[p, i, j]


@kernel(forks=True)
def max_pool_derivative(g: Array, places: Array, out: Array, window: Window, parts: int) -> None:
    """Every derivative goes to the cell that was the largest."""
    fork_join(max_pool_derivative_part, parts, (g, places, out, window))


@kernel()
def average_pool_part(part: int, parts: int, x: Array, out: Array, window: Window) -> None:
    begin, end = share(part, parts, x.shape[0], 1)
    kh, kw, sh, sw, top, left = window
    height, width = x.shape[1:]
    rows, columns = out.shape[1:]
    if _halves(window, height, width, rows, columns):
        if end > begin:  # the planes follow each other: all their rows are done as those of one
            source, target, count = x[begin].ctypes.data, out[begin].ctypes.data, (end - begin) * rows
            for j in range(0, columns, LANES):
                run = min(LANES, columns - j)
                average_pairs(source + 8 * j, width, target + 4 * j, columns, count, run)
        return
    if rows == 1 and columns == 1 and top == 0 and left == 0 and kh >= height and kw >= width:
        for p in range(begin, end):
            total = f4(0.0)
            for i in range(height):
                for j in range(width):
                    total += x[p, i, j]
            out[p, 0, 0] = total / f4(height * width)
        return
    for p in range(begin, end):
        for i in range(rows):
            values = out[p, i]
            origin = i * sh - top
            for j in range(columns):
                values[j] = f4(0.0)
            low, high = max(-origin, 0), min(kh, height - origin)
            for a in range(low, high):
                row = x[p, origin + a]
                for b in range(kw):
                    first, last = bounds(b, sw, left, width, columns)
                    for j in range(first, last):
                        values[j] += row[j * sw + b - left]
            for j in range(columns):
                side = j * sw - left
                values[j] /= f4((high - low) * (min(kw, width - side) - max(-side, 0)))


@kernel(forks=True)
def average_pool(x: Array, out: Array, window: Window, parts: int) -> None:
    """Mean of the cells of every window that lie inside."""
    fork_join(average_pool_part, parts, (x, out, window))


@kernel()
def average_pool_derivative_part(part: int, parts: int, g: Array, out: Array, window: Window) -> None:
    begin, end = share(part, parts, g.shape[0], 1)
    kh, kw, sh, sw, top, left = window
    height, width = out.shape[1:]
    rows, columns = g.shape[1:]
    if _halves(window, height, width, rows, columns):
        if end > begin:
            source, target, count = g[begin].ctypes.data, out[begin].ctypes.data, (end - begin) * rows
            for j in range(0, columns, LANES):
                run = min(LANES, columns - j)
                share_among_pairs(source + 4 * j, columns, target + 8 * j, width, count, run)
        return
    for p in range(begin, end):
        plane = out[p]
        for i in range(height):
            for j in range(width):
                plane[i, j] = f4(0.0)
        for i in range(rows):
            origin = i * sh - top
            low, high = max(-origin, 0), min(kh, height - origin)
            for j in range(columns):
                side = j * sw - left
                near, far = max(-side, 0), min(kw, width - side)
                each = g[p, i, j] / f4((high - low) * (far - near))
                for a in range(low, high):
                    for b in range(near, far):
                        plane[origin + a, side + b] += each


@kernel(forks=True)
def average_pool_derivative(g: Array, out: Array, window: Window, parts: int) -> None:
    """Every derivative in equal shares to the cells of its window."""
    fork_join(average_pool_derivative_part, parts, (g, out, window))


@kernel()
def global_max(x: Array, out: Array) -> None:
    """``x[planes, cells]``: the largest of each row; NaN wins."""
    for p in range(x.shape[0]):
        best = x[p, 0]
        for i in range(x.shape[1]):
            v = x[p, i]
            best = v if (v > best) | (v != v) else best
        out[p] = best


@kernel()
def global_max_derivative(x: Array, y: Array, g: Array, out: Array) -> None:
    """The derivative of each row in equal shares to all cells that are the largest. ``out`` may be ``x``."""
    for p in range(x.shape[0]):
        count = 0
        for i in range(x.shape[1]):
            count += 1 if x[p, i] == y[p] else 0
        each = g[p] / f4(max(count, 1))
        for i in range(x.shape[1]):
            out[p, i] = each if x[p, i] == y[p] else f4(0.0)
