"""channel_shuffle: channels of several groups interleaved."""

from __future__ import annotations

from nntrainer_py.layers.base import WeightLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import positive_int
from nntrainer_py.tensor.operations.record import Value


class ChannelShuffle(WeightLayer):
    """View the channels as ``(g, C / g)`` and transpose them to ``(C / g, g)`` (Zhang et al., "ShuffleNet", 2017).

    Takes the properties of a layer with weights, as NNTrainer's does, and has none.
    """

    keyword = "channel_shuffle"

    split_number = positive_int(doc="Groups g: more than 1, fewer than the channels, dividing them.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        groups = self.split_number
        if not 1 < groups < x.channel or x.channel % groups:
            raise ValueError(
                f"split_number: expected a divisor of the {x.channel} channels between 1 and {x.channel}, got {groups}"
            )
        ctx.output(x)

    def _shuffled(self, ctx: LayerEmitter, value: Value, groups: int) -> Value:
        batch, channels, height, width = value.shape
        seen = ctx.view(value, (batch, groups, channels // groups, height * width))
        return ctx.view(ctx.run("permute", x=seen, direction=(2, 1, 3)), value.shape)

    def forward(self, ctx: LayerEmitter) -> None:
        ctx.output(self._shuffled(ctx, ctx.inputs[0], self.split_number))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (g,) = ctx.incoming
        if g is not None:
            ctx.derivative(0, self._shuffled(ctx, g, g.shape[1] // self.split_number))
