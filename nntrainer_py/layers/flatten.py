"""flatten: collapse axes into one; no memory is moved."""

from __future__ import annotations

import math

from nntrainer_py.errors import UsageError
from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import integer, shape
from nntrainer_py.tensor.dim import TensorDim


class Flatten(BuiltinLayer):
    """Axes ``start_dimension`` to ``end_dimension`` become the last of them, the others 1: ``c:h:w`` to ``1:1:chw``."""

    keyword = "flatten"

    start_dimension = integer(1, minimum=1, maximum=3, doc="First axis to collapse.")
    end_dimension = integer(3, minimum=1, maximum=3, doc="Last axis to collapse.")
    target_shape = shape(None, doc="Written by NNTrainer's own save; must agree with the shape computed here.")

    def validate(self) -> None:
        if self.start_dimension > self.end_dimension:
            raise UsageError(
                f"expected at most end_dimension = {self.end_dimension}, got {self.start_dimension}",
                key="start_dimension",
            )

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        sizes = list(x.shape)
        first, last = self.start_dimension, self.end_dimension
        collapsed = math.prod(sizes[first : last + 1])
        sizes[first:last] = [1] * (last - first)
        sizes[last] = collapsed
        out = TensorDim(*sizes)
        if self.target_shape is not None and tuple(self.target_shape)[1:] != out.shape[1:]:
            raise ValueError(f"target_shape: expected {out}, got {TensorDim(*self.target_shape)}")
        ctx.output(out)

    def forward(self, ctx: LayerEmitter) -> None:
        ctx.output(ctx.view(ctx.inputs[0], ctx.output_dims[0].shape))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        g = ctx.incoming[0]
        ctx.derivative(0, None if g is None else ctx.view(g, ctx.inputs[0].shape))
