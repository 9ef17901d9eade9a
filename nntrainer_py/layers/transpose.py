"""transpose: two axes exchanged."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import integer
from nntrainer_py.tensor.dim import TensorDim

_DIRECTIONS = ((2, 1, 3), (1, 3, 2), (3, 2, 1))


class Transpose(BuiltinLayer):
    """Exchange channel and height (``axis = 0``), height and width (1), or channel and width (2)."""

    keyword = "transpose"

    axis = integer(0, minimum=0, maximum=2, doc="0: channel and height, 1: height and width, 2: channel and width.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        self.direction = _DIRECTIONS[self.axis]
        ctx.output(TensorDim(x.batch, *(x.axis(axis) for axis in self.direction)))

    def forward(self, ctx: LayerEmitter) -> None:
        ctx.output(ctx.run("permute", x=ctx.inputs[0], direction=self.direction))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        ctx.derivative(0, ctx.run("permute", x=ctx.incoming[0], direction=self.direction))
