"""Several threads of a program use one model: each gets its own right results, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import numpy as np
from small_models import classifier, data, weights


def at_once(*functions: Callable[[], None]) -> None:
    """Run all in threads of their own; the first error of any is raised here."""
    errors: list[Exception] = []

    def guarded(function: Callable[[], None]) -> None:
        try:
            function()
        except Exception as error:
            errors.append(error)

    threads = [Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    if errors:
        raise errors[0]


def test_predictions_of_several_threads_are_not_mixed_up() -> None:
    model = classifier()
    inputs = [np.random.default_rng(k).normal(size=(8, 6)).astype(np.float32) for k in range(4)]
    expected = [model.predict(x).tobytes() for x in inputs]
    wrong: list[int] = []

    def predict(k: int) -> None:
        wrong.extend(k for _ in range(200) if model.predict(inputs[k]).tobytes() != expected[k])

    at_once(*(lambda k=k: predict(k) for k in range(4)))
    assert wrong == []


def test_a_model_of_which_no_plan_exists_yet_is_asked_by_many() -> None:
    model, (x, _) = classifier(), data(64)
    shapes: list[tuple[int, ...]] = []
    at_once(*(lambda n=n: shapes.append(model.predict(x[:n], batch_size=64).shape) for n in (3, 3, 3, 17, 17, 40)))
    assert sorted(shape[0] for shape in shapes) == [3, 3, 3, 17, 17, 40]


def test_training_is_not_changed_by_predictions_and_evaluations_beside_it() -> None:
    x, y = data(64)

    def trained(beside: bool) -> tuple[list[float], dict[str, bytes]]:
        model, losses = classifier(), list[float]()

        def train() -> None:
            losses.extend(model.train_on_batch(x[k : k + 8], y[k : k + 8]) for _ in range(20) for k in range(0, 64, 8))

        def predict(count: int) -> None:
            for _ in range(60):
                rows = model.predict(x[:count]).sum(axis=-1)
                assert rows.shape[0] == count
                np.testing.assert_allclose(rows, 1.0, rtol=1e-4)

        def evaluate() -> None:
            for _ in range(20):
                assert np.isfinite(model.evaluate(x, y, batch_size=13)["loss"])

        others = [lambda: predict(3), lambda: predict(40), evaluate] if beside else []
        at_once(train, *others)
        return losses, weights(model)

    assert trained(True) == trained(False)
