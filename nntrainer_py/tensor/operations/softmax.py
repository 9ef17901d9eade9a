"""softmax over the width: every row (n, c, h) of a tensor sums to 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nntrainer_py.tensor.kernels import softmax
from nntrainer_py.tensor.operations.elementwise import same_memory
from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register

PARALLEL_SIZE = 1 << 16


def rows(array: Array) -> Array:
    """All rows of a tensor as a matrix."""
    return array.reshape(-1, array.shape[-1])


def row_parts(matrix: Array, run: Run) -> int:
    """Rows are split; one part where there is little to do."""
    return min(run.threads, matrix.shape[0]) if matrix.size > PARALLEL_SIZE else 1


class Softmax(OperationKind):
    """``out = exp(x - max) / sum`` per row."""

    name = "softmax"
    in_place = (("out", "x"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(reads["x"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        x = rows(arrays["x"])
        out = None if same_memory(arrays["out"], x) else rows(arrays["out"])
        return softmax.softmax.function, (x, out, row_parts(x, run))


class SoftmaxDerivative(OperationKind):
    """``out = y * (g - sum(g * y))`` per row, from the output ``y``: the whole Jacobian."""

    name = "softmax_derivative"
    in_place = (("out", "g"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        if reads["y"].shape != reads["g"].shape:
            raise ValueError(f"derivative {reads['g'].shape} of a softmax over {reads['y'].shape}")
        return {"out": Spec(reads["g"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        y, g = rows(arrays["y"]), rows(arrays["g"])
        out = None if same_memory(arrays["out"], g) else rows(arrays["out"])
        return softmax.softmax_derivative.function, (y, g, out, row_parts(g, run))


register(Softmax())
register(SoftmaxDerivative())
