"""Sums over axes, and their transpose: one value repeated along axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register


def folded(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[list[int], list[bool]]:
    """Four axes with neighbours of the same fate made one, so that the innermost loop is long; and which are summed."""
    sizes: list[int] = []
    reduced: list[bool] = []
    for axis, size in enumerate(shape):
        gone = axis in axes
        if reduced and (reduced[-1] is gone or size == 1):
            sizes[-1] *= size
        else:
            sizes.append(size)
            reduced.append(gone)
    missing = 4 - len(sizes)
    return [1] * missing + sizes, [False] * missing + reduced


class ReduceSum(OperationKind):
    """``out = factor * sum of x over axes`` (a tuple, 0 to 3); they become 1. A mean has the factor 1 / count."""

    name = "reduce_sum"
    accumulates = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        shape, axes = reads["x"].shape, attributes["axes"]
        if len(shape) != 4 or any(not 0 <= axis < 4 for axis in axes):
            raise ValueError(f"a sum over axes {axes} of {shape}")
        return {"out": Spec(tuple(1 if axis in axes else size for axis, size in enumerate(shape)))}

    def scratch(self, operation: Operation, threads: int) -> int:
        return 8 * operation.writes["out"].size

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import reduce as kernels

        out, (shape, reduced) = arrays["out"].reshape(-1), folded(arrays["x"].shape, operation.attributes["axes"])
        x, steps, step = arrays["x"].reshape(shape), [0, 0, 0, 0], 1
        for axis in (3, 2, 1, 0):
            if not reduced[axis]:
                steps[axis], step = step, step * shape[axis]
        factor, sums = float(operation.attributes.get("factor", 1.0)), run.scratch.view(np.float64)
        return kernels.reduce_sum.function, (x, tuple(steps), factor, sums, out, operation.accumulate)


class Broadcast(OperationKind):
    """``factor * x`` repeated along the axes where ``shape`` is larger."""

    name = "broadcast"
    elementwise = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        shape = tuple(attributes["shape"])
        if np.broadcast_shapes(reads["x"].shape, shape) != shape:
            raise ValueError(f"{reads['x'].shape} does not repeat to {shape}")
        return {"out": Spec(shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        out, factor = arrays["out"], float(operation.attributes.get("factor", 1.0))
        x = np.broadcast_to(arrays["x"], out.shape)
        if factor == 1.0:
            return np.copyto, (out, x)
        return _repeat_scaled, (out, x, np.float32(factor))


def _repeat_scaled(out: Array, x: Array, factor: np.float32) -> None:
    """In two passes: a product with a repeated operand takes buffers of its own."""
    np.copyto(out, x)
    np.multiply(out, factor, out)


for _kind in (ReduceSum(), Broadcast()):
    register(_kind)
