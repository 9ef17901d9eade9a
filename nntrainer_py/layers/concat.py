"""concat: inputs side by side along one axis."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import integer


class Concat(BuiltinLayer):
    """Join along ``axis``; every other axis must agree."""

    keyword = "concat"

    axis = integer(None, minimum=1, maximum=3, doc="Axis to join; unset: 3 when there are channels, else 1.")

    def finalize(self, ctx: FinalizeContext) -> None:
        first = ctx.inputs[0]
        self.joined = self.axis if self.axis is not None else (3 if first.channel > 1 else 1)
        for index, dim in enumerate(ctx.inputs):
            if dim.with_axis(self.joined, 1) != first.with_axis(self.joined, 1):
                raise ValueError(f"input {index} is {dim}, input 0 is {first}; only axis {self.joined} may differ")
        ctx.output(first.with_axis(self.joined, sum(dim.axis(self.joined) for dim in ctx.inputs)))

    def forward(self, ctx: LayerEmitter) -> None:
        operands = {f"x{index}": value for index, value in enumerate(ctx.inputs)}
        ctx.output(ctx.run("concat", axis=self.joined, **operands))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        g, start = ctx.incoming[0], 0
        for index, x in enumerate(ctx.inputs):
            stop = start + x.shape[self.joined]
            if g is not None and ctx.derivative_wanted[index]:
                ctx.derivative(index, ctx.run("slice", x=g, axis=self.joined, start=start, stop=stop))
            start = stop
