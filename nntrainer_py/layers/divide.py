"""divide: the first input by the second, element by element."""

from __future__ import annotations

from nntrainer_py.layers.context import LayerEmitter
from nntrainer_py.layers.elementwise import BinaryLayer
from nntrainer_py.tensor.operations.record import Value


class Divide(BinaryLayer):
    """``y = a / b``; derivatives ``g / b`` and ``-(g / b) * y``, so that the way back does not need ``a``."""

    keyword = "divide"
    function = "divide"

    def derivatives(self, ctx: LayerEmitter, g: Value) -> tuple[Value | None, Value | None]:
        quotient = ctx.run("binary", a=g, b=ctx.inputs[1], function="divide")
        if not ctx.derivative_wanted[1]:
            return quotient, None
        product = ctx.run("binary", a=quotient, b=ctx.outputs[0], function="multiply")
        return quotient, ctx.run("unary", x=product, function="negative")
