"""Bilinear enlargement of height and width by whole numbers (half-pixel centres), and its transpose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register


def neighbours(size: int, scale: int) -> tuple[Array, Array, Array]:
    """For every cell of an enlarged axis: the two cells it lies between, and the weight of the second."""
    place = np.maximum((np.arange(size * scale) + 0.5) / scale - 0.5, 0.0)
    low = np.minimum(place.astype(np.int64), size - 1)
    return low, np.minimum(low + 1, size - 1), (place - low).astype(np.float32)


def _planes(array: Array) -> Array:
    return array.reshape(-1, *array.shape[2:])


class Bilinear(OperationKind):
    """``x`` enlarged by ``scale`` (down, right)."""

    name = "bilinear"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        (n, c, h, w), (down, right) = reads["x"].shape, attributes["scale"]
        return {"out": Spec((n, c, h * down, w * right))}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import resample as kernels

        x, (down, right) = _planes(arrays["x"]), operation.attributes["scale"]
        rows, columns = neighbours(x.shape[1], down), neighbours(x.shape[2], right)
        return kernels.bilinear.function, (x, *rows, *columns, _planes(arrays["out"]))


class BilinearDerivative(OperationKind):
    """The transpose of bilinear: every ``g`` to the cells it came from, by their weights."""

    name = "bilinear_derivative"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        (n, c, h, w), (down, right) = reads["g"].shape, attributes["scale"]
        return {"out": Spec((n, c, h // down, w // right))}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import resample as kernels

        out, (down, right) = _planes(arrays["out"]), operation.attributes["scale"]
        rows, columns = neighbours(out.shape[1], down), neighbours(out.shape[2], right)
        return kernels.bilinear_derivative.function, (_planes(arrays["g"]), *rows, *columns, out)


for _kind in (Bilinear(), BilinearDerivative()):
    register(_kind)
