"""Pooling over windows and over whole channels, and the ways back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter

Pair = tuple[int, int]


class _Window:
    """Attributes of an operation, for an input of ``size`` and ``count`` windows."""

    def __init__(self, e: Emission, size: Pair, count: Pair) -> None:
        top, _, left, _ = e.attributes["padding"]
        self.size, self.count = size, count
        self.kernel: Pair = (int(e.attributes["kernel"][0]), int(e.attributes["kernel"][1]))
        self.stride: Pair = (int(e.attributes["stride"][0]), int(e.attributes["stride"][1]))
        self.before: Pair = (int(top), int(left))

    @property
    def reach(self) -> list[int]:
        """Rows and columns from the first cell of the first window to the last of the last."""
        return [(self.count[axis] - 1) * self.stride[axis] + self.kernel[axis] for axis in (0, 1)]

    @property
    def onnx(self) -> dict[str, Any]:
        """Attributes of the ONNX operators; padding at the end only as far as windows reach."""
        after = [max(0, self.reach[axis] - self.size[axis] - self.before[axis]) for axis in (0, 1)]
        return {"kernel_shape": list(self.kernel), "strides": list(self.stride), "pads": [*self.before, *after]}

    def corners(self, axis: int) -> NDArray[np.int64]:
        """Where each window begins, in cells of the input."""
        return np.arange(self.count[axis], dtype=np.int64) * self.stride[axis] - self.before[axis]

    @property
    def first_cells(self) -> NDArray[np.int64]:
        """The number, row by row, of the first cell of each window; outside the input it goes on counting."""
        return self.corners(0)[:, None] * self.size[1] + self.corners(1)[None, :]

    @property
    def cells(self) -> NDArray[np.float32]:
        """How many cells of each window lie inside the input."""
        rows, columns = (
            np.minimum(self.corners(axis) + self.kernel[axis], self.size[axis]) - np.maximum(self.corners(axis), 0)
            for axis in (0, 1)
        )
        made: NDArray[np.float32] = (rows[:, None] * columns[None, :]).astype(np.float32)
        return made


def max_pool(e: Emission) -> dict[str, Term]:
    x, shape = e.read("x"), e.shape("out")
    window = _Window(e, (x.shape[2], x.shape[3]), (shape[2], shape[3]))
    if "places" not in e.operation.writes:
        return {"out": e.graph.node("MaxPool", x, shape=shape, **window.onnx)}
    out, found = e.graph.many("MaxPool", x, made=[(shape, "float32"), (shape, "int64")], **window.onnx)
    # ONNX numbers the cells of the whole tensor, we those of the window
    height, width = window.size
    planes = np.arange(shape[0] * shape[1], dtype=np.int64).reshape(*shape[:2], 1, 1) * (height * width)
    cell = found - e.graph.constant(planes)
    row = cell / width
    column = cell - row * width
    row = row - e.graph.constant(window.corners(0).reshape(-1, 1))
    column = column - e.graph.constant(window.corners(1))
    return {"out": out, "places": (row * window.kernel[1] + column).cast(e.operation.writes["places"].dtype)}


def max_pool_derivative(e: Emission) -> dict[str, Term]:
    g, shape = e.read("g"), e.shape("out")
    window = _Window(e, (shape[2], shape[3]), (g.shape[2], g.shape[3]))
    place = e.read("places").cast("int64")
    row = place / window.kernel[1]
    cell = row * window.size[1] + (place - row * window.kernel[1]) + e.graph.constant(window.first_cells)
    planes, windows = shape[0] * shape[1], window.count[0] * window.count[1]
    zeros = e.graph.constant([[0]], "float32").expand(planes, shape[2] * shape[3])
    out = e.graph.node(
        "ScatterElements", zeros, cell.reshape(planes, windows), g.reshape(planes, windows), shape=zeros.shape,
        axis=1, reduction="add",
    )  # fmt: skip
    return {"out": out}


def average_pool(e: Emission) -> dict[str, Term]:
    x, shape = e.read("x"), e.shape("out")
    window = _Window(e, (x.shape[2], x.shape[3]), (shape[2], shape[3]))
    return {"out": e.graph.node("AveragePool", x, shape=shape, count_include_pad=0, **window.onnx)}


def average_pool_derivative(e: Emission) -> dict[str, Term]:
    """Each share spread over its window: a transposed convolution with ones, plane by plane; then padding cut off."""
    g, shape = e.read("g"), e.shape("out")
    window = _Window(e, (shape[2], shape[3]), (g.shape[2], g.shape[3]))
    shares = (g / e.graph.constant(window.cells)).reshape(shape[0] * shape[1], 1, *window.count)
    ones = e.graph.constant(np.ones((1, 1, *window.kernel), np.float32))
    made = e.graph.node(
        "ConvTranspose", shares, ones, shape=(shape[0] * shape[1], 1, *window.reach),
        kernel_shape=list(window.kernel), strides=list(window.stride),
    )  # fmt: skip
    for axis in (0, 1):
        first = window.before[axis]
        last = min(made.shape[2 + axis], first + window.size[axis])
        made = made.slice(2 + axis, first, last)
    missing = [shape[axis] - made.shape[axis] for axis in (2, 3)]
    return {"out": made.pad([0] * 4, [0, 0, *missing])}


def global_max(e: Emission) -> dict[str, Term]:
    return {"out": e.read("x").reduce("ReduceMax", [2, 3])}


def global_max_derivative(e: Emission) -> dict[str, Term]:
    ties = e.read("x").equals(e.read("y")).cast("float32")
    return {"out": ties * (e.read("g") / ties.sum([2, 3]))}


EMITTERS: dict[str, Emitter] = {
    f.__name__: f
    for f in (
        max_pool, max_pool_derivative, average_pool, average_pool_derivative, global_max, global_max_derivative,
    )
}  # fmt: skip
