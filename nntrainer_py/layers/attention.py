"""attention: dot-product attention without weights."""

from __future__ import annotations

from nntrainer_py.errors import counted
from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import boolean


class Attention(BuiltinLayer):
    """``softmax(Q K^T) V``; inputs in the order query, value, key (by default the value).

    Shapes: query ``(N, 1, Tq, D)``, value ``(N, 1, Tk, Dv)``, key ``(N, 1, Tk, D)``, output ``(N, 1, Tq, Dv)``.
    ``scaled_dot_product`` divides the scores by ``sqrt(D)``; ``causal_mask`` hides keys behind the query's position.
    """

    keyword = "attention"

    scaled_dot_product = boolean(False, doc="Divide the scores by the root of the width.")
    causal_mask = boolean(False, doc="Query i sees the keys 0 to i only.")

    def finalize(self, ctx: FinalizeContext) -> None:
        if len(ctx.inputs) not in (2, 3):
            raise ValueError(f"{counted(len(ctx.inputs), 'input')}, attention takes query, value and possibly key")
        query, value = ctx.inputs[:2]
        key = ctx.inputs[-1]
        if query.channel != 1 or value.channel != 1 or key.channel != 1:
            raise ValueError("query, value and key must have one channel")
        if query.width != key.width:
            raise ValueError(f"the query is {query.width} wide, the key {key.width}")
        if value.height != key.height:
            raise ValueError(f"{value.height} values and {key.height} keys")
        self.scale = float(query.width) ** -0.5 if self.scaled_dot_product else 1.0
        ctx.output(query.replace(width=value.width))

    def forward(self, ctx: LayerEmitter) -> None:
        query, value, key = ctx.inputs[0], ctx.inputs[1], ctx.inputs[-1]
        out, statistics = ctx.run(
            "attention", q=query, k=key, v=value, heads=1, scale=self.scale, causal=self.causal_mask
        )
        ctx.saved["statistics"] = statistics
        ctx.output(out)

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        query, value, key = ctx.inputs[0], ctx.inputs[1], ctx.inputs[-1]
        by_query, by_key, by_value = ctx.run(
            "attention_derivative", q=query, k=key, v=value, statistics=ctx.saved["statistics"], g=ctx.incoming[0],
            heads=1, scale=self.scale, causal=self.causal_mask,
        )  # fmt: skip
        ctx.derivative(0, by_query)
        if len(ctx.inputs) == 3:
            ctx.derivative(1, by_value)
            ctx.derivative(2, by_key)
        else:
            ctx.derivative(1, ctx.sum([by_value, by_key]))
