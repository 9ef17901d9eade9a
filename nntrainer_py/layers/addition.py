"""addition: the sum of any number of equally shaped inputs."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter


class Addition(BuiltinLayer):
    """``y = x0 + x1 + ...``; every input gets the incoming derivative."""

    keyword = "addition"

    def finalize(self, ctx: FinalizeContext) -> None:
        first = ctx.inputs[0]
        for index, dim in enumerate(ctx.inputs):
            if dim != first:
                raise ValueError(f"input {index} is {dim}, input 0 is {first}; addition needs equal shapes")
        ctx.output(first)

    def forward(self, ctx: LayerEmitter) -> None:
        total = ctx.sum(ctx.inputs)
        assert total is not None
        ctx.output(total)

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        for index in range(len(ctx.inputs)):
            ctx.derivative(index, ctx.incoming[0])
