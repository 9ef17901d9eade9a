"""Batches in pieces: one update for all of them, and only where no layer looks at the whole batch."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import classifier

from nntrainer_py import Model, UsageError
from nntrainer_py.errors import PlanError
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.centroid_knn import CentroidKNN
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input

BATCH, WIDTH = 8, 6


class Plain(Layer):
    """``y = x ** 2``, said to be sample by sample."""

    sample_by_sample = True

    def finalize(self, ctx):
        ctx.output(ctx.inputs[0])

    def forward(self, ctx):
        ctx.outputs[0][...] = ctx.inputs[0] ** 2

    def calc_derivative(self, ctx):
        ctx.derivatives[0][...] = 2 * ctx.inputs[0] * ctx.incoming[0]


class Silent(Plain):
    sample_by_sample = False


class Squares(Layer):
    """A loss: the mean of half the squared differences."""

    is_loss = True
    sample_by_sample = True

    def forward(self, ctx):
        ctx.outputs[0][...] = ctx.inputs[0]
        return np.mean((ctx.inputs[0] - ctx.labels[0]).astype(float) ** 2) / 2 if ctx.labels else 0.0

    def calc_derivative(self, ctx):
        ctx.derivatives[0][...] = (ctx.inputs[0] - ctx.labels[0]) / ctx.inputs[0].size


def model(*layers: Layer | tuple[str, Layer], budget: int | None = None, **settings: object) -> Model:
    all_layers = [Input(input_shape=f"1:1:{WIDTH}"), FullyConnected(unit=5), *layers]
    given = {"batch_size": BATCH, "memory_budget": budget, **settings}
    return Model.build(all_layers, model=given, optimizer="sgd")


def data() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(2)
    return random.normal(size=(BATCH, WIDTH)).astype(np.float32), random.normal(size=(BATCH, 5)).astype(np.float32)


def one_step(made: Model) -> tuple[float, dict[str, np.ndarray]]:
    loss = made.train_on_batch(*data())
    assert int(made.compiled.state.counters[0]) == 1
    return loss, {name: array.copy() for name, array in made.weights().items()}


def same(found: tuple[float, dict[str, np.ndarray]], expected: tuple[float, dict[str, np.ndarray]]) -> None:
    assert found[0] == pytest.approx(expected[0], rel=1e-6)
    for name, array in expected[1].items():
        np.testing.assert_allclose(found[1][name], array, rtol=1e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("size", [1, 3, 8, 20])
def test_pieces_that_were_asked_for_are_one_update(size):
    whole = one_step(model(loss="mse").compile(threads=1))
    same(one_step(model(loss="mse").compile(threads=1, micro_batch=size)), whole)
    same(one_step(model(loss="mse").compile(threads=1, micro_batch=size, accumulate_gradients=False)), whole)


def test_a_users_layer_that_works_sample_by_sample():
    same(
        one_step(model(("own", Plain()), loss="mse").compile(threads=1, micro_batch=3)),
        one_step(model(("own", Plain()), loss="mse").compile(threads=1)),
    )


def test_a_users_loss_is_the_mean_over_all_pieces():
    whole = one_step(model(("own", Squares())).compile(threads=1))
    same(one_step(model(("own", Squares())).compile(threads=1, micro_batch=3)), whole)
    x, y = data()
    accumulated = model(("own", Squares()), batch_size=3, gradient_accumulation=3).compile(threads=1)
    result = accumulated.train(x, y, epochs=1, shuffle=False)
    assert result.step == 1
    same((result.history[0].loss, accumulated.weights()), whole)


@pytest.mark.parametrize("what", ["silent layer", "silent loss", "statistics", "centroids"])
def test_layers_that_look_at_the_whole_batch_are_refused(what):
    reason = "may look at the whole batch; .* sample_by_sample = True"
    if what == "silent layer":
        made = model(("own", Silent()), loss="mse")
    elif what == "silent loss":
        made = model(("own", type("Loss", (Squares,), {"sample_by_sample": False})()))
    elif what == "statistics":
        made, reason = classifier(batch_size=BATCH), "norm looks at the whole batch"
    else:
        layers = [Input(input_shape=f"1:1:{WIDTH}"), ("own", CentroidKNN(num_class=3))]
        made, reason = Model.build(layers, model={"batch_size": BATCH}), "own looks at the whole batch"
    made.compile(threads=1, micro_batch=3)
    x, y = data()
    with pytest.raises(UsageError, match=f"micro_batch: batches cannot be computed in pieces: .*{reason}"):
        made.train_on_batch(x, y if what.startswith("silent") else np.arange(BATCH) % 3)


def test_a_budget_does_not_split_what_may_look_at_the_whole_batch():
    with pytest.raises(PlanError, match="micro_batches cannot help: own may look at the whole batch"):
        model(("own", Silent()), loss="mse", budget=600, micro_batches=True).compile(threads=1).train_on_batch(*data())
