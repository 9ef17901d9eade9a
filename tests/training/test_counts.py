"""What counts something is an integer in range, or an error of ours that names it; threads are as many as there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from small_models import classifier, data

from nntrainer_py.errors import UsageError
from nntrainer_py.training.compilation import default_threads

WRONG = (0, -1, 1.5, "8", True)


@pytest.mark.parametrize("value", WRONG)
@pytest.mark.parametrize("name", ["batch_size", "threads", "memory_budget", "micro_batch"])
def test_compile_refuses_what_is_no_count(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"^{name}: expected an integer of at least 1, got"):
        classifier().compile(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"), [("lookahead", -1), ("data_buffers", -1), ("order", "x"), ("planner", ""), ("convolution", "x")]
)
def test_compile_refuses_unknown_words(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"^{name}: expected "):
        classifier().compile(**{name: value})


@pytest.mark.parametrize("value", WRONG)
def test_calls_refuse_a_batch_size_that_is_no_count(value: Any) -> None:
    model, (x, y) = classifier(), data(8)
    for call in (
        model.predict,
        lambda x, **given: model.evaluate(x, y, **given),
        lambda x, **g: model.train(x, y, **g),
    ):
        with pytest.raises(UsageError, match=r"^batch_size: expected an integer of at least 1, got"):
            call(x, batch_size=value)


@pytest.mark.parametrize("value", [-1, 1.5, "3", True])
def test_epochs_are_counted(value: Any) -> None:
    with pytest.raises(UsageError, match=r"^epochs: expected an integer of at least 0, got"):
        classifier().train(*data(8), epochs=value)


def test_numpy_integers_count() -> None:
    model = classifier().compile(np.int64(4), threads=np.int32(1))
    assert model.batch_size == 4
    assert model.predict(data(8)[0], batch_size=np.uint8(3)).shape[0] == 8


def test_more_threads_than_processors_are_those_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    model = classifier().compile(threads=100_000)
    assert model.compiled.options.threads == default_threads()
    assert np.isfinite(model.train_on_batch(*data(8)))
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert classifier().compile(threads=2).compiled.options.threads == 1
