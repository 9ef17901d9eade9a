"""nearest_neighbours: the classes of the samples that are nearest (ours; NNTrainer has class means only)."""

from __future__ import annotations

from nntrainer_py.errors import UsageError
from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import positive_int
from nntrainer_py.tensor.dim import TensorDim


class NearestNeighbours(BuiltinLayer):
    """``y[i]`` is the share of class i among the ``neighbours`` stored samples with the smallest Euclidean distance.

    Of equal distances the sample stored first counts; with fewer samples stored, all of them; with none every share is
    0. Training stores samples after the output is computed, with the class where the (one-hot) label is largest. A
    sample that is stored already, number for number and with its class, is not stored again, so that more epochs change
    nothing; when the store is full the oldest one goes. State: samples ``(1, 1, capacity, features)``, classes
    ``(1, 1, 1, capacity)``, stored ``(1, 1, 1, 1)``. No derivative passes to the input.
    """

    keyword = "nearest_neighbours"
    supports_derivative = False
    needs_label = True

    num_class = positive_int(doc="Number of classes.")
    neighbours = positive_int(1, doc="How many stored samples vote.")
    capacity = positive_int(1000, doc="How many samples are stored at most.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        if self.neighbours > self.capacity:
            raise UsageError(f"expected at most the capacity, {self.capacity}, got {self.neighbours}", key="neighbours")
        self.samples = ctx.state("samples", TensorDim(height=self.capacity, width=x.features))
        self.classes = ctx.state("classes", TensorDim(width=self.capacity))
        self.stored = ctx.state("stored", TensorDim())
        ctx.output(TensorDim(x.batch, 1, 1, self.num_class))

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        store = {"samples": self.samples, "classes": self.classes, "stored": self.stored}
        ctx.output(ctx.run("neighbour_votes", x=x, neighbours=self.neighbours, num_class=self.num_class, **store))
        if ctx.training and ctx.labels:
            ctx.run_after_loss("neighbour_store", x=x, label=ctx.labels[0], **store)
