"""matmul: the matrix product of two inputs."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.layers.elementwise import broadcast_shape, summed_to
from nntrainer_py.properties import boolean, enum
from nntrainer_py.tensor.operations.record import Value


class Matmul(BuiltinLayer):
    """``y = a @ b`` on the last two axes, for every sample and channel; derivatives ``g @ b^T`` and ``a^T @ g``.

    Shapes: ``(N, C, H, K)`` and ``(N, C, K, W)`` to ``(N, C, H, W)``. A batch or channel axis of size 1 is repeated.
    """

    keyword = "matmul"

    inplace = boolean(None, doc="Accepted as NNTrainer does; a product is never computed in place.")
    inplace_direction = enum(("left", "right"), None, doc="Accepted as NNTrainer does.")
    print = boolean(False, doc="Accepted as NNTrainer does; the layer table is always printed by --check.")

    def finalize(self, ctx: FinalizeContext) -> None:
        if len(ctx.inputs) != 2:
            raise ValueError(f"expected two inputs, got {len(ctx.inputs)}")
        a, b = ctx.inputs
        if a.width != b.height:
            raise ValueError(f"inputs {a} and {b}: the width {a.width} of the first must be the height of the second")
        stack = broadcast_shape(a.replace(height=1, width=1), b.replace(height=1, width=1))
        ctx.output(stack.replace(height=a.height, width=b.width))

    def _repeated(self, ctx: LayerEmitter, value: Value, *, single: bool = False) -> Value:
        """``value`` with the batch and channels of the output; as it is when ``single`` and only one matrix."""
        stack = ctx.output_dims[0].shape[:2]
        if value.shape[:2] == stack or (single and value.shape[:2] == (1, 1)):
            return value
        made: Value = ctx.run("broadcast", x=value, shape=(*stack, *value.shape[2:]))
        return made

    def forward(self, ctx: LayerEmitter) -> None:
        a, b = self._repeated(ctx, ctx.inputs[0]), self._repeated(ctx, ctx.inputs[1], single=True)
        ctx.output(ctx.run("matmul", a=a, b=b))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (a, b), (g,) = ctx.inputs, ctx.incoming
        if g is None:
            return
        if ctx.derivative_wanted[0]:
            other = self._repeated(ctx, b, single=True)
            ctx.derivative(0, summed_to(ctx, ctx.run("matmul", a=g, b=other, transpose_b=True), a.shape))
        if not ctx.derivative_wanted[1]:
            return
        left = self._repeated(ctx, a)
        # One matrix for all: its derivative is the sum over all. Of a single sample it cannot be told from the sample's
        # own, which must be computed as in a larger batch.
        if b.shape[:2] == (1, 1) and g.shape[0] > 1:
            ctx.derivative(1, ctx.run("matmul_gradient", x=left, g=g))
        else:
            ctx.derivative(1, summed_to(ctx, ctx.run("matmul", a=left, b=g, transpose_a=True), b.shape))
