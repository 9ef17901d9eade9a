"""swiglu: one input gated by the other."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter


class SwiGLU(BuiltinLayer):
    """``y = a * sigmoid(a) * b`` of two equally shaped inputs (Shazeer, "GLU Variants Improve Transformer", 2020)."""

    keyword = "swiglu"

    def finalize(self, ctx: FinalizeContext) -> None:
        if len(ctx.inputs) != 2 or ctx.inputs[0] != ctx.inputs[1]:
            raise ValueError(f"expected two inputs of one shape, got {', '.join(map(str, ctx.inputs))}")
        ctx.output(ctx.inputs[0])

    def forward(self, ctx: LayerEmitter) -> None:
        a, b = ctx.inputs
        ctx.saved["gate"] = ctx.run("activation", x=a, function="swish")
        ctx.output(ctx.run("binary", a=ctx.saved["gate"], b=b, function="multiply"))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (a, b), (g,) = ctx.inputs, ctx.incoming
        if g is None:
            return
        if ctx.derivative_wanted[0]:
            by_gate = ctx.run("binary", a=g, b=b, function="multiply")
            ctx.derivative(0, ctx.run("activation_derivative", x=a, g=by_gate, function="swish"))
        if ctx.derivative_wanted[1]:
            ctx.derivative(1, ctx.run("binary", a=g, b=ctx.saved["gate"], function="multiply"))
