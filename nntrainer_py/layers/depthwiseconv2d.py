"""depthwiseconv2d: a convolution of every channel on its own."""

from __future__ import annotations

from nntrainer_py.layers.context import FinalizeContext
from nntrainer_py.layers.convolving import Convolving
from nntrainer_py.layers.window import output_size, sides_2d
from nntrainer_py.properties import int_list, padding2d, positive_int
from nntrainer_py.tensor.dim import TensorDim


class DepthwiseConv2D(Convolving):
    """conv2d in as many groups as there are channels (declared but not implemented by NNTrainer).

    Shapes: ``(N, C, H, W)`` to ``(N, filters, H', W')``; output ``o`` sees channel ``o // (filters / C)`` alone.
    Weights: filter ``(filters, 1, kh, kw)``, bias ``(1, filters, 1, 1)``.
    """

    keyword = "depthwiseconv2d"

    filters = positive_int(None, doc="Output channels, a multiple of the input's; unset: as many.")
    kernel_size = int_list(doc="Height and width of the kernel.", length=2, sign="positive")
    stride = int_list((1, 1), doc="Steps down and right.", length=2, sign="positive")
    padding = padding2d(doc="valid, same, or the cells added on each side.")
    dilation = int_list((1, 1), doc="Distance between kernel cells.", length=2, sign="positive")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        filters = x.channel if self.filters is None else self.filters
        if filters % x.channel:
            raise ValueError(f"filters: expected a multiple of the {x.channel} input channels, got {filters}")
        self.kernel, self.step, self.spread = (
            (pair[0], pair[1]) for pair in (self.kernel_size, self.stride, self.dilation)
        )
        self.group_count = x.channel
        self.sides = sides_2d(self.padding, (x.height, x.width), self.kernel, self.step, self.spread)
        top, bottom, left, right = self.sides
        height = output_size(x.height, top, bottom, self.kernel[0], self.step[0], self.spread[0], "height")
        width = output_size(x.width, left, right, self.kernel[1], self.step[1], self.spread[1], "width")
        self.filter = ctx.weight("filter", TensorDim(filters, 1, *self.kernel))
        self.bias = ctx.bias("bias", TensorDim(channel=filters))
        ctx.output(TensorDim(x.batch, filters, height, width))
