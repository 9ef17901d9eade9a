"""tensor: a named constant or state as the output of a layer without inputs."""

from __future__ import annotations

from nntrainer_py.errors import UsageError
from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import dtype, enum, name, shape
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.initializers import INITIALIZERS


class Tensor(BuiltinLayer):
    """A tensor of shape ``dim`` and a batch of 1 that is saved with the weights and never trained.

    It starts as ``initializer`` says, and a program may set it like any weight.
    """

    keyword = "tensor"
    supports_derivative = False

    dim = shape(doc="Shape c:h:w of the tensor.")
    tensor_dtype = dtype("FP32", doc="Element type; FP32.")
    tensor_name = name("tensor", doc="Name of the tensor.")
    initializer = enum(tuple(INITIALIZERS), "zeros", doc="Initial values.")

    def validate(self) -> None:
        if self.tensor_dtype != "FP32":
            raise UsageError(f"expected FP32, got '{self.tensor_dtype}'", key="tensor_dtype")

    def finalize(self, ctx: FinalizeContext) -> None:
        if ctx.inputs:
            raise ValueError(f"expected no input, got {len(ctx.inputs)}")
        self.tensor = ctx.state(self.tensor_name, TensorDim(*self.dim).replace(batch=1), self.initializer)
        ctx.output(self.tensor.dim)

    def forward(self, ctx: LayerEmitter) -> None:
        assert self.tensor.value is not None
        ctx.output(self.tensor.value)
