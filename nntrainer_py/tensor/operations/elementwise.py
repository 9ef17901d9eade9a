"""Element-wise kinds: the activation functions and their derivatives, sums of tensors, zeros, copies."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from nntrainer_py.tensor.kernels import activation, elementwise
from nntrainer_py.tensor.kernels.shares import CHUNK
from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register

#: functions whose derivative is computed from the output, so that the input may be overwritten
FROM_OUTPUT = frozenset({"relu", "leaky_relu", "sigmoid", "tanh", "softplus", "elu", "selu"})
#: functions whose derivative needs the input
FROM_INPUT = frozenset({"swish", "gelu", "tanh_gelu", "sigmoid_gelu", "mish"})
#: more elements than this are spread over threads (about 50 microseconds of work)
PARALLEL_SIZE = 1 << 16
PARALLEL_SIZE_CHEAP = 1 << 17
_CHEAP = frozenset({"relu", "leaky_relu"})


def parts(size: int, run: Run, least: int = PARALLEL_SIZE_CHEAP) -> int:
    """Parts of a flat array of ``size`` elements: one up to ``least``, else one for each thread, of a chunk or more."""
    return min(run.threads, -(-size // CHUNK)) if size > least else 1


def same_memory(a: Array, b: Array) -> bool:
    """Both arrays start at the same address (the planner never lets operands overlap otherwise)."""
    return bool(a.__array_interface__["data"][0] == b.__array_interface__["data"][0])


def in_place(out: Array, read: Array) -> Array | None:
    """What kernels take as ``out``: None where it is the memory of ``read``; flat."""
    return None if same_memory(out, read) else out.reshape(-1)


def _check_function(name: Any) -> str:
    if name not in FROM_OUTPUT and name not in FROM_INPUT:
        raise ValueError(f"no activation function {name!r}")
    return str(name)


def _parts(function: str, size: int, run: Run) -> int:
    return parts(size, run, PARALLEL_SIZE_CHEAP if function in _CHEAP else PARALLEL_SIZE)


class Activation(OperationKind):
    """``out = function(x)`` for every element."""

    name = "activation"
    elementwise = True
    in_place = (("out", "x"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        _check_function(attributes.get("function"))
        return {"out": Spec(reads["x"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        function = operation.attributes["function"]
        x, out = arrays["x"].reshape(-1), in_place(arrays["out"], arrays["x"])
        return getattr(activation, function).function, (x, out, _parts(function, x.size, run))


class ActivationDerivative(OperationKind):
    """``out = g * function'``; reads ``y``, the function's output, where FROM_OUTPUT, else its input ``x``."""

    name = "activation_derivative"
    elementwise = True
    in_place = (("out", "g"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        function = _check_function(attributes.get("function"))
        operand = "y" if function in FROM_OUTPUT else "x"
        if operand not in reads:
            raise ValueError(f"the derivative of {function} is computed from {operand}")
        if reads[operand].shape != reads["g"].shape:
            raise ValueError(f"derivative {reads['g'].shape} of a function over {reads[operand].shape}")
        return {"out": Spec(reads["g"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        function = operation.attributes["function"]
        operand = arrays["y" if function in FROM_OUTPUT else "x"].reshape(-1)
        g, out = arrays["g"].reshape(-1), in_place(arrays["out"], arrays["g"])
        made = getattr(activation, f"{function}_derivative")
        return made.function, (operand, g, out, _parts(function, g.size, run))


class AddN(OperationKind):
    """``out = x0 + x1 + ...``, added in this order."""

    name = "add_n"
    elementwise = True
    in_place = (("out", "x0"), ("out", "x1"))

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        if len(reads) < 2 or list(reads) != [f"x{i}" for i in range(len(reads))]:
            raise ValueError(f"a sum needs at least two operands x0, x1, ..., got {', '.join(reads)}")
        shape = reads["x0"].shape
        for value in reads.values():
            if value.shape != shape:
                raise ValueError(f"a sum of {shape} and {value.shape}")
        return {"out": Spec(shape, reads["x0"].dtype)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        terms = [arrays[name].reshape(-1) for name in operation.reads]
        if same_memory(arrays["out"], terms[1]):
            terms[0], terms[1] = terms[1], terms[0]  # the same sum: a + b = b + a to the bit
        out = in_place(arrays["out"], terms[0])
        if len(terms) > 2:
            return elementwise.add_many.function, (tuple(terms), out)
        return elementwise.add.function, (terms[0], terms[1], out, parts(terms[0].size, run))


class Zeros(OperationKind):
    """A tensor of zeros; attributes ``shape`` and ``dtype``."""

    name = "zeros"
    elementwise = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(tuple(attributes["shape"]), attributes.get("dtype", "float32"))}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        out = arrays["out"].reshape(-1)
        return elementwise.fill.function, (out, out.dtype.type(0), parts(out.size, run))


class Copy(OperationKind):
    """The same elements in memory of their own; adds to a gradient target. Attribute ``shape``: another shape."""

    name = "copy"
    elementwise = True
    accumulates = True
    in_place = (("out", "x"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        x = reads["x"]
        shape = tuple(attributes.get("shape", x.shape))
        if math.prod(shape) != x.size:
            raise ValueError(f"a copy of {x.shape} as {shape}")
        return {"out": Spec(shape, x.dtype)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        x, out = arrays["x"].reshape(-1), arrays["out"].reshape(-1)
        if operation.accumulate:
            return elementwise.add.function, (out, x, None, parts(x.size, run))
        if same_memory(x, out):
            return _nothing, ()
        return elementwise.copy.function, (x, out, parts(x.size, run))


def _nothing() -> None:
    """The copy of a value onto itself."""


register(Activation())
register(ActivationDerivative())
register(AddN())
register(Zeros())
register(Copy())
