"""A layer of one's own: multiply every feature by a weight that is learned, ``y = x * scale``."""

import numpy as np

from nntrainer_py import Layer, register_layer


@register_layer("scale")
class Scale(Layer):
    def finalize(self, ctx):
        (x,) = ctx.inputs
        ctx.weight("scale", x.replace(batch=1), initializer="ones")
        ctx.output(x)

    def forward(self, ctx):
        np.multiply(ctx.inputs[0], ctx.weights["scale"], out=ctx.outputs[0])

    def calc_gradient(self, ctx):
        np.sum(ctx.incoming[0] * ctx.inputs[0], axis=0, keepdims=True, out=ctx.gradients["scale"])

    def calc_derivative(self, ctx):
        np.multiply(ctx.incoming[0], ctx.weights["scale"], out=ctx.derivatives[0])
