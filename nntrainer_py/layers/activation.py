"""activation: an element-wise function, or softmax along the width."""

from __future__ import annotations

from nntrainer_py.errors import UsageError
from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import LayerEmitter
from nntrainer_py.tensor.operations.elementwise import FROM_OUTPUT
from nntrainer_py.tensor.operations.user_functions import USER_FUNCTIONS


class Activation(BuiltinLayer):
    """Apply the function named by ``activation``.

    A derivative that can be had from the output is computed from it, so that the function may run in place; that of
    swish, gelu, tanh_gelu, sigmoid_gelu, mish and a user's function needs the input, which is then kept.
    """

    keyword = "activation"

    def validate(self) -> None:
        if self.activation is None:
            raise UsageError("required for a layer of type activation", key="activation")

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        if self.activation == "none":
            ctx.output(x)
        elif self.activation == "softmax":
            ctx.output(ctx.run("softmax", x=x))
        elif self.activation in USER_FUNCTIONS:
            ctx.output(ctx.run("user_activation", x=x, function=self.activation))
        else:
            ctx.output(ctx.run("activation", x=x, function=self.activation))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (x,), (y,), (g,) = ctx.inputs, ctx.outputs, ctx.incoming
        if g is None or self.activation == "none":
            ctx.derivative(0, g)
        elif self.activation == "softmax":
            ctx.derivative(0, ctx.run("softmax_derivative", y=y, g=g))
        elif self.activation in USER_FUNCTIONS:
            ctx.derivative(0, ctx.run("user_activation_derivative", g=g, x=x, function=self.activation))
        else:
            operand = {"y": y} if self.activation in FROM_OUTPUT else {"x": x}
            ctx.derivative(0, ctx.run("activation_derivative", g=g, function=self.activation, **operand))
