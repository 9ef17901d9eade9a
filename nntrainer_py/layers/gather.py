"""gather: elements of one axis chosen by the second input."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import integer


class Gather(BuiltinLayer):
    """The data (input 0) at the indices (input 1): for axis 2, ``y[n, c, i, w] = x[n, c, index[n, c, i, w], w]``.

    The other axes of the indices have the data's size, or 1 for the same choice everywhere. Indices are floats,
    truncated; one outside the axis is a data error. The derivative by the data adds up what was chosen more than once;
    the indices get none.
    """

    keyword = "gather"

    axis = integer(minimum=1, maximum=3, doc="Axis to choose from.")

    def finalize(self, ctx: FinalizeContext) -> None:
        if len(ctx.inputs) != 2:
            raise ValueError(f"expected two inputs, data and indices, got {len(ctx.inputs)}")
        x, indices = ctx.inputs
        for axis in range(4):
            if axis != self.axis and indices.axis(axis) not in (1, x.axis(axis)):
                raise ValueError(f"indices {indices} for data {x}: expected 1 or {x.axis(axis)} on axis {axis}")
        ctx.output(x.with_axis(self.axis, indices.axis(self.axis)))

    def forward(self, ctx: LayerEmitter) -> None:
        x, indices = ctx.inputs
        ctx.output(ctx.run("gather", x=x, indices=indices, axis=self.axis))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (x, indices), (g,) = ctx.inputs, ctx.incoming
        if g is not None and ctx.derivative_wanted[0]:
            ctx.derivative(0, ctx.run("gather_derivative", g=g, indices=indices, axis=self.axis, shape=x.shape))
