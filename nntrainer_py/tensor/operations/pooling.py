"""Pooling over the height and width of every channel, and the ways back.

Attributes of the window kinds: ``kernel`` and ``stride`` (2 each), ``padding`` (top, bottom, left, right). The largest
value's cell is kept as a small integer, its number within the window row by row, so the input need not live on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register

_PARALLEL_ELEMENTS = 1 << 16  # window cells looked at; below it one thread is as fast


def place_dtype(kernel: tuple[int, int]) -> str:
    """The smallest unsigned integer that numbers the cells of a window."""
    cells = kernel[0] * kernel[1]
    return "uint8" if cells <= 1 << 8 else "uint16" if cells <= 1 << 16 else "uint32"


def pooled(shape: tuple[int, ...], attributes: Mapping[str, Any]) -> tuple[int, ...]:
    """The output's shape. Raises ValueError for a window that does not fit, or lies in the padding alone."""
    made = []
    top, bottom, left, right = attributes["padding"]
    for axis, before, after in ((0, top, bottom), (1, left, right)):
        size, kernel, stride = shape[2 + axis], attributes["kernel"][axis], attributes["stride"][axis]
        room = size + before + after - kernel
        if room < 0:
            raise ValueError(f"a window of {kernel} does not fit in {size} cells with padding {before} and {after}")
        count = room // stride + 1
        if before >= kernel or (count - 1) * stride - before >= size:
            raise ValueError(f"padding {before} and {after}: a window of {kernel} would lie in the padding alone")
        made.append(count)
    return (shape[0], shape[1], *made)


def _planes(array: Array) -> Array:
    return array.reshape(-1, *array.shape[2:])


def _window(operation: Operation) -> tuple[int, ...]:
    a = operation.attributes
    return (*map(int, a["kernel"]), *map(int, a["stride"]), int(a["padding"][0]), int(a["padding"][2]))


def _parts(operation: Operation, small: Value, threads: int) -> int:
    """Planes are split; one part where there is little to do."""
    kernel = operation.attributes["kernel"]
    cells = small.size * kernel[0] * kernel[1]
    return 1 if cells < _PARALLEL_ELEMENTS else min(threads, small.shape[0] * small.shape[1])


def _line(columns: int) -> int:
    """Floats of work space for a row of ``columns``, in whole cache lines."""
    return -(-columns // 16) * 16


class _Pooling(OperationKind):
    """What the four kinds share."""

    #: time over that of an element-wise pass over the same bytes, measured
    slowness: ClassVar[float] = 4.0

    def cost(self, operation: Operation) -> float:
        return self.slowness * super().cost(operation)


class MaxPool(_Pooling):
    """The largest value of every window; with ``keep`` also ``places``, the first of its cells that held it."""

    name = "max_pool"
    slowness = 15.0

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        shape = pooled(reads["x"].shape, attributes)
        made = {"out": Spec(shape)}
        if attributes["keep"]:
            made["places"] = Spec(shape, place_dtype(attributes["kernel"]))
        return made

    def scratch(self, operation: Operation, threads: int) -> int:
        if "places" not in operation.writes:
            return 0
        out = operation.writes["out"]
        return 4 * _line(out.shape[3]) * _parts(operation, out, threads)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import pooling as kernels

        x, out, window = _planes(arrays["x"]), _planes(arrays["out"]), _window(operation)
        parts = _parts(operation, operation.writes["out"], run.threads)
        if "places" not in arrays:
            return kernels.max_pool_plain.function, (x, out, window, parts)
        places = _planes(arrays["places"])
        work = run.scratch.view(np.float32).reshape(parts, -1)
        return kernels.max_pool.function, (x, out, places, window, work, parts)


class MaxPoolDerivative(_Pooling):
    """``g`` to the kept places of an input of ``size`` (height, width)."""

    name = "max_pool_derivative"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec((*reads["g"].shape[:2], *attributes["size"]))}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import pooling as kernels

        g, places, out = (_planes(arrays[name]) for name in ("g", "places", "out"))
        window, parts = _window(operation), _parts(operation, operation.reads["g"], run.threads)
        return kernels.max_pool_derivative.function, (g, places, out, window, parts)


class AveragePool(_Pooling):
    """The mean of every window over the cells inside the input."""

    name = "average_pool"
    slowness = 10.0

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(pooled(reads["x"].shape, attributes))}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import pooling as kernels

        x, out, window = _planes(arrays["x"]), _planes(arrays["out"]), _window(operation)
        parts = _parts(operation, operation.writes["out"], run.threads)
        return kernels.average_pool.function, (x, out, window, parts)


class AveragePoolDerivative(_Pooling):
    """``g`` in equal shares to the cells of its window in an input of ``size`` (height, width)."""

    name = "average_pool_derivative"
    slowness = 10.0

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec((*reads["g"].shape[:2], *attributes["size"]))}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import pooling as kernels

        g, out, window = _planes(arrays["g"]), _planes(arrays["out"]), _window(operation)
        parts = _parts(operation, operation.reads["g"], run.threads)
        return kernels.average_pool_derivative.function, (g, out, window, parts)


class GlobalMax(OperationKind):
    """The largest value of every channel."""

    name = "global_max"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec((*reads["x"].shape[:2], 1, 1))}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import pooling as kernels

        out = arrays["out"].reshape(-1)
        return kernels.global_max.function, (arrays["x"].reshape(out.size, -1), out)


class GlobalMaxDerivative(OperationKind):
    """``g`` in equal shares to all cells of ``x`` that equal the largest value ``y`` of their channel."""

    name = "global_max_derivative"
    in_place = (("out", "x"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(reads["x"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import pooling as kernels

        y, g = arrays["y"].reshape(-1), arrays["g"].reshape(-1)
        x, out = arrays["x"].reshape(y.size, -1), arrays["out"].reshape(y.size, -1)
        return kernels.global_max_derivative.function, (x, y, g, out)


for _kind in (
    MaxPool(), MaxPoolDerivative(), AveragePool(), AveragePoolDerivative(), GlobalMax(), GlobalMaxDerivative(),
):  # fmt: skip
    register(_kind)
