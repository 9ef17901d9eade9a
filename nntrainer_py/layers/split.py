"""split: equal parts along one axis, one output each."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import integer, positive_int


class Split(BuiltinLayer):
    """Cut into ``split_number`` equal parts along ``axis``; a part that nobody reads costs nothing."""

    keyword = "split"

    axis = integer(minimum=1, maximum=3, aliases=("split_dimension",), doc="Axis to cut.")
    split_number = positive_int(None, doc="Number of parts; unset: the size of the axis.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        size = x.axis(self.axis)
        parts = self.split_number or size
        if size % parts:
            raise ValueError(f"split_number: expected a divisor of {size}, the size of axis {self.axis}, got {parts}")
        self.part = size // parts
        for _ in range(parts):
            ctx.output(x.with_axis(self.axis, self.part))

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        if len(ctx.output_dims) == 1:
            ctx.output(x)
            return
        for index in range(len(ctx.output_dims)):
            start = index * self.part
            ctx.output(ctx.run("slice", x=x, axis=self.axis, start=start, stop=start + self.part))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        if all(g is None for g in ctx.incoming):
            return
        if len(ctx.incoming) == 1:
            ctx.derivative(0, ctx.incoming[0])
            return
        shape = ctx.output_dims[0].shape
        operands = {f"x{i}": ctx.zeros(shape) if g is None else g for i, g in enumerate(ctx.incoming)}
        ctx.derivative(0, ctx.run("concat", axis=self.axis, **operands))
