"""pooling2d: the largest or the mean value of every window."""

from __future__ import annotations

from typing import Any

from nntrainer_py.errors import UsageError
from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.layers.window import sides_2d
from nntrainer_py.properties import enum, int_list, padding2d, warn_python
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.pooling import pooled

_GLOBAL = ("global_max", "global_average")


class Pooling2D(BuiltinLayer):
    """Reduce windows of height and width.

    Shapes: ``(N, C, H, W)`` to ``(N, C, H', W')`` with ``H' = floor((H + pads - pool) / stride) + 1``.

    ``max`` takes the largest cell (the derivative goes to the first of equals), ``average`` the mean of the cells that
    lie inside the input (padding is not counted). ``global_max`` (its derivative is shared among all equals) and
    ``global_average`` reduce the whole plane to one cell.
    """

    keyword = "pooling2d"

    pooling = enum(("max", "average", *_GLOBAL), doc="What to take of every window.")
    pool_size = int_list(None, length=2, sign="positive", doc="Height and width of the window; required unless global.")
    stride = int_list((1, 1), length=2, sign="positive", doc="Steps down and right.")
    padding = padding2d(doc="valid, same, or the cells added on each side.")

    def validate(self) -> None:
        if self.pooling not in _GLOBAL:
            if self.pool_size is None:
                raise UsageError(
                    f"required with pooling = {self.pooling}, expected 2 positive integers", key="pool_size"
                )
            return
        if self.stride != (1, 1):
            raise UsageError(f"{self.pooling} takes the whole plane, expected 1,1", key="stride")
        if self.padding != (0, 0, 0, 0):
            raise UsageError(f"{self.pooling} takes the whole plane, expected no padding", key="padding")
        if self.pool_size is not None:
            warn_python(f"pool_size is ignored: {self.pooling} takes the whole plane")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        if self.pool_size is None or self.pooling in _GLOBAL:
            ctx.output(x.replace(height=1, width=1))
            return
        kernel, stride = (self.pool_size[0], self.pool_size[1]), (self.stride[0], self.stride[1])
        sides = sides_2d(self.padding, (x.height, x.width), kernel, stride, (1, 1))
        self.window: dict[str, Any] = {"kernel": kernel, "stride": stride, "padding": sides}
        ctx.output(TensorDim(*pooled(x.shape, self.window)))

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        if self.pooling == "max":
            made = ctx.run("max_pool", x=x, keep=ctx.training, **self.window)
            out, ctx.saved["places"] = made if ctx.training else (made, None)
            ctx.output(out)
        elif self.pooling == "average":
            ctx.output(ctx.run("average_pool", x=x, **self.window))
        elif self.pooling == "global_max":
            ctx.output(ctx.run("global_max", x=x))
        else:
            ctx.output(ctx.run("reduce_sum", x=x, axes=(2, 3), factor=1.0 / (x.shape[2] * x.shape[3])))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (x,), (g,) = ctx.inputs, ctx.incoming
        size = tuple(x.shape[2:])
        if self.pooling == "max":
            places = ctx.saved["places"]
            made = ctx.run("max_pool_derivative", g=g, places=places, size=size, **self.window)
        elif self.pooling == "average":
            made = ctx.run("average_pool_derivative", g=g, size=size, **self.window)
        elif self.pooling == "global_max":
            made = ctx.run("global_max_derivative", x=x, y=ctx.outputs[0], g=g)
        else:
            made = ctx.run("broadcast", x=g, shape=x.shape, factor=1.0 / (size[0] * size[1]))
        ctx.derivative(0, made)
