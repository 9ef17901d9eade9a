"""upsample2d: every cell becomes a block of cells."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import enum, int_list


class Upsample2D(BuiltinLayer):
    """Enlarge height and width by the whole numbers ``kernel_size``.

    ``nearest``: ``y[i, j] = x[i // sh, j // sw]``. ``bilinear``: between the neighbours of ``(i + 0.5) / sh - 0.5``,
    not below 0 and cut at the far edge (half-pixel centres). The derivatives are the transposes.
    """

    keyword = "upsample2d"

    upsample = enum(("nearest", "bilinear"), doc="How to fill the new cells.")
    kernel_size = int_list(length=2, sign="positive", doc="Factors of height and width.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        ctx.output(x.replace(height=x.height * self.kernel_size[0], width=x.width * self.kernel_size[1]))

    def forward(self, ctx: LayerEmitter) -> None:
        (x,), scale = ctx.inputs, (self.kernel_size[0], self.kernel_size[1])
        shape = ctx.output_dims[0].shape
        if self.upsample == "bilinear":
            ctx.output(ctx.run("bilinear", x=x, scale=scale))
            return
        rows, width = x.size // x.shape[3], x.shape[3]
        made = ctx.run("broadcast", x=ctx.view(x, (rows, 1, width, 1)), shape=(rows, scale[0], width, scale[1]))
        ctx.output(ctx.view(made, shape))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (x,), (g,), scale = ctx.inputs, ctx.incoming, (self.kernel_size[0], self.kernel_size[1])
        if g is None:
            return
        if self.upsample == "bilinear":
            ctx.derivative(0, ctx.run("bilinear_derivative", g=g, scale=scale))
            return
        rows, width = x.size // x.shape[3], x.shape[3]
        blocks = ctx.view(g, (rows, scale[0], width, scale[1]))
        ctx.derivative(0, ctx.view(ctx.run("reduce_sum", x=blocks, axes=(1, 3)), x.shape))
