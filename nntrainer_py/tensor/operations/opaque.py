"""opaque: a Python function over arrays as one operation, for layers that users write in NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register


class Opaque(OperationKind):
    """Calls ``function(arrays, state)`` with its operands by name, reads read-only.

    Attributes: ``function``; ``specs`` (name -> Spec of each output); ``sample_by_sample`` (no sample's result
    depends on the others of its batch); ``repeatable`` (run again with the same reads, it writes the same and does
    nothing else that matters).
    """

    name = "opaque"
    pure = False

    def variant(self, attributes: Mapping[str, Any]) -> OperationKind:
        return _REPEATABLE if attributes.get("repeatable") else self

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        specs: dict[str, Spec] = attributes["specs"]
        return dict(specs)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        views: dict[str, Array] = {}
        for name in operation.reads:
            views[name] = arrays[name].view()
            views[name].flags.writeable = False
        for name in operation.writes:
            views[name] = arrays[name]
        return operation.attributes["function"], (views, run.state)


class RepeatableOpaque(Opaque):
    """One that may be computed again instead of being kept, as its author says."""

    pure = True


class Accumulate(OperationKind):
    """``out (+)= x``: hands a value to a gradient target."""

    name = "accumulate"
    accumulates = True
    elementwise = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(reads["x"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        import numpy as np

        x, out = arrays["x"].reshape(-1), arrays["out"].reshape(-1)
        if operation.accumulate:
            return np.add, (out, x, out)
        return np.copyto, (out, x)


_REPEATABLE = RepeatableOpaque()
register(Opaque())
register(Accumulate())
