"""softmax over the width: every row (n, c, h) of a tensor sums to 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nntrainer_py.tensor.kernels import softmax
from nntrainer_py.tensor.operations.elementwise import same_memory
from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register

PARALLEL_SIZE = 1 << 16
CHUNK = 16384  # elements of the rows that one thread takes at a time


def rows(array: Array) -> Array:
    """All rows of a tensor as a matrix."""
    return array.reshape(-1, array.shape[-1])


def split(matrix: Array) -> tuple[int, int]:
    """Rows that a thread takes at a time, and how many times."""
    step = max(1, CHUNK // matrix.shape[1])
    return step, -(-matrix.shape[0] // step)


class Softmax(OperationKind):
    """``out = exp(x - max) / sum`` per row."""

    name = "softmax"
    in_place = (("out", "x"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(reads["x"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        x = rows(arrays["x"])
        out = None if same_memory(arrays["out"], x) else rows(arrays["out"])
        if run.threads > 1 and x.size > PARALLEL_SIZE and x.shape[0] > 1:
            return softmax.softmax_parallel.function, (x, out, *split(x))
        return softmax.softmax.function, (x, out, 0, x.shape[0])


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
        if run.threads > 1 and g.size > PARALLEL_SIZE and g.shape[0] > 1:
            return softmax.softmax_derivative_parallel.function, (y, g, out, *split(g))
        return softmax.softmax_derivative.function, (y, g, out, 0, g.shape[0])


register(Softmax())
register(SoftmaxDerivative())
