"""State that training moves is moved once the loss is known to be finite: a failed batch needs nothing put back."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from small_models import FEATURES, classifier, data, weights

from nntrainer_py import DataError, Model, NumericalError
from nntrainer_py.layers.batch_normalization import BatchNormalization
from nntrainer_py.layers.centroid_knn import CentroidKNN
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.layers.nearest_neighbours import NearestNeighbours
from nntrainer_py.tensor.operations.record import Phase, Role

LEARNERS = [CentroidKNN(num_class=3), NearestNeighbours(num_class=3, capacity=20)]


def learner(layer: CentroidKNN | NearestNeighbours) -> Model:
    layers = [Input(input_shape=f"1:1:{FEATURES}"), ("learner", layer)]
    return Model.build(layers, model={"batch_size": 8}).compile(threads=1)


def test_state_moves_behind_the_forward_pass():
    """No operation of the forward pass of a training step writes anything that outlives the step."""
    for model in (classifier(), *map(learner, LEARNERS)):
        operations = model.lowered("train").operations
        moved = [o for o in operations if any(v.root.role is Role.STATE for v in o.writes.values())]
        assert moved
        assert {o.phase for o in moved} == {Phase.STATE}
        first = operations.index(moved[0])
        assert all(o.phase.backward for o in operations[first:])
        assert not any(o.phase.backward for o in operations[:first])


def test_a_label_out_of_range_moves_no_statistics():
    model = classifier()
    x, y = data(8)
    model.train_on_batch(x, y)
    before = weights(model)
    labels = np.eye(3, dtype=np.float32)[y]
    labels[5] = 0.7
    with pytest.raises(DataError):
        model.train_on_batch(x, labels)
    x[2] = np.inf
    with pytest.raises(NumericalError):
        model.train_on_batch(x, y)
    assert weights(model) == before


@pytest.mark.parametrize("layer", LEARNERS, ids=lambda layer: layer.keyword)
def test_layers_that_learn_from_labels_alone_move_every_batch(layer):
    model = learner(layer)
    x, y = data(16)
    before = weights(model)
    model.train_on_batch(x[:8], y[:8])
    once = weights(model)
    model.train_on_batch(x[8:], y[8:])
    assert len({str(before), str(once), str(weights(model))}) == 3


def test_statistics_move_with_every_batch_of_an_accumulated_one():
    """``running = momentum * running + (1 - momentum) * batch`` twice for two batches, whose one update is later."""
    x = np.random.default_rng(0).normal(size=(12, 5)).astype(np.float32)
    layers = [Input(input_shape="1:1:5"), ("norm", BatchNormalization(momentum=0.75)), FullyConnected(unit=1)]
    model = Model.build(
        layers, model={"loss": "mse", "batch_size": 6, "gradient_accumulation": 2}, optimizer="sgd"
    ).compile(threads=1)
    result = model.train(x, np.zeros((12, 1), np.float32), epochs=1, shuffle=False)
    assert result.step == 1
    mean = 0.75 * (0.25 * x[:6].astype(float).mean(axis=0)) + 0.25 * x[6:].astype(float).mean(axis=0)
    np.testing.assert_allclose(model.weights()["norm:moving_mean"].reshape(-1), mean, rtol=1e-5, atol=1e-7)


def test_a_step_keeps_no_copy_of_the_statistics():
    width = 300_000
    layers = [Input(input_shape=f"1:1:{width}"), BatchNormalization(), FullyConnected(unit=1)]
    model = Model.build(layers, model={"loss": "mse", "batch_size": 2}, optimizer="sgd").compile(threads=1)
    x, y = np.ones((2, 1, 1, width), np.float32), np.zeros((2, 1, 1, 1), np.float32)
    model.compiled.program("train", 2)
    labels = [np.asarray(y)]
    from nntrainer_py.data.loader import Batch
    from nntrainer_py.training.stepper import Stepper

    tracemalloc.start()
    try:
        stepper = Stepper(model.compiled, model.learning_rate, 2)
        stepper.step(Batch([x], labels, 2, np.arange(2)))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * width
