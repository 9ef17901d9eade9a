"""Micro-batches: within the budget, and the numbers of the whole batch up to rounding."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import FEATURES, Recorder, classifier, data, weights

from nntrainer_py import Model
from nntrainer_py.data.arrays import ArrayDataset
from nntrainer_py.data.loader import BatchLoader
from nntrainer_py.errors import DataError, NumericalError, PlanError
from nntrainer_py.layers.dropout import Dropout
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.training.micro_batches import pieces

BATCH = 64


def model(budget: int | None = None, **settings: object) -> Model:
    """Wide layers, so that a batch is most of the memory."""
    layers = [
        Input(input_shape=f"1:1:{FEATURES}"),
        FullyConnected(unit=64, activation="tanh"),
        Dropout(dropout_rate=0.2),
        FullyConnected(unit=64, activation="tanh"),
        ("out", FullyConnected(unit=3, activation="softmax")),
    ]
    given = {"loss": "cross", "batch_size": BATCH, "memory_budget": budget, "micro_batches": True, **settings}
    return Model.build(layers, model=given, optimizer="sgd").compile(threads=1, swap=False, recompute=False)


def budget_of(size: int, reading: int = 2 * BATCH * 4 * (FEATURES + 3 + 2)) -> int:
    """What batches of this size need when their gradients are kept, and what reading the data takes."""
    options = {"threads": 1, "swap": False, "recompute": False, "accumulate_gradients": True}
    free = model(micro_batches=False).compile(**options, memory_budget=1 << 30, data_buffers=0)
    return free.compiled.memory("train", size).report.total + reading


def reading(samples: int, *, shuffled: bool) -> int:
    """Two batches with their numbers; what gathers rows and makes labels of classes; the drawing of an order."""
    return BATCH * (2 * (4 * (FEATURES + 3) + 8) + (4 + 8 + 8)) + shuffled * (BATCH * (4 * FEATURES + 8) + 20 * samples)


@pytest.mark.parametrize("size", [32, 8])
def test_a_batch_in_pieces(size):
    least = budget_of(size, reading(150, shuffled=True) + reading(70, shuffled=False))
    tight = model(least)
    assert model(1 << 30).compiled.options.micro_batch is None
    wide = model()
    x, y = data(150)
    one, many = Recorder(), Recorder()
    wide.train(x, y, valid=data(70, 1), epochs=2, callbacks=[one])
    tight.train(x, y, valid=data(70, 1), epochs=2, callbacks=[many])
    assert tight.compiled.options.micro_batch == size
    small = model(least - 1)
    if size > 1:
        small.train(x, y, valid=data(70, 1), epochs=1)
        assert small.compiled.options.micro_batch == size // 2
    assert [(b.step, b.samples) for b in many.batches] == [(b.step, b.samples) for b in one.batches]
    assert many.calls == one.calls
    np.testing.assert_allclose([b.loss for b in many.batches], [b.loss for b in one.batches], rtol=1e-5)
    for name, array in wide.weights().items():
        np.testing.assert_allclose(tight.weights()[name], array, rtol=1e-5, atol=1e-6, err_msg=name)
    assert tight.evaluate(x, y)["loss"] == pytest.approx(wide.evaluate(x, y)["loss"], rel=1e-5)
    np.testing.assert_allclose(tight.predict(x), wide.predict(x), rtol=1e-4, atol=1e-6)


def test_refused_where_a_layer_looks_at_the_whole_batch():
    with pytest.raises(PlanError, match="micro_batches cannot help: norm looks at the whole batch"):
        classifier(batch_size=BATCH, memory_budget=5000, micro_batches=True)
    with pytest.raises(PlanError, match="nothing fits a memory budget"):
        model(5000)


def test_faults_in_a_later_piece_are_told_of_the_right_sample():
    tight = model(budget_of(8, reading(60, shuffled=False)))
    x, y = data(60)
    before = weights(tight)
    bad = x.copy()
    bad[41] = np.nan
    with pytest.raises(NumericalError, match="sample 41 has a value that is not finite"):
        tight.train(bad, y, shuffle=False)
    assert weights(tight) == before
    one_hot = np.eye(3, dtype=np.float32)[y]
    one_hot[41] = 0.7
    with pytest.raises(DataError, match="sample 41"):
        tight.train(x, one_hot, shuffle=False)
    assert weights(tight) == before
    assert np.isfinite(tight.train_on_batch(x, y))  # no gradient of the failed batch is left
    fresh = model(budget_of(8, reading(60, shuffled=False)))
    fresh.train_on_batch(x, y)
    assert weights(fresh) == weights(tight)


def test_pieces():
    dataset = ArrayDataset(np.arange(11.0).reshape(11, 1), np.arange(11))
    dataset.bind([(1, 1, 1)], [(1, 1, 1)])
    found = [list(pieces(batch, 3)) for batch in BatchLoader(dataset, 8)]
    assert [[piece.count for piece in batch] for batch in found] == [[3, 3, 2], [3]]
    assert [len(list(pieces(batch, None))) for batch in BatchLoader(dataset, 8)] == [1, 1]
