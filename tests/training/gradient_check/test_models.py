"""The check of whole models: every layer with the inputs that reach it, then all together; the model is only read."""

from __future__ import annotations

import copy
import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import write_problem
from keyword_rows import LAYER_ROWS
from random_graphs import described, random_net
from small_models import classifier, data, regressor, weights

from nntrainer_py import DataError, Layer, Model, UsageError, register_layer
from nntrainer_py.errors import PlanError
from nntrainer_py.layers.batch_normalization import BatchNormalization
from nntrainer_py.layers.concat import Concat
from nntrainer_py.layers.context import FinalizeContext, RunContext
from nntrainer_py.layers.dropout import Dropout
from nntrainer_py.layers.embedding import Embedding
from nntrainer_py.layers.flatten import Flatten
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.registry import LAYERS
from nntrainer_py.training.engine import persistent
from nntrainer_py.training.gradient_check import GradientReport, Verdict, check_gradients


def everything(model: Model) -> dict[str, bytes]:
    """Weights, statistics, optimizer state, counters, and what hangs on the model."""
    arrays = model.compiled.engine.store.arrays
    found = {value.name: arrays[value.name].tobytes() for value in persistent(model.lowered("train"))}
    found["counters"] = model.compiled.state.counters.tobytes()
    found["numbers"] = model.compiled.state.numbers.tobytes()
    found["rest"] = repr((model.epoch, model.normalization, model.class_names, model.feature_names)).encode()
    return found


def verdicts(report: GradientReport) -> set[Verdict]:
    return {row.verdict for row in report}


def test_a_trained_model_passes_and_is_bit_identical_after() -> None:
    x, y = data(40)
    model, twin = classifier(), classifier()
    for one in (model, twin):
        one.train(x, y, epochs=2)
    before, generators = everything(model), (np.random.get_state()[1].tobytes(), random.getstate())  # type: ignore[union-attr, index]
    report = check_gradients(model, x, y)
    assert report.ok, str(report)
    assert not report.of(Verdict.UNCLEAR), str(report)
    assert everything(model) == before
    assert (np.random.get_state()[1].tobytes(), random.getstate()) == generators  # type: ignore[union-attr, index]
    # what follows is what would have followed
    for one in (model, twin):
        one.train_on_batch(x[:8], y[:8])
    assert everything(model) == everything(twin)
    layers = [row.layer for row in report]
    for name in ("hidden", "norm", "act", "drop", "out", "whole model"):
        assert name in layers
    assert {row.tensor for row in report if row.layer == "whole model"} == set(model.weights()) - {
        "norm:moving_mean", "norm:moving_variance",
    }  # fmt: skip


def test_a_model_that_nobody_trained_starts_as_it_would_have() -> None:
    x, y = data(24)
    model, twin = classifier(), classifier()
    assert check_gradients(model, x, y).ok
    for one in (model, twin):
        one.train(x, y, epochs=1)
    assert everything(model) == everything(twin)


class Doubled(Layer):
    """A weight that starts as ones: only the check's own shift of it shows that its factor is missing."""

    keyword = "doubled"
    trained: bool = True

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        ctx.weight("scale", x.replace(batch=1), "ones")
        self.calls: list[int] = []
        ctx.output(x)

    def forward(self, ctx: RunContext) -> None:
        self.calls.append(1)
        np.multiply(ctx.inputs[0], ctx.weights["scale"], out=ctx.outputs[0])

    def calc_gradient(self, ctx: RunContext) -> None:
        np.sum(ctx.incoming[0] * ctx.inputs[0], axis=0, keepdims=True, out=ctx.gradients["scale"])

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = ctx.incoming[0]


@pytest.fixture
def doubled() -> Any:
    register_layer("doubled")(Doubled)
    yield Doubled
    LAYERS.unregister("doubled")


def with_users(layer: Layer, **settings: Any) -> Model:
    layers = [Input(input_shape="1:1:6"), ("before", FullyConnected(unit=5)), ("mine", layer), FullyConnected(unit=2)]
    return Model.build(layers, model={"loss": "mse", "batch_size": 8, **settings}, optimizer="adam")


def test_only_the_layer_that_is_wrong_is_named(doubled: type[Layer]) -> None:
    model = with_users(doubled())
    made = next(spec.layer for spec in model.spec.layers if spec.name == "mine")
    report = check_gradients(model, *regression())
    (row,) = report.failed
    assert (row.layer, row.keyword, row.tensor) == ("mine", "doubled", "input 0")
    assert "Doubled.calc_derivative" in row.place
    assert report.notes == ("the whole model was not checked: it cannot be right while a layer is wrong",)
    assert "whole model" not in [one.layer for one in report]
    assert not getattr(made, "calls", [])  # the model's own object was never run


def regression() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(16, 6)).astype(np.float32), rng.normal(size=(16, 2)).astype(np.float32)


def test_layers_can_be_chosen(doubled: type[Layer]) -> None:
    model = with_users(doubled())
    report = check_gradients(model, *regression(), layers=["before"])
    assert report.ok
    assert {row.layer for row in report} == {"before"}
    with pytest.raises(UsageError, match="did you mean 'mine'"):
        check_gradients(model, *regression(), layers=["mines"])


class Keeping(Doubled):
    """Right when it is used once; used twice, the second use overwrites what the first one kept."""

    kept: dict[str, Any] = {}  # noqa: RUF012 - the mistake: one for all objects

    def forward(self, ctx: RunContext) -> None:
        self.kept["x"] = ctx.inputs[0].copy()
        np.multiply(ctx.inputs[0], ctx.weights["scale"], out=ctx.outputs[0])

    def calc_gradient(self, ctx: RunContext) -> None:
        np.sum(ctx.incoming[0] * self.kept["x"], axis=0, keepdims=True, out=ctx.gradients["scale"])

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = ctx.incoming[0] * ctx.weights["scale"]


def test_what_only_shows_in_the_whole_model(doubled: type[Layer]) -> None:
    layers = [
        Input(input_shape="1:1:6"),
        ("first", Keeping()),
        FullyConnected(unit=6, activation="tanh"),
        ("second", Keeping()),
        FullyConnected(unit=2),
    ]
    model = Model.build(layers, model={"loss": "mse", "batch_size": 8}, optimizer="adam")
    report = check_gradients(model, *regression())
    assert {(row.layer, row.tensor) for row in report.failed} == {("whole model", "first:scale")}, str(report)
    assert "attribute" in report.failed[0].reason


def test_frozen_layers_and_statistics() -> None:
    layers = [
        Input(input_shape="1:1:6"),
        ("frozen", FullyConnected(unit=5, trainable=False)),
        ("norm", BatchNormalization(trainable=False)),
        ("out", FullyConnected(unit=2)),
    ]
    model = Model.build(layers, model={"loss": "mse", "batch_size": 8}, optimizer="sgd")
    report = check_gradients(model, *regression())
    assert report.ok
    rows = {(row.layer, row.tensor): row for row in report}
    assert rows["frozen", "weights"].verdict is Verdict.SKIPPED
    assert rows["norm", "input 0"].verdict is Verdict.PASSED
    assert {tensor for layer, tensor in rows if layer == "whole model"} == {"out:weight", "out:bias"}


def test_random_samples_fit_what_reads_them() -> None:
    layers = [
        ("words", Input(input_shape="1:1:4")),
        ("table", Embedding(in_dim=7, out_dim=5)),
        Flatten(),
        Dropout(dropout_rate=0.5),
        FullyConnected(unit=3, activation="softmax"),
    ]
    model = Model.build(layers, model={"loss": "cross", "batch_size": 4}, optimizer="adam")
    report = check_gradients(model)
    assert report.ok, str(report)
    assert report.notes == ("random samples: there is no training data",)
    assert report.samples == 3
    assert check_gradients(regressor(), samples=2).samples == 2


def test_without_loss_or_with_one_that_is_no_derivative() -> None:
    layers = [Input(input_shape="1:1:6"), FullyConnected(unit=5, activation="tanh")]
    report = check_gradients(Model.build(layers, model={"batch_size": 4}))
    assert Verdict.PASSED in verdicts(report)
    assert report.ok
    assert "the whole model was not checked: it has no loss" in report.notes
    layers = [Input(input_shape="1:1:6"), FullyConnected(unit=5)]
    model = Model.build(layers, model={"loss": "constant_derivative", "batch_size": 4}, optimizer="sgd")
    report = check_gradients(model)
    assert report.ok
    assert any("by its definition" in note for note in report.notes)


def test_regularizers_belong_to_the_update() -> None:
    layers = [
        Input(input_shape="1:1:6"),
        FullyConnected(unit=5, weight_regularizer="l2norm", weight_regularizer_constant=10.0, weight_decay=0.5),
    ]
    model = Model.build(layers, model={"loss": "mse", "batch_size": 4}, optimizer="sgd")
    assert check_gradients(model).ok


LOSSES_AND_ACTIVATIONS = [
    ("cross", "softmax"), ("cross", "sigmoid"), ("kld", "softmax"), ("focal", "softmax"), ("mse", "none"),
    ("mae", "none"), ("huber", "none"), ("hinge", "tanh"), ("cosine_distance", "none"),
]  # fmt: skip


@pytest.mark.parametrize(("loss", "activation"), LOSSES_AND_ACTIVATIONS)
def test_every_loss_in_a_model(loss: str, activation: str) -> None:
    layers = [
        Input(input_shape="1:1:6"),
        FullyConnected(unit=5, activation="tanh"),
        FullyConnected(unit=3, activation=activation),
    ]
    model = Model.build(layers, model={"loss": loss, "batch_size": 4}, optimizer="sgd")
    report = check_gradients(model)
    assert report.ok, str(report)
    assert not report.of(Verdict.UNCLEAR), str(report)


@pytest.mark.parametrize("keyword", ["gru", "lstm", "rnn", "conv1d", "layer_normalization", "rmsnorm"])
def test_deeper_models_pass(keyword: str) -> None:
    shape, properties = LAYER_ROWS[keyword]
    cls: Any = LAYERS.load(keyword)
    given = dict(line.split(" = ") for line in properties.splitlines())
    layer = cls(**{key: cls.find_property(key).parse(text) for key, text in given.items()})
    layers = [Input(input_shape=shape), layer, Flatten(), FullyConnected(unit=3, activation="softmax")]
    model = Model.build(layers, model={"loss": "cross", "batch_size": 4}, optimizer="adam")
    report = check_gradients(model)
    assert report.ok, str(report)
    assert not report.of(Verdict.UNCLEAR), str(report)


def test_relu_networks_never_fail() -> None:
    """Kinks everywhere, and none taken for a mistake."""
    layers = [
        Input(input_shape="1:1:20"),
        *(FullyConnected(unit=30, activation="relu") for _ in range(3)),
        FullyConnected(unit=4, activation="softmax"),
    ]
    model = Model.build(layers, model={"loss": "cross", "batch_size": 4}, optimizer="adam")
    for seed in range(12):
        report = check_gradients(model, seed=seed)
        assert report.ok, f"{seed}: {report}"


def test_the_data_of_the_description(tmp_path: Path) -> None:
    ini = write_problem(tmp_path)
    model = Model.from_ini(ini)
    report = check_gradients(model)
    assert report.ok
    assert report.notes == ()
    (tmp_path / "train.dat").write_bytes(b"abc")
    with pytest.raises(DataError):
        check_gradients(model)
    (tmp_path / "train.dat").unlink()
    assert check_gradients(model).notes == ("random samples: there is no training data",)


def test_an_object_that_cannot_be_copied_is_told(doubled: type[Layer]) -> None:
    layer = doubled()
    layer.handle = (line for line in "ab")  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        copy.deepcopy(layer)
    with pytest.raises(UsageError, match=r"\[mine\] cannot be copied"):
        check_gradients(with_users(layer), *regression())


def test_inputs_by_name_and_progress() -> None:
    layers = [
        ("left", Input(input_shape="1:1:4")),
        ("right", Input(input_shape="1:1:3")),
        ("both", Concat(input_layers=["left", "right"], axis=3)),
        ("sum", FullyConnected(unit=1)),
    ]
    model = Model.build(layers, model={"loss": "mse", "batch_size": 10}, optimizer="sgd")
    rng, told = np.random.default_rng(0), []
    report = check_gradients(
        model,
        {"left": rng.normal(size=(10, 4)), "right": rng.normal(size=(10, 3))},
        {"sum": rng.normal(size=(10, 1))},
        progress=lambda done, total, name: told.append((done, total, name)),
    )
    assert report.ok
    assert [row.tensor for row in report if row.layer == "both"] == ["input 0", "input 1"]
    assert [name for _, _, name in told][-1] == "whole model"
    assert {total for _, total, _ in told} == {len(told) - 1}


def test_one_layer_applied_to_every_step() -> None:
    """A user's layer inside of time_dist: run for each step, its place told."""

    class Inner(Doubled):
        keyword = "inner"

    register_layer("inner")(Inner)
    try:
        layers = [
            Input(input_shape="1:3:6"),
            ("before", FullyConnected(unit=6)),
            ("steps", Inner(distribute=True)),
            FullyConnected(unit=2),
        ]
        model = Model.build(layers, model={"loss": "mse", "batch_size": 8}, optimizer="adam")
        (row,) = check_gradients(model).failed
    finally:
        LAYERS.unregister("inner")
    assert (row.layer, row.tensor) == ("steps", "input 0")
    assert "Inner.calc_derivative" in row.place or "Doubled.calc_derivative" in row.place


def test_a_memory_budget_is_no_obstacle() -> None:
    """Under the smallest budget the numbers and the model are the same."""
    x, y = data(24)
    plain, tight = classifier(), classifier()
    tight.compile(threads=1, seed=0, memory_budget=smallest_budget(), swap=True)
    for model in (plain, tight):
        model.train_on_batch(x[:8], y[:8])
    before = weights(tight)
    first, second = check_gradients(plain, x, y), check_gradients(tight, x, y)
    assert [str(row) for row in first] == [str(row) for row in second]
    assert weights(tight) == before


def smallest_budget() -> int:
    with pytest.raises(PlanError) as refused:
        classifier().compile(threads=1, memory_budget=1000, swap=True)
    return refused.value.smallest


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_never_fail(seed: int) -> None:
    report = check_gradients(Model(described(random_net(seed).text)), seed=seed)
    assert report.of(Verdict.PASSED)
    assert report.ok, str(report)


@pytest.mark.fuzz
def test_many_random_networks_never_fail() -> None:
    seconds = float(os.environ.get("NNTRAINER_FUZZ_SECONDS", "600"))
    end, seed = time.monotonic() + seconds, 1000
    while time.monotonic() < end:
        report = check_gradients(Model(described(random_net(seed).text)), seed=seed)
        assert report.ok, f"{seed}: {report}"
        seed += 1


def test_beside_a_singularity_nothing_is_called_wrong() -> None:
    """Zeros before a cosine: derivatives near 1e6, whose sum should be 0 and is not, in float32."""
    report = check_gradients(Model(described(random_net(80).text)), seed=80)
    assert report.ok
    assert any("no more than rounding errors" in row.reason for row in report)
