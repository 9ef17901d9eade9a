"""weight: a trained tensor as the output of a layer without inputs."""

from __future__ import annotations

from nntrainer_py.errors import UsageError
from nntrainer_py.layers.base import WeightLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import dtype, name, shape
from nntrainer_py.tensor.dim import TensorDim


class Weight(WeightLayer):
    """The output is the weight itself, of shape ``dim`` and a batch of 1; its gradient is the incoming derivative."""

    keyword = "weight"
    supports_derivative = False

    dim = shape(doc="Shape c:h:w of the weight.")
    tensor_dtype = dtype("FP32", doc="Element type; FP32.")
    weight_name = name(doc="Name of the weight.")

    def validate(self) -> None:
        if self.tensor_dtype != "FP32":
            raise UsageError(f"expected FP32, got '{self.tensor_dtype}'", key="tensor_dtype")

    def finalize(self, ctx: FinalizeContext) -> None:
        if ctx.inputs:
            raise ValueError(f"expected no input, got {len(ctx.inputs)}")
        self.weight = ctx.weight(self.weight_name, TensorDim(*self.dim).replace(batch=1))
        ctx.output(self.weight.dim)

    def forward(self, ctx: LayerEmitter) -> None:
        assert self.weight.value is not None
        ctx.output(self.weight.value)

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        (g,) = ctx.incoming
        if g is not None and ctx.wants_gradient(self.weight):
            ctx.run("accumulate", x=g, out=ctx.gradient(self.weight))
