"""embedding: rows of a table by index."""

from __future__ import annotations

from nntrainer_py.layers.base import WeightLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import positive_int
from nntrainer_py.tensor.dim import TensorDim


class Embedding(WeightLayer):
    """``y[n, 0, k] = table[x[n, 0, 0, k]]``: ``(N, 1, 1, W)`` of indices to ``(N, 1, W, out_dim)``.

    Indices are floats, truncated; one outside ``0..in_dim - 1`` is a data error. Weight: Embedding
    ``(1, 1, in_dim, out_dim)``. No derivative passes to the input.
    """

    keyword = "embedding"
    supports_derivative = False

    in_dim = positive_int(doc="Rows of the table: the size of the vocabulary.")
    out_dim = positive_int(doc="Width of a row.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        if x.channel != 1 or x.height != 1:
            raise ValueError(f"input_shape: expected indices of shape 1:1:W, got {x}")
        self.table = ctx.weight("Embedding", TensorDim(height=self.in_dim, width=self.out_dim))
        ctx.output(TensorDim(x.batch, 1, x.width, self.out_dim))

    def forward(self, ctx: LayerEmitter) -> None:
        ctx.output(ctx.run("embedding", x=ctx.inputs[0], table=self.table))

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        (x,), (g,) = ctx.inputs, ctx.incoming
        if ctx.wants_gradient(self.table):
            ctx.run("embedding_gradient", x=x, g=g, rows=self.in_dim, out=ctx.gradient(self.table))
