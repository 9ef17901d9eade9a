"""constant_derivative: starts the way back with ones, for models whose output is to grow or shrink as it is."""

from __future__ import annotations

from nntrainer_py.layers.context import LayerEmitter
from nntrainer_py.losses.base import Loss


class ConstantDerivative(Loss):
    """A loss of 1 whose derivative is 1 everywhere, both times ``weight``; the output is passed on."""

    keyword = "constant_derivative"

    def forward(self, ctx: LayerEmitter) -> None:
        (y,) = ctx.inputs
        ctx.output(y)
        if ctx.labels:
            ctx.loss(ctx.run("constant_loss", y=y, weight=self.weight))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        ctx.derivative(0, ctx.run("constant_derivative", shape=ctx.inputs[0].shape, weight=self.weight))
