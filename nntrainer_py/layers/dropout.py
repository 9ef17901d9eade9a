"""dropout: zero a share of the elements while training."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import LayerEmitter
from nntrainer_py.properties import number
from nntrainer_py.tensor.operations.record import Value
from nntrainer_py.tensor.rng import key_of


class Dropout(BuiltinLayer):
    """Zero each element with probability ``dropout_rate`` and multiply the kept ones by ``1 / (1 - rate)``.

    Active in training and above a rate of 0.001, as in NNTrainer. Any number of inputs, each with a mask of its own.
    """

    keyword = "dropout"

    dropout_rate = number(0.0, minimum=0.0, maximum=1.0, aliases=("dropout",), doc="Share of elements set to zero.")

    def _drop(self, ctx: LayerEmitter, x: Value, index: int) -> Value:
        if not ctx.training or self.dropout_rate <= 1e-3:
            return x
        key = key_of(ctx.seed, ctx.emitter.layer)
        made: Value = ctx.run("dropout", x=x, rate=self.dropout_rate, key=key, draw=index)
        return made

    def forward(self, ctx: LayerEmitter) -> None:
        ctx.output(*(self._drop(ctx, x, index) for index, x in enumerate(ctx.inputs)))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        for index, g in enumerate(ctx.incoming):
            ctx.derivative(index, None if g is None else self._drop(ctx, g, index))
