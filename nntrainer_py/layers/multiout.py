"""multiout: one input, several outputs, put in where an output has more than one consumer."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter


class MultiOut(BuiltinLayer):
    """Every output is the input; the derivative is the sum of the incoming ones in output order."""

    keyword = "multiout"

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        for _ in range(max(ctx.outputs_wanted, 1)):
            ctx.output(x)

    def forward(self, ctx: LayerEmitter) -> None:
        ctx.output(*[ctx.inputs[0]] * len(ctx.output_dims))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        ctx.derivative(0, ctx.sum(ctx.incoming))
