"""reshape: the same elements under another shape; no memory is moved."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import shape
from nntrainer_py.tensor.dim import TensorDim


class Reshape(BuiltinLayer):
    """Give every sample the shape ``target_shape``; the number of elements must stay."""

    keyword = "reshape"

    target_shape = shape(doc="New shape c:h:w of a sample.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        out = TensorDim(*self.target_shape).replace(batch=x.batch)
        if out.features != x.features:
            raise ValueError(f"target_shape: expected {x.features} elements as in {x}, got {out} with {out.features}")
        ctx.output(out)

    def forward(self, ctx: LayerEmitter) -> None:
        ctx.output(ctx.view(ctx.inputs[0], ctx.output_dims[0].shape))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        g = ctx.incoming[0]
        ctx.derivative(0, None if g is None else ctx.view(g, ctx.inputs[0].shape))
