"""Arithmetic of two tensors with broadcasting: NumPy's ufuncs on views made at bind time, one pass at memory speed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register

FUNCTIONS: dict[str, np.ufunc] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide,
}  # fmt: skip


def quietly(function: np.ufunc, *arrays: Array) -> None:
    """The ufunc on inputs and output, without NumPy's warnings: NaN and infinity travel on to the test of the loss."""
    with np.errstate(all="ignore"):
        function(*arrays)


class Binary(OperationKind):
    """``out = function(a, b)`` (add, subtract, multiply, divide); axes of size 1 are repeated to fit the other operand.

    With the attribute ``keep`` neither operand may be overwritten (``inplace = false``); with ``side`` only that one.
    """

    name = "binary"
    elementwise = True
    in_place = (("out", "a"), ("out", "b"))

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        if attributes["function"] not in FUNCTIONS:
            raise ValueError(f"no arithmetic {attributes['function']!r}")
        return {"out": Spec(np.broadcast_shapes(reads["a"].shape, reads["b"].shape))}

    def aliases(self, operation: Operation) -> tuple[tuple[str, str], ...]:
        if operation.attributes.get("keep"):
            return ()
        side, shape = operation.attributes.get("side"), operation.writes["out"].shape
        names = ("a", "b") if side is None else (side,)
        return tuple(("out", name) for name in names if operation.reads[name].shape == shape)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        return quietly, (FUNCTIONS[operation.attributes["function"]], arrays["a"], arrays["b"], arrays["out"])


register(Binary())
