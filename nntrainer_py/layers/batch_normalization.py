"""batch_normalization: zero mean and unit variance over the batch, per channel or feature."""

from __future__ import annotations

from typing import Any

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import enum, integer, number
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.initializers import INITIALIZERS
from nntrainer_py.tensor.operations.record import Uniform

_WORDS = tuple(INITIALIZERS)


class BatchNormalization(BuiltinLayer):
    """``gamma * (x - mean) / sqrt(variance + epsilon) + beta``, statistics over all axes but ``axis``.

    Weights: moving_mean, moving_variance (state), gamma, beta, each of the size of ``axis``. Training uses the
    statistics of the batch (biased variance) and moves the running ones,
    ``running = momentum * running + (1 - momentum) * batch``; inference uses the running ones.
    With ``trainable = false`` the layer is frozen whole: it uses its running statistics in training too and leaves them
    alone (NNTrainer does not; see docs/differences.md).
    """

    keyword = "batch_normalization"

    epsilon = number(0.001, above=0.0, doc="Added to the variance.")
    momentum = number(0.99, above=0.0, below=1.0, doc="Share of the old running statistics that is kept.")
    axis = integer(None, minimum=1, maximum=3, doc="Axis with statistics of its own; unset: 1, or 3 with one channel.")
    moving_mean_initializer = enum(_WORDS, "zeros", doc="Initial running mean.")
    moving_variance_initializer = enum(_WORDS, "ones", doc="Initial running variance.")
    gamma_initializer = enum(_WORDS, "ones", doc="Initial gamma.")
    beta_initializer = enum(_WORDS, "zeros", doc="Initial beta.")
    weight_decay = number(0.0, minimum=0.0, doc="Decay of gamma.")
    bias_decay = number(0.0, minimum=0.0, doc="Decay of beta.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        self.feature_axis = self.axis if self.axis is not None else (1 if x.channel > 1 else 3)
        dim = TensorDim().with_axis(self.feature_axis, x.axis(self.feature_axis))
        self.moving_mean = ctx.state("moving_mean", dim, self.moving_mean_initializer)
        self.moving_variance = ctx.state("moving_variance", dim, self.moving_variance_initializer)
        self.gamma = ctx.weight("gamma", dim, self.gamma_initializer, decay=self.weight_decay)
        self.beta = ctx.weight("beta", dim, self.beta_initializer, decay=self.bias_decay)
        ctx.output(x)

    def _uses_batch(self, ctx: LayerEmitter) -> bool:
        return ctx.training and bool(self.trainable)

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        mean, variance = self.moving_mean.value, self.moving_variance.value
        if self._uses_batch(ctx):
            mean, variance = ctx.run("batch_statistics", x=x, axis=self.feature_axis)
            ctx.run_after_loss("running_update", running=self.moving_mean, batch=mean, momentum=self.momentum)
            ctx.run_after_loss("running_update", running=self.moving_variance, batch=variance, momentum=self.momentum)
        ctx.saved["statistics"] = (mean, variance)
        ctx.output(
            ctx.run(
                "batch_normalize", x=x, mean=mean, variance=variance, gamma=self.gamma, beta=self.beta,
                axis=self.feature_axis, epsilon=self.epsilon,
            )
        )  # fmt: skip

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        dgamma, dbeta = self._sums(ctx)
        if ctx.wants_gradient(self.gamma):
            ctx.run("accumulate", x=dgamma, out=ctx.gradient(self.gamma))
        if ctx.wants_gradient(self.beta):
            ctx.run("accumulate", x=dbeta, out=ctx.gradient(self.beta))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (x,), (g,) = ctx.inputs, ctx.incoming
        mean, variance = ctx.saved["statistics"]
        attributes: dict[str, Any] = {"axis": self.feature_axis, "epsilon": self.epsilon}
        if self._uses_batch(ctx):
            dgamma, dbeta = self._sums(ctx)
            ctx.derivative(
                0,
                ctx.run(
                    "batch_normalize_derivative", x=x, g=g, mean=mean, variance=variance, gamma=self.gamma,
                    dgamma=dgamma, dbeta=dbeta, **attributes,
                ),
            )  # fmt: skip
            return
        # frozen: a fixed scale per channel, which is a normalisation with neither mean nor beta
        zeros = ctx.constant("zeros", self.gamma.dim.shape, Uniform(0.0))
        scaled = ctx.run(
            "batch_normalize", x=g, mean=zeros, variance=variance, gamma=self.gamma, beta=zeros, **attributes
        )
        ctx.derivative(0, scaled)

    def _sums(self, ctx: LayerEmitter) -> tuple[object, object]:
        (x,), (g,) = ctx.inputs, ctx.incoming
        mean, variance = ctx.saved["statistics"]
        dgamma, dbeta = ctx.run(
            "batch_normalize_sums", x=x, g=g, mean=mean, variance=variance, axis=self.feature_axis, epsilon=self.epsilon
        )
        return dgamma, dbeta
