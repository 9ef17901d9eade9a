"""centroid_knn: distance to the mean of every class seen so far."""

from __future__ import annotations

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import positive_int
from nntrainer_py.tensor.dim import TensorDim


class CentroidKNN(BuiltinLayer):
    """``y[i] = -||x - mean_i||`` for every class i, or the smallest normal float32 when the class has no samples.

    Training moves the class means after the output is computed, ``mean = (mean * n + x) / (n + 1)``, sample by sample
    for the class of the (one-hot) label. State: map ``(1, 1, num_class, features)``, num_samples
    ``(1, 1, 1, num_class)``. No derivative passes to the input.
    """

    keyword = "centroid_knn"
    supports_derivative = False
    needs_label = True

    num_class = positive_int(doc="Number of classes.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        self.map = ctx.state("map", TensorDim(height=self.num_class, width=x.features))
        self.num_samples = ctx.state("num_samples", TensorDim(width=self.num_class))
        ctx.output(TensorDim(x.batch, 1, 1, self.num_class))

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        ctx.output(ctx.run("centroid_distance", x=x, map=self.map, num_samples=self.num_samples))
        if ctx.training and ctx.labels:
            ctx.run_after_loss("centroid_update", x=x, label=ctx.labels[0], map=self.map, num_samples=self.num_samples)
