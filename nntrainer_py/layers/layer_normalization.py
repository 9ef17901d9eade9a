"""layer_normalization: zero mean and unit variance of each sample over the chosen axes."""

from __future__ import annotations

from typing import Any

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import PropertyError, enum, int_list, number
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.initializers import INITIALIZERS
from nntrainer_py.tensor.operations.layer_normalization import scale_shape

_WORDS = tuple(INITIALIZERS)


class LayerNormalization(BuiltinLayer):
    """``gamma * (x - mean) / sqrt(variance + epsilon) + beta``, mean and biased variance of a sample over ``axis``.

    Weights: gamma and beta, of the input's size on the listed axes and 1 elsewhere. The derivative by the input
    includes gamma (NNTrainer's leaves it out).
    """

    keyword = "layer_normalization"

    axis = int_list(doc="Axes to normalise over, out of 1, 2, 3.", sign="positive")
    epsilon = number(0.001, above=0.0, doc="Added to the variance.")
    gamma_initializer = enum(_WORDS, "ones", doc="Initial gamma.")
    beta_initializer = enum(_WORDS, "zeros", doc="Initial beta.")
    weight_decay = number(0.0, minimum=0.0, doc="Decay of gamma.")
    bias_decay = number(0.0, minimum=0.0, doc="Decay of beta.")

    def validate(self) -> None:
        if len(set(self.axis)) != len(self.axis) or not set(self.axis) <= {1, 2, 3} or not self.axis:
            raise PropertyError("different axes out of 1, 2, 3", ",".join(map(str, self.axis)), key="axis")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        self.axes = tuple(sorted(self.axis))
        dim = TensorDim(*scale_shape(x.shape, self.axes)).replace(batch=1)
        self.gamma = ctx.weight("gamma", dim, self.gamma_initializer, decay=self.weight_decay)
        self.beta = ctx.weight("beta", dim, self.beta_initializer, decay=self.bias_decay)
        ctx.output(x)

    def _statistics(self, ctx: LayerEmitter) -> dict[str, Any]:
        mean, inverse = ctx.run("layer_statistics", x=ctx.inputs[0], axes=self.axes, epsilon=self.epsilon)
        return {"mean": mean, "inverse": inverse, "axes": self.axes}

    def forward(self, ctx: LayerEmitter) -> None:
        ctx.saved["statistics"] = self._statistics(ctx)
        ctx.output(
            ctx.run("layer_normalize", x=ctx.inputs[0], gamma=self.gamma, beta=self.beta, **ctx.saved["statistics"])
        )

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        (x,), (g,) = ctx.inputs, ctx.incoming
        dgamma, dbeta = ctx.run("layer_normalize_sums", x=x, g=g, **ctx.saved["statistics"])
        if ctx.wants_gradient(self.gamma):
            ctx.run("accumulate", x=dgamma, out=ctx.gradient(self.gamma))
        if ctx.wants_gradient(self.beta):
            ctx.run("accumulate", x=dbeta, out=ctx.gradient(self.beta))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (x,), (g,) = ctx.inputs, ctx.incoming
        ctx.derivative(0, ctx.run("layer_normalize_derivative", x=x, g=g, gamma=self.gamma, **ctx.saved["statistics"]))
