"""conv2dtranspose: the transpose of a convolution, as a forward pass."""

from __future__ import annotations

from typing import Any

from nntrainer_py.errors import UsageError
from nntrainer_py.layers.base import WeightLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.layers.window import extent, sides_2d
from nntrainer_py.properties import int_list, padding2d, positive_int
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import Value


class Conv2DTranspose(WeightLayer):
    """Every input cell adds its multiple of the kernel: ``y[o, i*stride + k*dilation - pad] += x[c, i] * w[o, c, k]``.

    Shapes: ``(N, C, H, W)`` to ``(N, filters, H', W')`` with ``H' = (H - 1) * stride + extent - pads``; the padding is
    cut off, ``same`` means what it means for a convolution of the input (with stride 1 the size stays).
    Weights: filter ``(filters, C / groups, kh, kw)``, bias ``(1, filters, 1, 1)``.

    The operations are conv2d's with the roles of input and output exchanged; they want the filter as
    ``(C, filters / groups, kh, kw)``, so a copy is turned round in every step.
    """

    keyword = "conv2dtranspose"

    filters = positive_int(doc="Number of output channels.")
    kernel_size = int_list(doc="Height and width of the kernel.", length=2, sign="positive")
    stride = int_list((1, 1), doc="Steps down and right in the output.", length=2, sign="positive")
    padding = padding2d(doc="valid, same, or the cells cut off on each side.")
    dilation = int_list((1, 1), doc="Distance between kernel cells.", length=2, sign="positive")
    groups = positive_int(1, doc="Groups of channels that do not see each other (not in NNTrainer).")

    def validate(self) -> None:
        if self.filters % self.groups:
            raise UsageError(f"expected a divisor of filters = {self.filters}, got {self.groups}", key="groups")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        if x.channel % self.groups:
            raise ValueError(f"groups: expected a divisor of the {x.channel} input channels, got {self.groups}")
        kernel, stride, dilation = ((p[0], p[1]) for p in (self.kernel_size, self.stride, self.dilation))
        self.sides = sides_2d(self.padding, (x.height, x.width), kernel, stride, dilation)
        size = []
        for axis, cells in enumerate((x.height, x.width)):
            whole, cut = (cells - 1) * stride[axis] + extent(kernel[axis], dilation[axis]), self.sides[2 * axis :][:2]
            if whole <= sum(cut):
                raise ValueError(f"padding: {cut[0]} and {cut[1]} leave nothing of {whole} cells")
            size.append(whole - sum(cut))
        self.kernel, self.channels = kernel, x.channel
        self.filter = ctx.weight("filter", TensorDim(self.filters, x.channel // self.groups, *kernel))
        self.bias = ctx.bias("bias", TensorDim(channel=self.filters))
        ctx.output(TensorDim(x.batch, self.filters, size[0], size[1]))

    def _window(self, ctx: LayerEmitter) -> dict[str, Any]:
        return {
            "stride": tuple(self.stride), "padding": self.sides, "dilation": tuple(self.dilation),
            "groups": self.groups, "algorithm": ctx.convolution,
        }  # fmt: skip

    def _turned(self, ctx: LayerEmitter, w: Value, first: int, second: int) -> Value:
        """``(groups * first, second, kh, kw)`` to ``(groups * second, first, kh, kw)``."""
        seen = ctx.view(w, (self.groups, first, second, self.kernel[0] * self.kernel[1]))
        return ctx.view(ctx.run("permute", x=seen, direction=(2, 1, 3)), (self.groups * second, first, *self.kernel))

    def _transposed(self, ctx: LayerEmitter) -> Value:
        assert self.filter.value is not None
        return self._turned(ctx, self.filter.value, self.filters // self.groups, self.channels // self.groups)

    def forward(self, ctx: LayerEmitter) -> None:
        (x,), size = ctx.inputs, ctx.output_dims[0].shape[2:]
        w = self._transposed(ctx)
        ctx.output(ctx.run("conv2d_derivative", g=x, w=w, bias=self.bias, size=size, **self._window(ctx)))

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        (x,), (g,) = ctx.inputs, ctx.incoming
        if ctx.wants_gradient(self.filter):
            made = ctx.run("conv2d_gradient", x=g, g=x, kernel_size=self.kernel, **self._window(ctx))
            turned = self._turned(ctx, made, self.channels // self.groups, self.filters // self.groups)
            ctx.run("accumulate", x=turned, out=ctx.gradient(self.filter))
        if self.bias is not None and ctx.wants_gradient(self.bias):
            ctx.run("bias_gradient", g=g, axis=1, out=ctx.gradient(self.bias))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        (g,) = ctx.incoming
        ctx.derivative(0, ctx.run("conv2d", x=g, w=self._transposed(ctx), **self._window(ctx)))
