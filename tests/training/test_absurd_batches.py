"""Batch sizes beyond the machine: harmless where the data is small, a clear error where they would have to be held."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from small_models import classifier, data, weights

from nntrainer_py.errors import PlanError, UsageError


def test_predict_and_evaluate_hold_no_more_than_the_data() -> None:
    model = classifier()
    x, y = data(50)
    np.testing.assert_array_equal(model.predict(x, batch_size=2**40), model.predict(x))
    assert model.evaluate(x, y, batch_size=2**40) == model.evaluate(x, y)


def test_training_holds_no_more_than_the_data() -> None:
    x, y = data(50)
    made = []
    for size in (50, 2**40):
        model = classifier()
        model.train(x, y, epochs=2, batch_size=size)
        made.append((model.compiled.engine.arena.size, weights(model)))
    assert made[0] == made[1]


def test_what_must_be_held_is_refused_before_it_is_taken() -> None:
    model = classifier()
    x, y = data(50)

    def rows() -> Iterator[np.ndarray]:
        yield from x

    with pytest.raises(PlanError, match="batches of 1099511627776 samples take 35184372088832 bytes of memory"):
        model.predict(rows, batch_size=2**40)
    with pytest.raises(PlanError, match="choose a smaller batch size"):
        model.train(zip(x, y, strict=True), batch_size=2**40)
    with pytest.raises(UsageError, match="batch_size"):
        model.predict(x, batch_size=0)
