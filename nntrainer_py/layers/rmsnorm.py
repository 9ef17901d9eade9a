"""rmsnorm: every row divided by its root mean square."""

from __future__ import annotations

from typing import Any

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import enum, number
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.initializers import INITIALIZERS


class RMSNorm(BuiltinLayer):
    """``gamma * x / sqrt(mean(x^2) + epsilon)`` over the last axis. Weight: gamma ``(1, 1, 1, W)``."""

    keyword = "rmsnorm"

    epsilon = number(0.001, above=0.0, doc="Added to the mean of the squares.")
    gamma_initializer = enum(tuple(INITIALIZERS), "ones", doc="Initial gamma.")
    weight_decay = number(0.0, minimum=0.0, doc="Decay of gamma.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        self.gamma = ctx.weight("gamma", TensorDim(width=x.width), self.gamma_initializer, decay=self.weight_decay)
        ctx.output(x)

    def _operands(self, ctx: LayerEmitter) -> dict[str, Any]:
        (x,) = ctx.inputs
        return {"x": x, "inverse": ctx.run("rms_statistics", x=x, epsilon=self.epsilon)}

    def forward(self, ctx: LayerEmitter) -> None:
        ctx.saved["operands"] = self._operands(ctx)
        ctx.output(ctx.run("rms_normalize", gamma=self.gamma, **ctx.saved["operands"]))

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        if ctx.wants_gradient(self.gamma):
            target = ctx.gradient(self.gamma)
            ctx.run("rms_normalize_gradient", g=ctx.incoming[0], out=target, **ctx.saved["operands"])

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        made = ctx.run("rms_normalize_derivative", g=ctx.incoming[0], gamma=self.gamma, **ctx.saved["operands"])
        ctx.derivative(0, made)
