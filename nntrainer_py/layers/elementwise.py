"""What the layers of plain arithmetic share: one function of one input, or of two with broadcasting."""

from __future__ import annotations

from typing import Any, ClassVar

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import boolean, enum
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import Value
from nntrainer_py.tensor.operations.unary import FROM_OUTPUT


def broadcast_shape(first: TensorDim, second: TensorDim) -> TensorDim:
    """The shape of both together: axes of size 1 are repeated. Raises ValueError where two axes differ otherwise."""
    sizes = []
    for axis, (a, b) in enumerate(zip(first.shape, second.shape, strict=True)):
        if a != b and 1 not in (a, b):
            raise ValueError(f"inputs {first} and {second}: axis {axis} is {a} and {b}; expected equal sizes or 1")
        sizes.append(max(a, b))
    return TensorDim(*sizes)


def summed_to(ctx: LayerEmitter, value: Value, shape: tuple[int, ...]) -> Value:
    """The sum of ``value`` over the axes where ``shape`` is 1: the way back of a repeated operand."""
    axes = tuple(axis for axis in range(4) if shape[axis] == 1 and value.shape[axis] > 1)
    if not axes:
        return value
    made: Value = ctx.run("reduce_sum", x=value, axes=axes)
    return made


class UnaryLayer(BuiltinLayer):
    """``y = function(x)`` for every element."""

    function: ClassVar[str] = ""

    inplace = boolean(None, doc="false: never overwrite the input; otherwise wherever nobody reads it later.")
    print = boolean(False, doc="Accepted as NNTrainer does; the layer table is always printed by --check.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        ctx.output(x)

    def parameters(self) -> dict[str, Any]:
        """Further attributes of the function."""
        return {}

    def forward(self, ctx: LayerEmitter) -> None:
        keep = True if self.inplace is False else None
        ctx.output(ctx.run("unary", x=ctx.inputs[0], function=self.function, keep=keep, **self.parameters()))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        operand = {"y": ctx.outputs[0]} if self.function in FROM_OUTPUT else {"x": ctx.inputs[0]}
        made = ctx.run("unary_derivative", g=ctx.incoming[0], function=self.function, **operand, **self.parameters())
        ctx.derivative(0, made)


class BinaryLayer(BuiltinLayer):
    """``y = function(a, b)`` for every element; axes of size 1 are repeated, and their derivative is summed.

    The output has the first input's shape wherever the second one fits into it.
    """

    function: ClassVar[str] = ""

    inplace = boolean(None, doc="false: never overwrite an input; otherwise wherever nobody reads it later.")
    inplace_direction = enum(("left", "right"), None, doc="Which input may be overwritten; unset: either.")
    print = boolean(False, doc="Accepted as NNTrainer does; the layer table is always printed by --check.")

    def finalize(self, ctx: FinalizeContext) -> None:
        if len(ctx.inputs) != 2:
            raise ValueError(f"expected two inputs, got {len(ctx.inputs)}")
        ctx.output(broadcast_shape(*ctx.inputs))

    def forward(self, ctx: LayerEmitter) -> None:
        a, b = ctx.inputs
        side = {"left": "a", "right": "b"}.get(self.inplace_direction or "")
        keep = True if self.inplace is False else None
        ctx.output(ctx.run("binary", a=a, b=b, function=self.function, side=side, keep=keep))

    def derivatives(self, ctx: LayerEmitter, g: Value) -> tuple[Value | None, Value | None]:
        """The derivatives by both operands, in the output's shape; one that is not wanted may be None."""
        raise NotImplementedError(type(self).__name__)

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (g,) = ctx.incoming
        if g is None:
            return
        for index, value in enumerate(self.derivatives(ctx, g)):
            if value is not None and ctx.derivative_wanted[index]:
                ctx.derivative(index, summed_to(ctx, value, ctx.inputs[index].shape))
