"""cast: values rounded to what another element type can hold."""

from __future__ import annotations

from nntrainer_py.errors import UsageError
from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import dtype
from nntrainer_py.tensor.operations.unary import INTEGERS

_TYPES = ("FP32", "FP16", *INTEGERS)


class Cast(BuiltinLayer):
    """Convert to ``tensor_dtype``: FP16 rounds, integer types cut off the fraction and stay within their range.

    The values are kept as float32, so that every layer can follow; how a tensor is stored is decided elsewhere. The
    derivative passes through the types of floats; it is 0 behind an integer.
    """

    keyword = "cast"

    tensor_dtype = dtype("FP32", doc="Type of the result: FP32, FP16, UINT4, UINT8 or UINT16.")

    def validate(self) -> None:
        if self.tensor_dtype not in _TYPES:
            raise UsageError(f"expected one of {', '.join(_TYPES)}, got '{self.tensor_dtype}'", key="tensor_dtype")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        ctx.output(x)

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        ctx.output(x if self.tensor_dtype == "FP32" else ctx.run("round_to", x=x, type=self.tensor_dtype))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (g,) = ctx.incoming
        ctx.derivative(0, ctx.zeros(ctx.inputs[0].shape) if self.tensor_dtype in INTEGERS else g)
