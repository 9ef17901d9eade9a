"""pow: every element to a fixed power."""

from __future__ import annotations

from typing import Any

from nntrainer_py.layers.context import LayerEmitter
from nntrainer_py.layers.elementwise import UnaryLayer
from nntrainer_py.properties import number


class Pow(UnaryLayer):
    """``y = x^exponent``; derivative ``g * exponent * x^(exponent - 1)``."""

    keyword = "pow"
    function = "pow"

    exponent = number(1.0, doc="The power.")

    def parameters(self) -> dict[str, Any]:
        return {"exponent": self.exponent}

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        if self.exponent == 0.0:  # a constant; the formula would give 0 * x^-1, which is no number at 0
            ctx.derivative(0, ctx.zeros(ctx.inputs[0].shape))
        elif self.exponent == 1.0:
            ctx.derivative(0, ctx.incoming[0])
        else:
            super().calc_derivative(ctx)
