"""The base class of losses: a layer that takes a label and adds to the loss of the model."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import LayerEmitter


class Loss(BuiltinLayer):
    """Base of every loss.

    ``forward`` emits the loss operation (which writes a float64 scalar, declared with ``ctx.loss``) and declares the
    output that it passes on. In inference ``ctx.labels`` may be empty: then only the output is emitted.
    ``calc_derivative`` starts the way back.
    """

    is_loss = True

    def forward(self, ctx: LayerEmitter) -> None:
        raise NotImplementedError(f"{type(self).__name__}.forward")
