"""preprocess_flip: samples mirrored at random while training."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import LayerEmitter
from nntrainer_py.properties import enum
from nntrainer_py.tensor.rng import key_of


class PreprocessFlip(BuiltinLayer):
    """Mirror the width, the height, or each of both with probability 1/2 per sample. Inference changes nothing."""

    keyword = "preprocess_flip"
    supports_derivative = False

    flip_direction = enum(
        ("horizontal", "vertical", "horizontal_and_vertical"), "horizontal_and_vertical", doc="What may be mirrored."
    )

    def forward(self, ctx: LayerEmitter) -> None:
        if not ctx.training:
            ctx.output(*ctx.inputs)
            return
        key = key_of(ctx.seed, ctx.emitter.layer)
        across, down = self.flip_direction != "vertical", self.flip_direction != "horizontal"
        for draw, x in enumerate(ctx.inputs):
            ctx.output(ctx.run("flip", x=x, key=key, draw=draw, across=across, down=down))
