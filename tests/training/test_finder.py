"""The learning-rate finder."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import classifier, data, weights

from nntrainer_py.errors import UsageError
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.training.finder import find_learning_rate


def test_finds_a_rate_that_learns_and_changes_nothing():
    model = classifier(optimizer="sgd", dropout=0.0)
    model.train_on_batch(*data(8))
    before, step = weights(model), int(model.compiled.state.counters[StepState.STEP])
    found = find_learning_rate(model, *data(64), steps=80)
    assert weights(model) == before
    assert int(model.compiled.state.counters[StepState.STEP]) == step
    ratios = np.array(found.rates[1:]) / np.array(found.rates[:-1])
    np.testing.assert_allclose(ratios, ratios[0])
    assert found.rates[0] == 1e-7
    assert found.rates[0] < found.suggestion < found.rates[-1]
    assert len(found.losses) == len(found.smoothed) == len(found.rates) <= 80
    assert found.smoothed[0] == pytest.approx(found.losses[0])

    def after(rate):
        from nntrainer_py.optimizers.sgd import Sgd

        learner = classifier(optimizer=Sgd(learning_rate=rate), dropout=0.0)
        return learner.train(*data(64), epochs=5).history[-1].loss

    assert after(found.suggestion) < after(found.suggestion / 1000)


def test_what_makes_no_search():
    model = classifier()
    for options in ({"lowest": 0.0}, {"lowest": 1.0, "highest": 0.1}, {"highest": float("inf")}, {"steps": 3}):
        with pytest.raises(UsageError, match="expected"):
            find_learning_rate(model, *data(16), **options)
