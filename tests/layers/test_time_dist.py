"""time_dist through the harness: all steps contribute, in one batch or one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Case, build, case_id, check

from nntrainer_py.errors import DescriptionError, UsageError
from nntrainer_py.graph.description import load_text
from nntrainer_py.graph.lower import Node, lower
from nntrainer_py.graph.order import arrange
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.batch_normalization import BatchNormalization
from nntrainer_py.layers.centroid_knn import CentroidKNN
from nntrainer_py.layers.dropout import Dropout
from nntrainer_py.layers.embedding import Embedding
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.layer_normalization import LayerNormalization
from nntrainer_py.layers.lstm import Lstm
from nntrainer_py.layers.reshape import Reshape
from nntrainer_py.layers.time_dist import TimeDist
from nntrainer_py.losses.mse import MeanSquaredError

X = [(3, 1, 4, 6)]


class Scaled(Layer):
    """A user's layer: one factor per feature."""

    def finalize(self, ctx: Any) -> None:
        (x,) = ctx.inputs
        ctx.weight("factor", x.replace(batch=1))
        ctx.output(x)

    def forward(self, ctx: Any) -> None:
        ctx.outputs[0][...] = ctx.inputs[0] * ctx.weights["factor"]

    def calc_gradient(self, ctx: Any) -> None:
        ctx.gradients["factor"][...] = (ctx.inputs[0] * ctx.incoming[0]).sum(0, keepdims=True)

    def calc_derivative(self, ctx: Any) -> None:
        ctx.derivatives[0][...] = ctx.incoming[0] * ctx.weights["factor"]


def indices(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 5, shape)


CASES = [
    Case(lambda: TimeDist.wrap(FullyConnected(unit=5)), X, "fully_connected"),
    Case(lambda: TimeDist.wrap(FullyConnected(unit=5, disable_bias=True)), [(1, 1, 1, 3)], "one step, batch 1"),
    Case(lambda: TimeDist.wrap(LayerNormalization(axis="3")), X, "layer_normalization", numeric_tolerance=1e-5),
    Case(lambda: TimeDist.wrap(BatchNormalization()), X, "batch_normalization", numeric_tolerance=1e-5),
    Case(lambda: TimeDist.wrap(Dropout(dropout_rate=0.5)), X, "dropout"),
    Case(lambda: TimeDist.wrap(Lstm(unit=3)), X, "lstm of one step each"),
    Case(lambda: TimeDist.wrap(Lstm(unit=3, dropout_rate=0.3)), X, "lstm with dropout"),
    Case(lambda: TimeDist.wrap(Reshape(target_shape="1:2:3")), X, "two rows of each step"),
    Case(
        lambda: TimeDist.wrap(Embedding(in_dim=5, out_dim=3)), [(2, 1, 3, 2)], "embedding", fill=indices,
        differentiable_inputs=[False],
    ),
    Case(lambda: TimeDist.wrap(Scaled()), X, "a user's layer", tolerance=1e-5),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)


def test_steps_drop_different_elements() -> None:
    case = Case(lambda: TimeDist.wrap(Dropout(dropout_rate=0.5)), [(8, 1, 4, 16)])
    nodes, _ = build(case)
    operations = lower(nodes, batch=8, training=True).operations
    keys = [o.attributes["key"] for o in operations if o.kind.name == "dropout" and not o.phase.backward]
    assert len(set(keys)) == 4


def test_weights_have_the_names_of_the_inner_layer() -> None:
    nodes, layer = build(Case(lambda: TimeDist.wrap(FullyConnected(unit=5)), X))
    lower(nodes, batch=3, training=True)
    assert [weight.key for weight in layer.weights] == ["layer:weight", "layer:bias"]


TEXT = """
[Model]
loss = mse
clip_grad_by_norm = 0.5
[Optimizer]
type = sgd
learning_rate = 0.1
[x]
type = input
input_shape = 1:4:6
[fc]
type = fully_connected
unit = 3
distribute = true
weight_decay = 0.1
activation = relu
[again]
type = fully_connected
unit = 3
distribute = true
weight_decay = 0.1
input_layers = x
shared_from = fc
"""


def test_distribute_in_an_ini() -> None:
    """The key makes the wrapper, with the properties of the layer and of the model, and weights can be shared."""
    graph = arrange(load_text(TEXT), True)
    nodes: dict[str, Node] = {node.name: node for node in graph.nodes}
    assert isinstance(nodes["fc"].layer, TimeDist)
    lowered = lower(graph.nodes, batch=2, training=True)
    (weight, bias) = lowered.weights
    assert (weight.key, weight.decay, weight.clip, bias.decay) == ("fc:weight", 0.1, 0.5, 0.0)
    assert nodes["again"].layer.weights == nodes["fc"].layer.weights


def test_what_cannot_be_wrapped() -> None:
    loss = MeanSquaredError()
    assert TimeDist.wrap(loss) is loss
    with pytest.raises(UsageError, match="takes a label"):
        TimeDist.wrap(CentroidKNN(num_class=2))
    for layer, shape, message in (
        (TimeDist(), (2, 1, 3, 4), "write distribute = true"),
        (TimeDist.wrap(FullyConnected(unit=2)), (2, 3, 3, 4), "1 channel"),
        (TimeDist.wrap(Reshape(target_shape="4:1:1")), (2, 1, 3, 4), "one channel"),
    ):
        nodes, _ = build(Case(lambda layer=layer: layer, [shape]))
        with pytest.raises(DescriptionError, match=message):
            lower(nodes, batch=2, training=True)
