"""What window operations (convolution, pooling) share: padding and output size, as NNTrainer defines them."""

from __future__ import annotations

from nntrainer_py.properties import Padding1D, Padding2D

#: top, bottom, left, right
Sides = tuple[int, int, int, int]


def extent(kernel: int, dilation: int) -> int:
    """Input cells that a dilated kernel spans."""
    return (kernel - 1) * dilation + 1


def same_padding(size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Leading and trailing padding for ``out = ceil(size / stride)``; the odd cell goes to the trailing side."""
    out = -(-size // stride)
    total = max((out - 1) * stride + extent(kernel, dilation) - size, 0)
    return total // 2, total - total // 2


def sides_2d(
    padding: Padding2D,
    size: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
) -> Sides:
    """Padding in numbers, for an input of ``size`` (height, width)."""
    if padding != "same":
        top, bottom, left, right = padding
        return top, bottom, left, right
    vertical = same_padding(size[0], kernel[0], stride[0], dilation[0])
    horizontal = same_padding(size[1], kernel[1], stride[1], dilation[1])
    return (*vertical, *horizontal)


def sides_1d(padding: Padding1D, size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Left and right padding along the width; causal: everything that ``same`` needs, on the left."""
    if padding == "same":
        return same_padding(size, kernel, stride, dilation)
    if padding == "causal":
        return extent(kernel, dilation) - 1, 0
    left, right = padding
    return left, right


def output_size(size: int, before: int, after: int, kernel: int, stride: int, dilation: int, axis: str) -> int:
    """``floor((size + before + after - extent) / stride) + 1``; ValueError when the window does not fit."""
    room = size + before + after - extent(kernel, dilation)
    if room < 0:
        raise ValueError(
            f"a window of {extent(kernel, dilation)} does not fit: the {axis} is {size}, padded by {before} and {after}"
        )
    return room // stride + 1
