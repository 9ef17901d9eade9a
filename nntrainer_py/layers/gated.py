"""The mathematics of lstm and gru, which their layers and cells share."""

from __future__ import annotations

from typing import Any

from nntrainer_py.layers.context import LayerEmitter
from nntrainer_py.layers.recurrent import GATE_FUNCTIONS, Pass, RecurrentLayer, RecurrentWeights
from nntrainer_py.properties import boolean, enum
from nntrainer_py.tensor.operations.record import Value


class Gated(RecurrentLayer):
    """With gates that have a function of their own."""

    recurrent_activation = enum(GATE_FUNCTIONS, "sigmoid", doc="Function of the gates.")

    def settings(self, ctx: LayerEmitter, reverse: bool) -> dict[str, Any]:
        return super().settings(ctx, reverse) | {"recurrent_activation": self.recurrent_activation}


class LstmMath(Gated):
    """``i, f, o = rec(...)``, ``g = act(...)``, ``c = f c' + i g``, ``h = o act(c)``; columns in the order i, f, g,
    o.
    """

    operation = "lstm"
    gates = 4
    makes = ("hidden", "cell", "gates")
    keeps = ("gates", "cell")

    def back_makes(self, run: Pass) -> list[str]:
        return ["out", "dhidden0", "dcell0"] if run.initial else ["out"]


class GruMath(Gated):
    """``z, r = rec(x W + h' U + b)``, ``h = z h' + (1 - z) g``; columns in the order z, r, g.

    ``reset_after``: ``g = act(x W + b_ih + r (h' U + b_hh))``, else ``g = act(x W + b_ih + (r h') U + b_hh)``. A single
    bias (``integrate_bias``) stands outside of the product with r.
    """

    operation = "gru"
    gates = 3
    makes = ("hidden", "gates", "inner")
    keeps = ("hidden", "gates", "inner")

    reset_after = boolean(True, doc="Apply the reset gate after the recurrent product instead of before it.")

    def settings(self, ctx: LayerEmitter, reverse: bool) -> dict[str, Any]:
        return super().settings(ctx, reverse) | {"reset_after": self.reset_after}

    def biases(self, ctx: LayerEmitter, weights: RecurrentWeights) -> tuple[Any, Any]:
        if self.reset_after:
            return weights.bias_ih, weights.bias_hh
        return super().biases(ctx, weights)

    def back_makes(self, run: Pass) -> list[str]:
        return ["out"] + ["dinner"] * self.reset_after + ["dhidden0"] * bool(run.initial)

    def inner(self, run: Pass, back: dict[str, Value]) -> dict[str, Any]:
        return {"inner": back["dinner"] if self.reset_after else run.made["inner"], "reset_after": self.reset_after}

    def emit_bias_gradients(self, ctx: LayerEmitter, weights: RecurrentWeights, back: dict[str, Value]) -> None:
        outer, inside = weights.bias_ih, weights.bias_hh
        if not self.reset_after or inside is None or not ctx.wants_gradient(inside):
            super().emit_bias_gradients(ctx, weights, back)
            return
        total = ctx.run("bias_gradient", g=back["out"], axis=3)
        if outer is not None and ctx.wants_gradient(outer):
            ctx.run("accumulate", x=total, out=ctx.gradient(outer))
        gates = ctx.run("slice", x=total, axis=3, start=0, stop=2 * self.unit)
        candidate = ctx.run("bias_gradient", g=back["dinner"], axis=3)
        ctx.run("accumulate", x=ctx.run("concat", x0=gates, x1=candidate, axis=3), out=ctx.gradient(inside))
