"""mol_attention: attention by position, a mixture of logistic distributions that moves on over a sequence."""

from __future__ import annotations

from typing import Any

from nntrainer_py.errors import counted
from nntrainer_py.layers.base import WeightLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import positive_int
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import Value


class MolAttention(WeightLayer):
    """Scores from the query and the state alone, a mixture of logistic distributions, then ``scores value``.

    Inputs: query ``(N, 1, 1, Wq)``, value ``(N, 1, T, Wv)``, state ``(N, 1, 1, mol_k)`` and possibly the number of
    valid steps ``(N, 1, 1, 1)``, beyond which scores are zero. ``p = tanh(query fc_w + fc_bias) fc_proj_w`` holds
    kappa, beta and alpha, of which exp, exp and softmax are taken; step u = 1.. of the value scores
    ``sum alpha (sigmoid((u + 0.5 - moved) / beta) - sigmoid((u - 0.5 - moved) / beta))``, moved = state + kappa.
    Outputs: ``(N, 1, 1, Wv)`` and, where it is read, the moved state.
    Weights in order: fc_w ``Wq x unit``, fc_bias, fc_proj_w ``unit x 3 mol_k``.
    """

    keyword = "mol_attention"

    unit = positive_int(doc="Width between the two projections.")
    mol_k = positive_int(doc="Number of logistic distributions; the width of the state.")

    def finalize(self, ctx: FinalizeContext) -> None:
        if len(ctx.inputs) not in (3, 4):
            raise ValueError(f"{counted(len(ctx.inputs), 'input')}, expected query, value, state and possibly a length")
        query, value, state = ctx.inputs[:3]
        if query.channel != 1 or query.height != 1:
            raise ValueError(f"the query is {query}, it must be one step of one channel")
        if value.channel != 1:
            raise ValueError(f"the value is {value}, it must have one channel")
        if state != query.replace(width=self.mol_k):
            raise ValueError(f"the state is {state}, it must be {query.replace(width=self.mol_k)}")
        if len(ctx.inputs) == 4 and ctx.inputs[3].features != 1:
            raise ValueError(f"the length is {ctx.inputs[3]}, it must be one number: 1:1:1")
        self.fc = ctx.weight("fc_w", TensorDim(height=query.width, width=self.unit))
        self.bias = ctx.bias("fc_bias", TensorDim(width=self.unit))
        self.projection = ctx.weight("fc_proj_w", TensorDim(height=self.unit, width=3 * self.mol_k))
        ctx.output(query.replace(width=value.width))
        if ctx.outputs_wanted > 1:
            ctx.output(state)

    def _operands(self, ctx: LayerEmitter) -> dict[str, Value]:
        made = {"p": ctx.saved["p"], "state": ctx.inputs[2]}
        return made | ({"length": ctx.inputs[3]} if len(ctx.inputs) == 4 else {})

    def forward(self, ctx: LayerEmitter) -> None:
        query, value = ctx.inputs[:2]
        squashed = ctx.run("activation", x=ctx.run("matmul", a=query, b=self.fc, bias=self.bias), function="tanh")
        ctx.saved |= {"squashed": squashed, "p": ctx.run("matmul", a=squashed, b=self.projection)}
        scores, moved = ctx.run("mol_scores", steps=value.shape[2], **dict[str, Any](self._operands(ctx)))
        ctx.saved["scores"] = scores
        ctx.output(ctx.run("matmul", a=scores, b=value))
        if len(ctx.output_dims) > 1:
            ctx.output(moved)

    def _back(self, ctx: LayerEmitter) -> tuple[Value, Value, Value]:
        """Derivatives by p, by the state, and by the argument of tanh; may be asked for twice."""
        g, gmoved = ctx.incoming[0], ctx.incoming[1] if len(ctx.incoming) > 1 else None
        if g is None:
            by_scores = ctx.zeros(ctx.saved["scores"].shape)
        else:
            by_scores = ctx.run("matmul", a=g, b=ctx.inputs[1], transpose_b=True)
        by_p, by_state = ctx.run(
            "mol_scores_derivative", g=by_scores, gmoved=gmoved, **dict[str, Any](self._operands(ctx))
        )
        by_squashed = ctx.run("matmul", a=by_p, b=self.projection, transpose_b=True)
        return by_p, by_state, ctx.run("activation_derivative", g=by_squashed, y=ctx.saved["squashed"], function="tanh")

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        by_p, _, by_sum = self._back(ctx)
        if ctx.wants_gradient(self.fc):
            ctx.run("matmul_gradient", x=ctx.inputs[0], g=by_sum, out=ctx.gradient(self.fc))
        if self.bias is not None and ctx.wants_gradient(self.bias):
            ctx.run("bias_gradient", g=by_sum, axis=3, out=ctx.gradient(self.bias))
        if ctx.wants_gradient(self.projection):
            ctx.run("matmul_gradient", x=ctx.saved["squashed"], g=by_p, out=ctx.gradient(self.projection))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        _, by_state, by_sum = self._back(ctx)
        ctx.derivative(0, ctx.run("matmul", a=by_sum, b=self.fc, transpose_b=True))
        if ctx.incoming[0] is not None:
            ctx.derivative(1, ctx.run("matmul", a=ctx.saved["scores"], b=ctx.incoming[0], transpose_a=True))
        ctx.derivative(2, by_state)
