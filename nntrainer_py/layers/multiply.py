"""multiply: the product of two inputs, element by element."""

from __future__ import annotations

from nntrainer_py.layers.context import LayerEmitter
from nntrainer_py.layers.elementwise import BinaryLayer
from nntrainer_py.tensor.operations.record import Value


class Multiply(BinaryLayer):
    """``y = a * b``; derivatives ``g * b`` and ``g * a``."""

    keyword = "multiply"
    function = "multiply"

    def derivatives(self, ctx: LayerEmitter, g: Value) -> tuple[Value | None, Value | None]:
        a, b = ctx.inputs
        first, second = ctx.derivative_wanted
        return (
            ctx.run("binary", a=g, b=b, function="multiply") if first else None,
            ctx.run("binary", a=g, b=a, function="multiply") if second else None,
        )
