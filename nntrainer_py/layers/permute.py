"""permute: another order of channel, height and width."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import PropertyError, int_list
from nntrainer_py.tensor.dim import TensorDim


class Permute(BuiltinLayer):
    """Output axis ``i`` is input axis ``direction[i]``; the batch stays in front."""

    keyword = "permute"

    direction = int_list(doc="A permutation of 1, 2, 3.", length=3, sign="positive")

    def validate(self) -> None:
        if sorted(self.direction) != [1, 2, 3]:
            raise PropertyError("a permutation of 1, 2, 3", ",".join(map(str, self.direction)), key="direction")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        ctx.output(TensorDim(x.batch, *(x.axis(axis) for axis in self.direction)))

    def forward(self, ctx: LayerEmitter) -> None:
        ctx.output(ctx.run("permute", x=ctx.inputs[0], direction=tuple(self.direction)))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        g = ctx.incoming[0]
        inverse = tuple(list(self.direction).index(axis) + 1 for axis in (1, 2, 3))
        ctx.derivative(0, None if g is None else ctx.run("permute", x=g, direction=inverse))
