"""preprocess_l2norm: samples scaled to unit length."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import number


class PreprocessL2Norm(BuiltinLayer):
    """``x / (||x|| + epsilon)`` of each sample ``(N, 1, 1, W)``. No derivative passes to the input."""

    keyword = "preprocess_l2norm"
    supports_derivative = False

    epsilon = number(0.001, minimum=0.0, doc="Added to the length.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        if x.channel != 1 or x.height != 1:
            raise ValueError(f"input_shape: expected 1:1:W, got {x}")
        ctx.output(x)

    def forward(self, ctx: LayerEmitter) -> None:
        ctx.output(ctx.run("unit_length", x=ctx.inputs[0], epsilon=self.epsilon))
