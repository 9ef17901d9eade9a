"""negative: every element with the other sign."""

from __future__ import annotations

from nntrainer_py.layers.context import LayerEmitter
from nntrainer_py.layers.elementwise import UnaryLayer


class Negative(UnaryLayer):
    """``y = -x``; derivative ``-g``."""

    keyword = "negative"
    function = "negative"

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        ctx.derivative(0, ctx.run("unary", x=ctx.incoming[0], function="negative"))
