"""conv2d: two-dimensional cross-correlation."""

from __future__ import annotations

from typing import Any

from nntrainer_py.errors import UsageError
from nntrainer_py.layers.base import WeightLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.layers.window import output_size, sides_2d
from nntrainer_py.properties import int_list, padding2d, positive_int
from nntrainer_py.tensor.dim import TensorDim


class Conv2D(WeightLayer):
    """Slide ``filters`` kernels over height and width.

    ``y[o, i] = bias[o] + sum over c, k of x[c, i * stride + k * dilation - pad] * w[o, c, k]``.

    Shapes: ``(N, C, H, W)`` to ``(N, filters, H', W')`` with ``H' = floor((H + pads - extent) / stride) + 1``.
    Weights: filter ``(filters, C / groups, kh, kw)``, bias ``(1, filters, 1, 1)``.
    """

    keyword = "conv2d"

    filters = positive_int(doc="Number of output channels.")
    kernel_size = int_list(doc="Height and width of the kernel.", length=2, sign="positive")
    stride = int_list((1, 1), doc="Steps down and right.", length=2, sign="positive")
    padding = padding2d(doc="valid, same, or the cells added on each side.")
    dilation = int_list((1, 1), doc="Distance between kernel cells.", length=2, sign="positive")
    groups = positive_int(1, doc="Groups of channels that do not see each other (not in NNTrainer).")

    def validate(self) -> None:
        if self.filters % self.groups:
            raise UsageError(f"expected a divisor of filters = {self.filters}, got {self.groups}", key="groups")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        (kh, kw), (sh, sw), (dh, dw) = self.kernel_size, self.stride, self.dilation
        if x.channel % self.groups:
            raise ValueError(f"groups: expected a divisor of the {x.channel} input channels, got {self.groups}")
        self.sides = sides_2d(self.padding, (x.height, x.width), (kh, kw), (sh, sw), (dh, dw))
        top, bottom, left, right = self.sides
        height = output_size(x.height, top, bottom, kh, sh, dh, "height")
        width = output_size(x.width, left, right, kw, sw, dw, "width")
        self.filter = ctx.weight("filter", TensorDim(self.filters, x.channel // self.groups, kh, kw))
        self.bias = ctx.bias("bias", TensorDim(channel=self.filters))
        ctx.output(TensorDim(x.batch, self.filters, height, width))

    def _attributes(self, ctx: LayerEmitter) -> dict[str, Any]:
        return {
            "stride": tuple(self.stride),
            "padding": tuple(self.sides),
            "dilation": tuple(self.dilation),
            "groups": self.groups,
            "algorithm": ctx.convolution,
        }

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        ctx.output(ctx.run("conv2d", x=x, w=self.filter, bias=self.bias, **self._attributes(ctx)))

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        (x,), (g,) = ctx.inputs, ctx.incoming
        if ctx.wants_gradient(self.filter):
            ctx.run(
                "conv2d_gradient", x=x, g=g, kernel_size=tuple(self.kernel_size), out=ctx.gradient(self.filter),
                **self._attributes(ctx),
            )  # fmt: skip
        if self.bias is not None and ctx.wants_gradient(self.bias):
            ctx.run("bias_gradient", g=g, axis=1, out=ctx.gradient(self.bias))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (x,), (g,) = ctx.inputs, ctx.incoming
        ctx.derivative(
            0,
            ctx.run("conv2d_derivative", g=g, w=self.filter, size=tuple(x.shape[2:]), **self._attributes(ctx)),
        )
