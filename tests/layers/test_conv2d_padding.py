"""U025: conv2d over a grid of sizes, kernels, strides, dilations and paddings, against a slow loop."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from nntrainer_py import Model
from nntrainer_py.errors import DescriptionError
from nntrainer_py.layers.conv2d import Conv2D
from nntrainer_py.layers.input import Input

PADDINGS = ["valid", "same", "1", "2,1", "1,0,2,3"]
Pair = tuple[int, int]


def _padding(text: str, size: Pair, kernel: Pair, stride: Pair, dilation: Pair) -> list[Pair]:
    """Cells before and after, for height and width, from the definition."""
    if text == "valid":
        return [(0, 0), (0, 0)]
    if text == "same":
        made = []
        for n, k, s, d in zip(size, kernel, stride, dilation, strict=True):
            total = max((math.ceil(n / s) - 1) * s + (k - 1) * d + 1 - n, 0)
            made.append((total // 2, total - total // 2))  # the odd cell comes after
        return made
    numbers = [int(word) for word in text.split(",")]
    if len(numbers) == 1:
        return [(numbers[0], numbers[0])] * 2
    if len(numbers) == 2:
        return [(numbers[0], numbers[0]), (numbers[1], numbers[1])]
    return [(numbers[0], numbers[1]), (numbers[2], numbers[3])]


def _slow(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, sides: list[Pair], stride: Pair, dilation: Pair
) -> np.ndarray | None:
    """(N, C, H, W) by (O, C, kh, kw) in float64, one output cell after the other; None where no window fits."""
    padded = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *sides])
    kernel = weight.shape[2:]
    room = [padded.shape[2 + axis] - (kernel[axis] - 1) * dilation[axis] - 1 for axis in (0, 1)]
    if min(room) < 0:
        return None
    height, width = (room[axis] // stride[axis] + 1 for axis in (0, 1))
    made = np.empty((len(x), len(weight), height, width))
    for i, j in itertools.product(range(height), range(width)):
        top, left = i * stride[0], j * stride[1]
        rows = range(top, top + kernel[0] * dilation[0], dilation[0])
        columns = range(left, left + kernel[1] * dilation[1], dilation[1])
        window = padded[:, :, rows][:, :, :, columns]
        made[:, :, i, j] = np.einsum("nchw,ochw->no", window, weight) + bias
    return made


def _check(size: Pair, kernel: Pair, stride: Pair, dilation: Pair, padding: str) -> None:
    random = np.random.default_rng(hash((size, kernel, stride, dilation)) % 2**32)
    x = random.normal(size=(2, 2, *size)).astype(np.float32)
    model = Model.build(
        [
            ("x", Input(input_shape=f"2:{size[0]}:{size[1]}")),
            ("conv", Conv2D(filters=2, kernel_size=kernel, stride=stride, dilation=dilation, padding=padding)),
        ]
    ).compile(batch_size=2, threads=1)
    sides = _padding(padding, size, kernel, stride, dilation)
    weight = random.normal(size=(2, 2, *kernel)).astype(np.float32)
    bias = random.normal(size=2).astype(np.float32)
    expected = _slow(x, weight, bias, sides, stride, dilation)
    if expected is None:
        with pytest.raises(DescriptionError, match="does not fit"):
            model.predict(x)
        return
    weights = model.weights()
    weights["conv:filter"][...] = weight
    weights["conv:bias"][...] = bias.reshape(weights["conv:bias"].shape)
    made = model.predict(x)
    assert made.shape == expected.shape, (size, kernel, stride, dilation, padding)
    if padding == "same":
        assert made.shape[2:] == tuple(math.ceil(n / s) for n, s in zip(size, stride, strict=True))
    np.testing.assert_allclose(made, expected, rtol=1e-5, atol=2e-5, err_msg=str((size, kernel, stride, dilation)))


@pytest.mark.parametrize("kernel", range(1, 8))
@pytest.mark.parametrize("padding", PADDINGS)
def test_u025_grid(padding: str, kernel: int) -> None:
    """Sizes 1 to 12, strides 1 to 3 and dilations 1 and 2 meet on each axis; the other axis has other numbers."""
    for size, stride, dilation in itertools.product(range(1, 13), (1, 2, 3), (1, 2)):
        _check((size, 13 - size), (kernel, 8 - kernel), (stride, 4 - stride), (dilation, 3 - dilation), padding)


@pytest.mark.parametrize("kernel", [(1, 7), (7, 1)])
def test_u025_a_padding_of_two_numbers_is_no_word(kernel: Pair) -> None:
    """A kernel (1, 7) with padding (0, 3) keeps the width 8, and is nothing special."""
    _check((8, 8), kernel, (1, 1), (1, 1), f"{kernel[0] // 2},{kernel[1] // 2}")
    _check((8, 8), kernel, (2, 2), (1, 1), "same")
