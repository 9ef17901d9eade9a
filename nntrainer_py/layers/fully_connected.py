"""fully_connected: a matrix product on the last axis, possibly with a trained product of low rank beside it."""

from __future__ import annotations

from typing import Any

from nntrainer_py.layers.base import WeightLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import number, positive_int
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import Uniform


class FullyConnected(WeightLayer):
    """Multiply by a weight and add a bias: ``y = x @ W + b`` on the last axis; nothing is flattened.

    Shapes: ``(N, C, H, W)`` to ``(N, C, H, unit)``; weight ``(1, 1, W, unit)``, bias ``(1, 1, 1, unit)``.

    With ``lora_rank`` r (Hu et al., "LoRA", 2021) ``y += s * (x @ A) @ B``, where s is ``lora_alpha / r``, or 1 without
    ``lora_alpha``. Then A ``(1, 1, W, r)``, zeros at first, and B ``(1, 1, r, unit)`` are trained, and neither weight
    nor bias is.
    """

    keyword = "fully_connected"

    unit = positive_int(doc="Width of the output.")
    lora_rank = positive_int(None, doc="Train a product of this rank beside the frozen weight.")
    lora_alpha = number(
        None, above=0.0, doc="The product of low rank counts lora_alpha / lora_rank times; unset: once."
    )

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        rank = self.lora_rank
        self.weight = ctx.weight("weight", TensorDim(height=x.width, width=self.unit), trainable=rank is None)
        self.bias = ctx.bias("bias", TensorDim(width=self.unit))
        if self.bias is not None and rank is not None:
            self.bias.trainable = False
        if rank is not None:
            self.lora_a = ctx.weight("loraA", TensorDim(height=x.width, width=rank), "zeros")
            self.lora_b = ctx.weight("loraB", TensorDim(height=rank, width=self.unit), "lecun_normal")
        ctx.output(x.replace(width=self.unit))

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        y = ctx.run("matmul", a=x, b=self.weight, bias=self.bias)
        if self.lora_rank is not None:
            narrow = ctx.saved["narrow"] = ctx.run("matmul", a=x, b=self.lora_a)
            y = ctx.sum([y, self._scaled(ctx, ctx.run("matmul", a=narrow, b=self.lora_b))])
        ctx.output(y)

    def _scaled(self, ctx: LayerEmitter, value: Any) -> Any:
        """The share of the product of low rank, or of the derivative that goes into it."""
        if self.lora_rank is None or self.lora_alpha in (None, self.lora_rank):
            return value
        assert self.lora_alpha is not None
        factor = ctx.constant("lora_scale", (1, 1, 1, 1), Uniform(self.lora_alpha / self.lora_rank))
        return ctx.run("binary", a=value, b=factor, function="multiply")

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        (x,), (g,) = ctx.inputs, ctx.incoming
        if ctx.wants_gradient(self.weight):
            ctx.run("matmul_gradient", x=x, g=g, out=ctx.gradient(self.weight))
        if self.bias is not None and ctx.wants_gradient(self.bias):
            ctx.run("bias_gradient", g=g, axis=3, out=ctx.gradient(self.bias))
        if self.lora_rank is not None:
            g = self._scaled(ctx, g)
            ctx.run("matmul_gradient", x=ctx.saved["narrow"], g=g, out=ctx.gradient(self.lora_b))
            narrow = ctx.run("matmul", a=g, b=self.lora_b, transpose_b=True)
            ctx.run("matmul_gradient", x=x, g=narrow, out=ctx.gradient(self.lora_a))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (g,) = ctx.incoming
        made = ctx.run("matmul", a=g, b=self.weight, transpose_b=True)
        if self.lora_rank is not None:
            narrow = ctx.run("matmul", a=self._scaled(ctx, g), b=self.lora_b, transpose_b=True)
            made = ctx.sum([made, ctx.run("matmul", a=narrow, b=self.lora_a, transpose_b=True)])
        ctx.derivative(0, made)
