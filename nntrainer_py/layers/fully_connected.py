"""fully_connected: a matrix product on the last axis."""

from __future__ import annotations

from nntrainer_py.layers.base import WeightLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import positive_int
from nntrainer_py.tensor.dim import TensorDim


class FullyConnected(WeightLayer):
    """Multiply by a weight and add a bias: ``y = x @ W + b`` on the last axis; nothing is flattened.

    Shapes: ``(N, C, H, W)`` to ``(N, C, H, unit)``; weight ``(1, 1, W, unit)``, bias ``(1, 1, 1, unit)``.
    """

    keyword = "fully_connected"

    unit = positive_int(doc="Width of the output.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        self.weight = ctx.weight("weight", TensorDim(height=x.width, width=self.unit))
        self.bias = ctx.bias("bias", TensorDim(width=self.unit))
        ctx.output(x.replace(width=self.unit))

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        ctx.output(ctx.run("matmul", a=x, b=self.weight, bias=self.bias))

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        (x,), (g,) = ctx.inputs, ctx.incoming
        if ctx.wants_gradient(self.weight):
            ctx.run("matmul_gradient", x=x, g=g, out=ctx.gradient(self.weight))
        if self.bias is not None and ctx.wants_gradient(self.bias):
            ctx.run("bias_gradient", g=g, axis=3, out=ctx.gradient(self.bias))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (g,) = ctx.incoming
        ctx.derivative(0, ctx.run("matmul", a=g, b=self.weight, transpose_b=True))
