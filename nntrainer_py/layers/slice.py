"""slice: part of one axis."""

from __future__ import annotations

import math

from nntrainer_py.errors import UsageError
from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import integer, positive_int


class Slice(BuiltinLayer):
    """Elements ``start_index`` to ``end_index`` (exclusive, counted from 1) of ``axis``; derivative 0 elsewhere."""

    keyword = "slice"

    axis = integer(minimum=1, maximum=3, doc="Axis to cut.")
    start_index = positive_int(doc="First element, counted from 1.")
    end_index = positive_int(doc="The element after the last, counted from 1.")

    def validate(self) -> None:
        if self.end_index <= self.start_index:
            raise UsageError(
                f"expected more than start_index = {self.start_index}, got {self.end_index}", key="end_index"
            )

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        if self.end_index - 1 > x.axis(self.axis):
            raise ValueError(
                f"end_index: expected at most {x.axis(self.axis) + 1} for axis {self.axis} of {x}, got {self.end_index}"
            )
        ctx.output(x.with_axis(self.axis, self.end_index - self.start_index))

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        start, stop = self.start_index - 1, self.end_index - 1
        shape = ctx.output_dims[0].shape
        if math.prod(x.shape[: self.axis]) == 1 or shape == x.shape:  # one piece of memory
            ctx.output(ctx.view(x, shape, start * math.prod(x.shape[self.axis + 1 :])))
        else:
            ctx.output(ctx.run("slice", x=x, axis=self.axis, start=start, stop=stop))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (x,), (g,) = ctx.inputs, ctx.incoming
        ctx.derivative(0, ctx.run("slice_derivative", g=g, axis=self.axis, start=self.start_index - 1, shape=x.shape))
