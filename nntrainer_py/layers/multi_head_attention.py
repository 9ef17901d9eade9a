"""multi_head_attention: projected attention over several heads."""

from __future__ import annotations

from typing import Any

from nntrainer_py.errors import counted
from nntrainer_py.layers.base import WeightLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter, Weight
from nntrainer_py.properties import boolean, enum, number, positive_int
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import Value
from nntrainer_py.tensor.rng import key_of


class MultiHeadAttention(WeightLayer):
    """``softmax(Q K^T / sqrt(dk) + mask) V`` per head, projected (Vaswani et al., 2017).

    Inputs: query ``(N, 1, Tq, Wq)``, key ``(N, 1, Tk, Wk)``, value ``(N, 1, Tk, Wv)`` and possibly a mask
    ``(N, num_heads or 1, Tq, Tk)`` that is added to the scores; a query whose keys are all hidden by -infinity gets
    zeros. Weights in order: query_fc_weight ``Wq x heads dk``, query_fc_bias, key_fc_weight, key_fc_bias,
    value_fc_weight, value_fc_bias, fc_weight ``heads dv x output_shape``, fc_bias; the biases take initializer,
    regularizer and decay of the weights, as in NNTrainer. Dropout of the attention weights is active in training only.

    With ``return_attention_weight`` a second output holds the attention weights before or after dropout,
    ``(N, 1, Tq, Tk)`` averaged over the heads or ``(N, num_heads, Tq, Tk)``.
    """

    keyword = "multi_head_attention"

    num_heads = positive_int(1, doc="Number of heads.")
    projected_key_dim = positive_int(None, doc="Width of query and key per head; default query width / num_heads.")
    projected_value_dim = positive_int(None, doc="Width of the value per head; default as the key.")
    output_shape = positive_int(None, doc="Width of the output; default the width of the query.")
    dropout_rate = number(
        0.0, minimum=0.0, maximum=1.0, aliases=("dropout",), doc="Share of attention weights dropped in training."
    )
    return_attention_weight = enum(
        ("none", "before", "after"), "none", doc="Output the weights before or after dropout."
    )
    average_attention_weight = boolean(True, doc="Average the returned attention weights over the heads.")
    causal = boolean(False, doc="Query i sees the keys 0 to i only.")

    def finalize(self, ctx: FinalizeContext) -> None:
        if len(ctx.inputs) not in (3, 4):
            raise ValueError(f"{counted(len(ctx.inputs), 'input')}, expected query, key, value and possibly a mask")
        query, key, value = ctx.inputs[:3]
        heads = self.num_heads
        if query.channel != 1 or key.channel != 1 or value.channel != 1:
            raise ValueError("query, key and value must have one channel")
        if key.height != value.height:
            raise ValueError(f"{key.height} keys and {value.height} values")
        if self.projected_key_dim is None and query.width % heads:
            raise ValueError(f"the width {query.width} of the query is no multiple of num_heads = {heads}")
        if len(ctx.inputs) == 4:
            mask, wanted = ctx.inputs[3], query.replace(channel=heads, width=key.height)
            if mask not in (wanted, wanted.replace(channel=1)):
                raise ValueError(f"the mask is {mask}, it must be {wanted} or {wanted.replace(channel=1)}")
        dk = self.projected_key_dim or query.width // heads
        dv = self.projected_value_dim or dk
        self.scale = float(dk) ** -0.5
        width = self.output_shape or query.width
        self.query = self._projection(ctx, "query_fc", query.width, heads * dk)
        self.key = self._projection(ctx, "key_fc", key.width, heads * dk)
        self.value = self._projection(ctx, "value_fc", value.width, heads * dv)
        self.fc = self._projection(ctx, "fc", heads * dv, width)
        ctx.output(query.replace(width=width))
        if self.return_attention_weight != "none":
            ctx.output(query.replace(channel=1 if self.average_attention_weight else heads, width=key.height))

    def _projection(self, ctx: FinalizeContext, name: str, rows: int, columns: int) -> tuple[Weight, Weight | None]:
        weight = ctx.weight(f"{name}_weight", TensorDim(height=rows, width=columns))
        if self.disable_bias:
            return weight, None
        return weight, ctx.weight(f"{name}_bias", TensorDim(width=columns))

    def _settings(self, ctx: LayerEmitter) -> dict[str, Any]:
        made: dict[str, Any] = {"heads": self.num_heads, "scale": self.scale, "causal": self.causal}
        if len(ctx.inputs) == 4:
            made["mask"] = ctx.inputs[3]
        if ctx.training and self.dropout_rate > 1e-3:
            made |= {"rate": self.dropout_rate, "key": key_of(ctx.seed, ctx.emitter.layer)}
        if self.return_attention_weight != "none":
            made["weights"] = self.return_attention_weight
        return made

    def forward(self, ctx: LayerEmitter) -> None:
        pairs = zip(ctx.inputs[:3], (self.query, self.key, self.value), strict=True)
        q, k, v = (ctx.run("matmul", a=x, b=weight, bias=bias) for x, (weight, bias) in pairs)
        mixed, statistics, *weights = ctx.run("attention", q=q, k=k, v=v, **self._settings(ctx))
        ctx.saved |= {"projected": {"q": q, "k": k, "v": v, "statistics": statistics}, "mixed": mixed}
        ctx.output(ctx.run("matmul", a=mixed, b=self.fc[0], bias=self.fc[1]))
        for value in weights:
            average = self.average_attention_weight and self.num_heads > 1
            ctx.output(ctx.run("reduce_sum", x=value, axes=(1,), factor=1 / self.num_heads) if average else value)

    def _back(self, ctx: LayerEmitter) -> Any:
        """Derivatives by the projections and possibly the mask; may be asked for twice."""
        mixed: Value = ctx.saved["mixed"]
        g = ctx.incoming[0]
        by_mixed = ctx.zeros(mixed.shape) if g is None else ctx.run("matmul", a=g, b=self.fc[0], transpose_b=True)
        settings = self._settings(ctx)
        by_weights = ctx.incoming[1] if len(ctx.incoming) > 1 else None
        if by_weights is not None:
            shape = (mixed.shape[0], self.num_heads, *by_weights.shape[2:])
            if by_weights.shape != shape:
                by_weights = ctx.run("broadcast", x=by_weights, shape=shape, factor=1 / self.num_heads)
            settings["gw"] = by_weights
        if len(ctx.inputs) == 4:
            settings["mask_wanted"] = True
        return ctx.run("attention_derivative", g=by_mixed, **ctx.saved["projected"], **settings)

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        by_q, by_k, by_v = self._back(ctx)[:3]
        query, key, value = ctx.inputs[:3]
        jobs = [(query, by_q, self.query), (key, by_k, self.key), (value, by_v, self.value)]
        if ctx.incoming[0] is not None:
            jobs.append((ctx.saved["mixed"], ctx.incoming[0], self.fc))
        for x, g, (weight, bias) in jobs:
            if ctx.wants_gradient(weight):
                ctx.run("matmul_gradient", x=x, g=g, out=ctx.gradient(weight))
            if bias is not None and ctx.wants_gradient(bias):
                ctx.run("bias_gradient", g=g, axis=3, out=ctx.gradient(bias))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        by_q, by_k, by_v, *by_mask = self._back(ctx)
        for index, (g, (weight, _)) in enumerate(
            zip((by_q, by_k, by_v), (self.query, self.key, self.value), strict=True)
        ):
            ctx.derivative(index, ctx.run("matmul", a=g, b=weight, transpose_b=True))
        for value in by_mask:
            one = ctx.inputs[3].shape[1] == 1 and self.num_heads > 1
            ctx.derivative(3, ctx.run("reduce_sum", x=value, axes=(1,)) if one else value)
