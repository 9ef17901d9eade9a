"""preprocess_translate: samples shifted at random while training."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import LayerEmitter
from nntrainer_py.properties import number
from nntrainer_py.tensor.rng import key_of


class PreprocessTranslate(BuiltinLayer):
    """Shift each sample by uniform shares of its width and height within ``random_translate`` (its absolute value).

    Bilinear between cells, mirrored at the edges with the edge cell doubled (cba|abc|cba). Inference changes nothing.
    """

    keyword = "preprocess_translate"
    supports_derivative = False

    random_translate = number(doc="Largest shift as a share of the size; the sign does not matter.")

    def forward(self, ctx: LayerEmitter) -> None:
        share = abs(self.random_translate)
        if not ctx.training or share == 0.0:
            ctx.output(*ctx.inputs)
            return
        key = key_of(ctx.seed, ctx.emitter.layer)
        for draw, x in enumerate(ctx.inputs):
            ctx.output(ctx.run("translate", x=x, key=key, draw=draw, share=share))
