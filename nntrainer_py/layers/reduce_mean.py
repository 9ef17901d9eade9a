"""reduce_mean: the mean over one axis."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import integer


class ReduceMean(BuiltinLayer):
    """The mean over ``axis``, which becomes 1; without ``axis`` over a whole sample. Derivative ``g / size``."""

    keyword = "reduce_mean"

    axis = integer(None, minimum=1, maximum=3, doc="Axis to average; unset: all three.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        self.axes = (1, 2, 3) if self.axis is None else (self.axis,)
        self.count, made = 1, x
        for axis in self.axes:
            self.count *= x.axis(axis)
            made = made.with_axis(axis, 1)
        ctx.output(made)

    def forward(self, ctx: LayerEmitter) -> None:
        ctx.output(ctx.run("reduce_sum", x=ctx.inputs[0], axes=self.axes, factor=1.0 / self.count))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        ctx.derivative(0, ctx.run("broadcast", x=ctx.incoming[0], shape=ctx.inputs[0].shape, factor=1.0 / self.count))
