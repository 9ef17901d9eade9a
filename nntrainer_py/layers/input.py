"""input: where data enters the model, with NNTrainer's optional scaling."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import boolean


class Input(BuiltinLayer):
    """A model input; with both options on, normalization comes first."""

    keyword = "input"
    supports_derivative = True

    normalization = boolean(False, doc="(x - min) / (max - min) over the whole batch; 0 when max equals min.")
    standardization = boolean(
        False, doc="Per sample: subtract the mean, divide by ||x - mean|| / features (not a standard deviation)."
    )

    def finalize(self, ctx: FinalizeContext) -> None:
        if len(ctx.inputs) != 1:
            raise ValueError(f"input_shape: expected one shape, got {len(ctx.inputs)}")
        ctx.output(ctx.inputs[0])

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        if self.normalization:
            x = ctx.run("normalize_batch", x=x)
        if self.standardization:
            x = ctx.run("standardize_sample", x=x)
        ctx.output(x)

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        if self.normalization or self.standardization:
            raise ValueError("no derivative passes through normalization or standardization of an input")
        ctx.derivative(0, ctx.incoming[0])
