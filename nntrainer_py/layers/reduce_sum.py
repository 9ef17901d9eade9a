"""reduce_sum: the sum over one axis."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import integer


class ReduceSum(BuiltinLayer):
    """The sum over ``axis``, which becomes 1; the derivative is repeated along it."""

    keyword = "reduce_sum"

    axis = integer(minimum=1, maximum=3, doc="Axis to sum over.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        ctx.output(x.with_axis(self.axis, 1))

    def forward(self, ctx: LayerEmitter) -> None:
        ctx.output(ctx.run("reduce_sum", x=ctx.inputs[0], axes=(self.axis,)))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        ctx.derivative(0, ctx.run("broadcast", x=ctx.incoming[0], shape=ctx.inputs[0].shape))
