"""Training graphs of whole models: what they hold, that they train alike, and how what cannot be written is refused."""

from __future__ import annotations

import builtins
import json
import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import close
from onnx_runs import NEEDS_ONNX, Session
from small_models import classifier, data

from nntrainer_py import Layer, Model
from nntrainer_py.errors import DescriptionError, MissingExtraError, UsageError, WeightFileError
from nntrainer_py.formats.onnx import builder, evaluation_graph, save, training_graph
from nntrainer_py.layers.activation import Activation
from nntrainer_py.layers.addition import Addition
from nntrainer_py.layers.batch_normalization import BatchNormalization
from nntrainer_py.layers.concat import Concat
from nntrainer_py.layers.conv2d import Conv2D
from nntrainer_py.layers.dropout import Dropout
from nntrainer_py.layers.embedding import Embedding
from nntrainer_py.layers.flatten import Flatten
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.layers.layer_normalization import LayerNormalization
from nntrainer_py.layers.multiout import MultiOut
from nntrainer_py.layers.pooling2d import Pooling2D
from nntrainer_py.layers.reshape import Reshape
from nntrainer_py.layers.split import Split
from nntrainer_py.losses.mse import MeanSquaredError as Mse
from nntrainer_py.optimizers.adam import Adam
from nntrainer_py.optimizers.adamw import AdamW
from nntrainer_py.optimizers.sgd import Sgd

ROOT = Path(__file__).resolve().parents[3]
Array = np.ndarray[Any, Any]
Batch = tuple[Array, Array]
Maker = Callable[[np.random.Generator], Batch]


def metadata(graph: Any) -> dict[str, str]:
    return {entry.key: entry.value for entry in graph.metadata_props}


def compare(model: Model, batches: list[Batch], tolerance: float, *, batch_size: int | None = None) -> None:
    """A step on each batch by us and by ONNX Runtime; losses, then all weights and optimizer state."""
    graph = training_graph(model, batch_size=batch_size)
    updates, session = json.loads(metadata(graph)["nntrainer_py.updates"]), Session(graph)
    lowered = model.lowered("train", batch_size)
    held: dict[str, Any] = {}
    for x, t in batches:
        iteration = int(held["iteration"][0]) if "iteration" in held else 0
        if "learning_rate" in session.optional:
            held["learning_rate"] = np.array([model.learning_rate(iteration)])
        given = {lowered.inputs[0].name: x.reshape(lowered.inputs[0].shape)}
        given[lowered.labels[0].name] = t.reshape(lowered.labels[0].shape)
        results = session.run({**given, **held})
        loss = model.train_on_batch(x, t)
        assert results["loss"][0] == pytest.approx(loss, rel=3e-6)
        held |= {key: results[name] for key, name in updates.items()}
    ours = model.weights() | model.compiled.optimizer_state(lowered)
    assert set(ours) <= set(updates)
    for key, array in ours.items():
        close(key, held[key], array, tolerance, 1e-6)


def pictures(count: int, classes: int) -> Maker:
    def make(rng: np.random.Generator) -> Batch:
        x = rng.standard_normal((count, 3, 9, 11)).astype(np.float32)
        return x, np.eye(classes, dtype=np.float32)[rng.integers(0, classes, count)].reshape(count, 1, 1, classes)

    return make


def words(count: int) -> Maker:
    def make(rng: np.random.Generator) -> Batch:
        x = rng.integers(0, 11, (count, 1, 1, 6)).astype(np.float32)
        return x, rng.standard_normal((count, 1, 1, 2)).astype(np.float32)

    return make


def branches() -> list[Any]:
    """Residual addition, split, concat, an output for several, both kinds of pooling."""
    return [
        ("in", Input(input_shape="3:9:11")),
        ("conv", Conv2D(filters=4, kernel_size=(3, 3), padding="same", stride=(2, 1), disable_bias=True)),
        ("norm", BatchNormalization()),
        ("both", MultiOut(input_layers=["norm"])),
        ("left", Conv2D(input_layers=["both(0)"], filters=4, kernel_size=(1, 1), activation="swish")),
        ("right", Pooling2D(input_layers=["both(1)"], pooling="average", pool_size=(3, 3), padding="same")),
        ("sum", Addition(input_layers=["left", "right"], activation="relu")),
        ("parts", Split(input_layers=["sum"], axis=1, split_number=2)),
        ("joined", Concat(input_layers=["parts(1)", "parts(0)"], axis=1)),
        ("pool", Pooling2D(pooling="max", pool_size=(2, 2), stride=(2, 2))),
        ("flat", Flatten()),
        ("drop", Dropout(dropout_rate=0.2)),
        ("hidden", FullyConnected(unit=7, activation="tanh", weight_regularizer="l2norm",
                                  weight_regularizer_constant=0.01)),
        ("out", FullyConnected(unit=4, activation="softmax")),
    ]  # fmt: skip


def sequence() -> list[Any]:
    return [
        ("in", Input(input_shape="1:1:6")),
        ("table", Embedding(in_dim=11, out_dim=5)),
        ("norm", LayerNormalization(axis=[3])),
        ("act", Activation(activation="gelu")),
        ("line", Reshape(target_shape="1:1:30")),
        ("out", FullyConnected(unit=2, weight_decay=0.01)),
    ]


def shared() -> list[Any]:
    """One weight used twice: its gradient is added up."""
    return [
        ("in", Input(input_shape="1:1:6")),
        ("one", FullyConnected(unit=6, activation="sigmoid")),
        ("two", FullyConnected(unit=6, activation="elu", shared_from="one")),
        ("out", FullyConnected(unit=2, activation="sigmoid")),
    ]


MODELS: dict[str, tuple[Callable[[], list[Any]], dict[str, Any], Any, Maker, float]] = {
    "branches, sgd": (branches, {"loss": "cross"}, Sgd(learning_rate=0.05), pictures(5, 4), 1e-5),
    "branches, adam": (branches, {"loss": "cross"}, Adam(learning_rate=0.01), pictures(5, 4), 2e-4),
    "branches, clipped": (
        branches, {"loss": "cross", "clip_grad_by_norm": 0.5}, Sgd(learning_rate=0.1), pictures(5, 4), 1e-5,
    ),
    "sequence, adamw": (sequence, {"loss": "mse"}, AdamW(learning_rate=0.01), words(4), 2e-4),
    "shared weight": (shared, {"loss": "mse"}, Sgd(learning_rate=0.1), words(3), 1e-5),
    "one sample": (shared, {"loss": "cross"}, Sgd(learning_rate=0.1), words(1), 1e-5),
}  # fmt: skip


@NEEDS_ONNX
@pytest.mark.parametrize("name", MODELS)
def test_model_trains_alike(name: str) -> None:
    layers, settings, optimizer, make, tolerance = MODELS[name]
    rng = np.random.default_rng(3)
    batches = [make(rng) for _ in range(5)]
    if layers is shared and settings["loss"] == "cross":
        batches = [(x, (t > 0).astype(np.float32)) for x, t in batches]
    model = Model.build(layers(), model={**settings, "batch_size": len(batches[0][0])}, optimizer=optimizer)
    compare(model.compile(threads=1, seed=1), batches, tolerance)


@NEEDS_ONNX
def test_another_batch_size_and_a_model_in_training() -> None:
    """The graph goes on from where the model is: weights, moments, counters, random step."""
    model = classifier(batch_size=8, normalization=False)
    for seed in range(3):
        model.train_on_batch(*data(8, seed))
    graph = training_graph(model, batch_size=5)
    assert metadata(graph)["nntrainer_py.batch"] == "5"
    session, (x, y) = Session(graph), data(5, 9)
    lowered = model.lowered("train", 5)
    one_hot = np.eye(3, dtype=np.float32)[y].reshape(5, 1, 1, 3)
    results = session.run({lowered.inputs[0].name: x.reshape(5, 1, 1, -1), lowered.labels[0].name: one_hot})
    assert results["iteration/next"] == 4
    assert results["loss"][0] == pytest.approx(model.train_on_batch(x, y), rel=1e-6)
    for key, array in model.weights().items():
        close(key, results[f"{key}/next"], array, 1e-4, 1e-6)
    predicted = results["prediction"].argmax(-1).reshape(-1)
    assert results["metric:correct"] == (predicted == y).sum()


@NEEDS_ONNX
def test_gradients_are_outputs_on_request() -> None:
    model = classifier(optimizer="sgd", dropout=0.0)
    plain, asked = training_graph(model), training_graph(model, gradients=True)
    names = [made.name for made in asked.graph.output if made.name.endswith(":grad")]
    assert not [made.name for made in plain.graph.output if made.name.endswith(":grad")]
    assert names == [f"{weight.key}:grad" for weight in model.lowered().weights if weight.trainable]
    x, y = data(8)
    given = {"in:input0": x.reshape(8, 1, 1, -1)}
    given[model.lowered().labels[0].name] = np.eye(3, dtype=np.float32)[y].reshape(8, 1, 1, 3)
    results = Session(asked).run(given)
    for name in names:
        key = name.removesuffix(":grad")
        moved = model.weights()[key] - model.learning_rate(0) * results[name].reshape(model.weights()[key].shape)
        close(key, results[f"{key}/next"], moved, 1e-6, 1e-6)


@NEEDS_ONNX
def test_gradient_accumulation_is_one_batch_here() -> None:
    model = classifier(gradient_accumulation=2, normalization=False)
    x, y = data(8)
    lowered = model.lowered("train")
    given = {lowered.inputs[0].name: x.reshape(8, 1, 1, -1)}
    given[lowered.labels[0].name] = np.eye(3, dtype=np.float32)[y].reshape(8, 1, 1, 3)
    results = Session(training_graph(model)).run(given)
    assert results["loss"][0] == pytest.approx(model.train_on_batch(x, y), rel=1e-6)
    for key, array in model.weights().items():
        close(key, results[f"{key}/next"], array, 1e-4, 1e-6)


@NEEDS_ONNX
def test_without_weights_every_tensor_is_asked_for() -> None:
    model = classifier()
    whole, bare = training_graph(model), training_graph(model, weights=False)
    assert Session(whole).required == ["in:input0", model.lowered().labels[0].name]
    wanted = {*model.weights(), *model.compiled.optimizer_state(model.lowered())}
    assert wanted | {"learning_rate", "iteration", "step"} <= set(Session(bare).required)
    assert set(Session(bare).optional) == {"samples", "loss_scale", "offset"}


@NEEDS_ONNX
def test_evaluation_graph_gives_loss_metric_and_prediction() -> None:
    model = classifier()
    model.train_on_batch(*data(8))
    x, y = data(8, 4)
    results = Session(evaluation_graph(model)).run(
        {"in:input0": x.reshape(8, 1, 1, -1), model.lowered("evaluate").labels[0].name:
         np.eye(3, dtype=np.float32)[y].reshape(8, 1, 1, 3)}
    )  # fmt: skip
    figures = model.evaluate(x, y)
    assert results["loss"][0] == pytest.approx(figures["loss"], rel=1e-6)
    assert results["metric:correct"][0] / 8 == figures["accuracy"]
    close("logits", np.exp(results["prediction"]) / np.exp(results["prediction"]).sum(-1, keepdims=True),
          model.predict(x), 1e-6)  # fmt: skip


@NEEDS_ONNX
def test_evaluation_needs_no_optimizer() -> None:
    layers = [("in", Input(input_shape="1:1:6")), ("fc", FullyConnected(unit=2))]
    model = Model.build(layers, model={"loss": "mse", "batch_size": 4}).compile(threads=1)
    with pytest.raises(UsageError, match="loss and an optimizer"):
        training_graph(model)
    x, t = (np.random.default_rng(0).standard_normal((4, 1, 1, width)).astype(np.float32) for width in (6, 2))
    results = Session(evaluation_graph(model)).run(
        {"in:input0": x, model.lowered("evaluate").labels[0].name: t}
    )  # fmt: skip
    np.testing.assert_allclose(results["loss"], ((results["prediction"] - t) ** 2).mean(), rtol=1e-6)


class Halve(Layer):
    """A user's layer."""

    def forward(self, ctx: Any) -> None:
        np.multiply(ctx.inputs[0], 0.5, out=ctx.outputs[0])

    def calc_derivative(self, ctx: Any) -> None:
        np.multiply(ctx.incoming[0], 0.5, out=ctx.derivatives[0])


def test_every_layer_that_cannot_leave_is_named() -> None:
    layers: list[Any] = [("in", Input(input_shape="1:1:6")), ("mine", Halve()), ("fc", FullyConnected(unit=2))]
    layers += [("again", Halve())]
    model = Model.build(layers, model={"loss": "mse", "batch_size": 4}, optimizer="sgd")
    with pytest.raises(DescriptionError) as caught:
        training_graph(model)
    lines = str(caught.value).splitlines()
    assert lines == [
        "[mine] a user's own code cannot be written as standard ONNX",
        "[again] a user's own code cannot be written as standard ONNX",
    ]


def test_model_that_cannot_be_trained_is_refused() -> None:
    model = Model.build([("in", Input(input_shape="1:1:6")), ("fc", FullyConnected(unit=2))], model={"batch_size": 4})
    with pytest.raises(UsageError, match="loss and an optimizer"):
        training_graph(model)
    with pytest.raises(UsageError, match="needs a model with a loss"):
        evaluation_graph(model)


@pytest.mark.parametrize("batch_size", [0, -3, True, 1.5, 4.0, "4", [2], np.float32(2), np.ones(2, int)], ids=repr)
@pytest.mark.parametrize("write", [training_graph, evaluation_graph])
def test_batch_size_is_checked(batch_size: Any, write: Any) -> None:
    with pytest.raises(UsageError, match=r"batch_size: expected a positive integer, got"):
        write(classifier(), batch_size=batch_size)


@NEEDS_ONNX
def test_batch_size_may_be_an_integer_of_numpy() -> None:
    assert metadata(training_graph(classifier(), batch_size=np.int32(3)))["nntrainer_py.batch"] == "3"


@NEEDS_ONNX
@pytest.mark.parametrize("path", ["x\0y", Path("x\0y"), b"x.onnx", None, 3, ["x"]], ids=repr)
def test_what_can_be_no_path_is_refused(path: Any) -> None:
    with pytest.raises(UsageError, match=r"^path: "):
        save(training_graph(classifier()), path)


@NEEDS_ONNX
def test_gradient_of_a_weight_that_no_loss_depends_on_is_zero() -> None:
    layers: list[Any] = [("in", Input(input_shape="1:1:6")), ("fc", FullyConnected(unit=2)), ("loss", Mse())]
    layers += [("aside", FullyConnected(unit=3, input_layers=["in"]))]
    model = Model.build(layers, model={"batch_size": 4}, optimizer="sgd").compile(threads=1)
    session = Session(training_graph(model, gradients=True))
    x, t = (np.random.default_rng(0).standard_normal((4, 1, 1, width)).astype(np.float32) for width in (6, 2))
    results = session.run({"in:input0": x, model.lowered("train").labels[0].name: t})
    assert results["fc:weight:grad"].any()
    np.testing.assert_array_equal(results["aside:weight:grad"], np.zeros((1, 1, 6, 3)))


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *rest: Any, **more: Any) -> Any:
        if name == "onnx" or name.startswith("onnx."):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", absent)
    with pytest.raises(MissingExtraError, match=re.escape('pip install "nntrainer_py[onnx]"')):
        training_graph(classifier())


def test_tensors_beyond_one_file_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "LARGEST", 300)
    with pytest.raises(UsageError, match="at most 2 GB"):
        training_graph(classifier())


@NEEDS_ONNX
def test_saved_graph_is_the_graph(tmp_path: Path) -> None:
    import onnx

    graph = training_graph(classifier())
    path = tmp_path / "step.onnx"
    save(graph, path)
    assert onnx.load(path) == graph
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(WeightFileError, match="cannot be written"):
        save(graph, tmp_path / "absent" / "step.onnx")


@NEEDS_ONNX
def test_program_of_the_document_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """docs/onnx.md: its programs, one after the other, in a folder of their own."""
    text = (ROOT / "docs" / "onnx.md").read_text(encoding="utf-8")
    programs = re.findall(r"^```python\n(.*?)^```$", text, flags=re.M | re.S)
    assert len(programs) == 2
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    Path("program.py").write_text("\n".join(programs), encoding="utf-8")
    runpy.run_path("program.py")
    losses = [float(line) for line in capsys.readouterr().out.split()]
    assert len(losses) == 40
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])
