"""add: the sum of two inputs."""

from __future__ import annotations

from nntrainer_py.layers.context import LayerEmitter
from nntrainer_py.layers.elementwise import BinaryLayer
from nntrainer_py.tensor.operations.record import Value


class Add(BinaryLayer):
    """``y = a + b``; derivatives ``g`` and ``g``."""

    keyword = "add"
    function = "add"

    def derivatives(self, ctx: LayerEmitter, g: Value) -> tuple[Value | None, Value | None]:
        return g, g
