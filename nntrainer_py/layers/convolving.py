"""What the convolutions beside conv2d share: the three operations on a filter, a bias and a window."""

from __future__ import annotations

from typing import Any

from nntrainer_py.layers.base import WeightLayer
from nntrainer_py.layers.context import LayerEmitter, Weight
from nntrainer_py.layers.window import Sides


class Convolving(WeightLayer):
    """A layer that convolves with ``filter``; ``finalize`` sets the fields below."""

    filter: Weight
    bias: Weight | None
    kernel: tuple[int, int]
    step: tuple[int, int]
    spread: tuple[int, int]
    sides: Sides
    group_count: int

    def window(self, ctx: LayerEmitter) -> dict[str, Any]:
        """The attributes of the convolution kinds."""
        return {
            "stride": self.step,
            "padding": self.sides,
            "dilation": self.spread,
            "groups": self.group_count,
            "algorithm": ctx.convolution,
        }

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        ctx.output(ctx.run("conv2d", x=x, w=self.filter, bias=self.bias, **self.window(ctx)))

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        (x,), (g,) = ctx.inputs, ctx.incoming
        if ctx.wants_gradient(self.filter):
            target = ctx.gradient(self.filter)
            ctx.run("conv2d_gradient", x=x, g=g, kernel_size=self.kernel, out=target, **self.window(ctx))
        if self.bias is not None and ctx.wants_gradient(self.bias):
            ctx.run("bias_gradient", g=g, axis=1, out=ctx.gradient(self.bias))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (x,), (g,) = ctx.inputs, ctx.incoming
        made = ctx.run("conv2d_derivative", g=g, w=self.filter, size=tuple(x.shape[2:]), **self.window(ctx))
        ctx.derivative(0, made)
