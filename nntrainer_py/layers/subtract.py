"""subtract: the first input minus the second."""

from __future__ import annotations

from nntrainer_py.layers.context import LayerEmitter
from nntrainer_py.layers.elementwise import BinaryLayer
from nntrainer_py.tensor.operations.record import Value


class Subtract(BinaryLayer):
    """``y = a - b``; derivatives ``g`` and ``-g``."""

    keyword = "subtract"
    function = "subtract"

    def derivatives(self, ctx: LayerEmitter, g: Value) -> tuple[Value | None, Value | None]:
        return g, ctx.run("unary", x=g, function="negative") if ctx.derivative_wanted[1] else None
