"""Scaling of samples: whole-batch range, NNTrainer's standardization, unit length; flips and shifted pictures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.random import OFFSET, STEP, philox

Array = npt.NDArray[np.float32]
f4 = np.float32

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(1 << 31)
_UNIT32 = 2.0**-32


@kernel()
def normalize_batch(x: Array, out: Array) -> None:
    """``(x - min) / (max - min)`` over the whole of ``x`` (flat); 0 when all are equal. ``out`` may be ``x``."""
    low, high = x[0], x[0]
    for i in range(x.size):
        low = x[i] if x[i] < low else low
        high = x[i] if x[i] > high else high
    if high == low:
        for i in range(x.size):
            out[i] = x[i] - low
        return
    # from float64, so that a range above the largest float32 does not overflow
    span = np.float64(high) - np.float64(low)
    for i in range(x.size):
        out[i] = f4((np.float64(x[i]) - np.float64(low)) / span)


@kernel()
def standardize_sample(x: Array, out: Array) -> None:
    """Each row: minus its mean, divided by ``||x - mean|| / features``; 0 for a constant row. ``out`` may be ``x``."""
    features = x.shape[1]
    for n in range(x.shape[0]):
        shift, total = np.float64(x[n, 0]), 0.0
        for i in range(features):
            total += np.float64(x[n, i]) - shift
        mean, squares = shift + total / features, 0.0
        for i in range(features):
            d = np.float64(x[n, i]) - mean
            squares += d * d
        scale = 0.0 if squares == 0.0 else features / math.sqrt(squares)
        for i in range(features):
            out[n, i] = f4((np.float64(x[n, i]) - mean) * scale)


@kernel()
def unit_length(x: Array, epsilon: float, out: Array) -> None:
    """Each row divided by its length plus ``epsilon``. ``out`` may be ``x``."""
    for n in range(x.shape[0]):
        squares = 0.0
        for i in range(x.shape[1]):
            squares += np.float64(x[n, i]) * np.float64(x[n, i])
        scale = 1.0 / (math.sqrt(squares) + epsilon)
        for i in range(x.shape[1]):
            out[n, i] = f4(np.float64(x[n, i]) * scale)


@kernel()
def flip(key: np.uint64, counters: Any, draw: int, across: bool, down: bool, x: Array, out: Array) -> None:
    """Mirror each sample of ``x[N, C, H, W]`` with probability 1/2 across (left to right), 1/2 down (top to bottom).

    The first random word of a sample decides across, the second down.
    """
    batch, channels, height, width = x.shape
    for n in range(batch):
        sample = np.uint64(counters[OFFSET] + n) & _LOW
        first, second, _, _ = philox(
            np.uint64(0), sample, np.uint64(counters[STEP]) & _LOW, np.uint64(draw) & _LOW, key
        )
        mirrored, turned = across and first < _HALF, down and second < _HALF
        for c in range(channels):
            for i in range(height):
                row = x[n, c, height - 1 - i if turned else i]
                target = out[n, c, i]
                if mirrored:
                    for j in range(width):
                        target[j] = row[width - 1 - j]
                else:
                    for j in range(width):
                        target[j] = row[j]


@kernel()
def reflected(index: int, size: int) -> int:
    """The cell that stands at ``index`` when the picture is mirrored at its edges, edge cells doubled: cba|abc|cba."""
    period = 2 * size
    index = index % period
    return period - 1 - index if index >= size else index


@kernel()
def translate(key: np.uint64, counters: Any, draw: int, share: float, x: Array, out: Array) -> None:
    """Shift each sample of ``x[N, C, H, W]`` right and down by uniform numbers within ``share`` of its size.

    ``out[i, j] = x(i - down, j - right)``, bilinear between cells, mirrored beyond the edges.
    """
    batch, channels, height, width = x.shape
    for n in range(batch):
        sample = np.uint64(counters[OFFSET] + n) & _LOW
        first, second, _, _ = philox(
            np.uint64(0), sample, np.uint64(counters[STEP]) & _LOW, np.uint64(draw) & _LOW, key
        )
        right = (2.0 * np.float64(first) * _UNIT32 - 1.0) * share * width
        down = (2.0 * np.float64(second) * _UNIT32 - 1.0) * share * height
        # the shift is the same everywhere: whole cells and a share of the next
        rows, columns = math.floor(-down), math.floor(-right)
        v, u = f4(-down - rows), f4(-right - columns)
        for c in range(channels):
            plane = x[n, c]
            for i in range(height):
                a, b = plane[reflected(i + rows, height)], plane[reflected(i + rows + 1, height)]
                for j in range(width):
                    p, q = reflected(j + columns, width), reflected(j + columns + 1, width)
                    upper = a[p] + u * (a[q] - a[p])
                    lower = b[p] + u * (b[q] - b[p])
                    out[n, c, i, j] = upper + v * (lower - upper)
