"""conv1d: cross-correlation along the width."""

from __future__ import annotations

from nntrainer_py.errors import UsageError
from nntrainer_py.layers.context import FinalizeContext
from nntrainer_py.layers.convolving import Convolving
from nntrainer_py.layers.window import output_size, sides_1d
from nntrainer_py.properties import padding1d, positive_int
from nntrainer_py.tensor.dim import TensorDim


class Conv1D(Convolving):
    """Slide kernels along the width: ``y[o, t] = bias[o] + sum x[c, t*stride + k*dilation - pad] * w[o, c, k]``.

    Shapes: ``(N, C, 1, W)`` to ``(N, filters, 1, W')`` with ``W' = floor((W + pads - extent) / stride) + 1``.
    Weights: filter ``(filters, C / groups, 1, k)``, bias ``(1, filters, 1, 1)``.
    """

    keyword = "conv1d"

    filters = positive_int(doc="Number of output channels.")
    kernel_size = positive_int(doc="Width of the kernel.")
    stride = positive_int(1, doc="Steps to the right.")
    padding = padding1d(doc="valid, same, causal, or the cells added left and right.")
    dilation = positive_int(1, doc="Distance between kernel cells.")
    groups = positive_int(1, doc="Groups of channels that do not see each other (not in NNTrainer).")

    def validate(self) -> None:
        if self.filters % self.groups:
            raise UsageError(f"expected a divisor of filters = {self.filters}, got {self.groups}", key="groups")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        if x.height != 1:
            raise ValueError(f"input_shape: expected a height of 1 (channels and width), got {x}")
        if x.channel % self.groups:
            raise ValueError(f"groups: expected a divisor of the {x.channel} input channels, got {self.groups}")
        self.kernel, self.step, self.spread = (1, self.kernel_size), (1, self.stride), (1, self.dilation)
        left, right = sides_1d(self.padding, x.width, self.kernel_size, self.stride, self.dilation)
        self.sides, self.group_count = (0, 0, left, right), self.groups
        width = output_size(x.width, left, right, self.kernel_size, self.stride, self.dilation, "width")
        self.filter = ctx.weight("filter", TensorDim(self.filters, x.channel // self.groups, *self.kernel))
        self.bias = ctx.bias("bias", TensorDim(channel=self.filters))
        ctx.output(TensorDim(x.batch, self.filters, 1, width))
