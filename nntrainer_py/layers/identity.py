"""identity: as many outputs as inputs, each the input itself."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import LayerEmitter


class Identity(BuiltinLayer):
    """Pass every input on; no memory is moved."""

    keyword = "identity"

    def forward(self, ctx: LayerEmitter) -> None:
        ctx.output(*ctx.inputs)

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        for index, g in enumerate(ctx.incoming):
            ctx.derivative(index, g)
