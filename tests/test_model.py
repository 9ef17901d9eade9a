"""Model: building, training on batches, predicting, saving and loading."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from small_models import CLASSES, FEATURES, Recorder, classifier, data, regressor, weights

from nntrainer_py import DataError, Model, NumericalError, UsageError
from nntrainer_py.errors import WeightFileError
from nntrainer_py.layers.addition import Addition
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "model.ini"


def test_train_on_batch_gives_the_loss_before_the_update():
    """Cross entropy by hand, then one step of sgd on the last bias by hand."""
    model = classifier(optimizer="sgd", dropout=0.0, normalization=False)
    x, y = data(16)
    before = {name: array.astype(np.float64) for name, array in model.weights().items()}
    hidden = np.maximum(x @ before["hidden:weight"][0, 0] + before["hidden:bias"].reshape(-1), 0)
    logits = hidden @ before["out:weight"][0, 0] + before["out:bias"].reshape(-1)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert model.train_on_batch(x, y) == pytest.approx(-np.mean(np.log(shares[np.arange(16), y])), rel=1e-6)
    rate = model.learning_rate(0)
    gradient = (shares - np.eye(CLASSES)[y]).mean(axis=0)
    moved = model.weights()["out:bias"].reshape(-1)
    np.testing.assert_allclose(moved, before["out:bias"].reshape(-1) - rate * gradient, rtol=1e-6, atol=1e-8)


def test_train_on_batch_is_a_step_of_train():
    """Also with accumulation, where every call is a logical batch of its own."""
    x, y = data(24)
    recorder = Recorder()
    whole, single, held = classifier(), classifier(), classifier(gradient_accumulation=3)
    whole.train(x, y, epochs=2, shuffle=False, callbacks=[recorder])
    for model in (single, held):
        losses = [model.train_on_batch(x[i : i + 8], y[i : i + 8]) for _ in range(2) for i in (0, 8, 16)]
        assert losses == [batch.loss for batch in recorder.batches]
        assert weights(model) == weights(whole)


def test_batches_of_every_size_share_the_weights():
    model = classifier()
    x, y = data(50)
    for count in (1, 50, 7, 8, 1):
        assert np.isfinite(model.train_on_batch(x[:count], y[:count]))
    np.testing.assert_array_equal(model.predict(x), np.concatenate([model.predict(x[i : i + 1]) for i in range(50)]))


def test_a_loss_that_is_not_finite_leaves_the_model_as_it_was():
    model = classifier()
    x, y = data(8)
    model.train_on_batch(x, y)
    before = weights(model)
    x[3] = np.nan
    with pytest.raises(NumericalError, match="the loss is nan"):
        model.train_on_batch(x, y)
    assert weights(model) == before


def test_predict_takes_what_training_takes(tmp_path):
    model = classifier()
    x, y = data(20)
    model.train(x, y)
    made = model.predict(x)
    assert made.shape == (20, 1, 1, CLASSES)
    np.testing.assert_allclose(made.sum(axis=3), 1.0, rtol=1e-6)
    np.save(tmp_path / "x.npy", x)
    np.testing.assert_array_equal(model.predict(tmp_path / "x.npy"), made)
    np.testing.assert_array_equal(model.predict(x.tolist()), made)
    np.testing.assert_array_equal(model.predict(row for row in x), made)
    with pytest.raises(DataError, match="a sample has 5 values"):
        model.predict(x[:, :5])
    with pytest.raises(DataError, match="no sample"):
        model.predict(x[:0])


def test_several_inputs_and_outputs():
    layers = [
        ("left", Input(input_shape="1:1:4")),
        ("right", Input(input_shape="1:1:4")),
        ("sum", Addition(input_layers="left, right")),
        ("out", FullyConnected(unit=2)),
    ]
    model = Model.build(layers, model={"loss": "mse", "input_layers": "left, right"}, optimizer="sgd").compile()
    random = np.random.default_rng(0)
    left, right = random.normal(size=(2, 5, 4)).astype(np.float32)
    y = random.normal(size=(5, 2))
    assert np.isfinite(model.train_on_batch([left, right], y))
    found = model.weights()
    made = (left + right) @ found["out:weight"][0, 0] + found["out:bias"].reshape(-1)
    np.testing.assert_allclose(model.predict([left, right]).reshape(5, 2), made, rtol=1e-5)
    assert model.evaluate([left, right], y)["loss"] == pytest.approx(np.mean((made - y) ** 2), rel=1e-5)
    model.train([left, right], y, epochs=2)


def test_the_description_trains_on_its_own_data():
    model = Model.from_ini(DIGITS).compile(threads=1)
    recorder = Recorder()
    result = model.train(epochs=1, callbacks=[recorder])
    assert result.history[0].samples == 1347
    assert result.history[0].valid_metrics["accuracy"] > 0.8
    assert recorder.batches[-1].samples == 1347 % 32


def test_summary_counts_the_parameters():
    lines = classifier().summary().splitlines()
    assert lines[0].split() == ["name", "type", "output", "parameters"]
    rows = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert rows["hidden"] == ["fully_connected", "1:1:8", str(FEATURES * 8 + 8)]
    assert rows["norm"][-1] == "16"
    assert rows["total"] == [str(FEATURES * 8 + 8 + 16 + 8 * 3 + 3)]


def test_training_needs_a_loss_and_an_optimizer():
    model = Model.build([Input(input_shape="1:1:3"), FullyConnected(unit=2)])
    assert model.predict(np.zeros((2, 3))).shape == (2, 1, 1, 2)
    for call in (lambda: model.train_on_batch(np.zeros((2, 3)), [0, 1]), lambda: model.train(np.zeros((2, 3)), [0, 1])):
        with pytest.raises(UsageError, match="needs a loss and an optimizer"):
            call()
    with pytest.raises(UsageError, match="unknown option"):
        model.compile(nonsense=1)


class Doubled(Layer):
    """A user's layer."""

    keyword = ""

    def finalize(self, ctx):
        ctx.output(ctx.inputs[0])

    def forward(self, ctx):
        ctx.outputs[0][...] = 2 * ctx.inputs[0]

    def calc_derivative(self, ctx):
        ctx.derivatives[0][...] = 2 * ctx.incoming[0]


@pytest.mark.parametrize("suffix", ["bin", "safetensors"])
def test_u038_saved_and_loaded(tmp_path, suffix):
    """U038: train, save, load in another model: predictions and figures are bit-equal, running statistics included."""
    model = classifier()
    x, y = data(40)
    model.train(x, y, epochs=2)
    path = tmp_path / f"weights.{suffix}"
    model.save(path)
    other = classifier(seed=9)
    assert weights(other) != weights(model)
    other.load(path)
    assert weights(other) == weights(model)
    assert other.evaluate(x, y) == model.evaluate(x, y)
    assert other.epoch == 2
    with pytest.raises(WeightFileError):
        regressor().load(path)


PROGRAM = """
import sys
import numpy as np
from nntrainer_py import Model
from small_models import data
model = Model.from_file(sys.argv[1])
print({name: value.hex() for name, value in model.evaluate(*data(40)).items()}, model.class_names)
"""


def test_u038_in_a_new_process_from_another_folder(tmp_path):
    """U038: the file alone, in a renamed folder, from another working directory, gives the same figures."""
    x, y = data(40)
    names = np.array(["low", "middle", "high"])
    model = classifier()
    model.train(x, names[y], epochs=2)
    assert model.class_names == ("high", "low", "middle")
    folder = tmp_path / "before"
    folder.mkdir()
    (tmp_path / "elsewhere").mkdir()
    model.save(folder / "m.safetensors")
    folder = folder.rename(tmp_path / "한글 é '🙂")
    roots = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder / "m.safetensors")], cwd=tmp_path / "elsewhere", check=True,
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(roots)},
    )  # fmt: skip
    expected = {name: value.hex() for name, value in model.evaluate(x, y).items()}
    assert done.stdout.strip() == f"{expected} {model.class_names}"


def test_from_file_takes_no_path_and_no_data_of_the_file(tmp_path):
    model = Model.from_ini(DIGITS, overrides=["Model.save_path=/somewhere/weights.bin"]).compile()
    model.save(tmp_path / "m.safetensors")
    found = Model.from_file(tmp_path / "m.safetensors")
    assert found.spec.datasets == {}
    assert found.spec.model.save_path is None
    assert weights(found) == weights(model)


def test_a_model_with_a_nameless_layer_loads_but_describes_nothing(tmp_path):
    layers = [Input(input_shape="1:1:3"), ("mine", Doubled()), FullyConnected(unit=2)]
    model = Model.build(layers)
    model.save(tmp_path / "m.safetensors")
    other = Model.build(layers)
    other.load(tmp_path / "m.safetensors")
    assert weights(other) == weights(model)
    with pytest.raises(WeightFileError, match="no description of the model"):
        Model.from_file(tmp_path / "m.safetensors")


def test_normalization_goes_with_the_model(tmp_path):
    """Measured on the training data, applied by evaluate and predict, stored, and used after loading."""
    x, y = data(40)
    x = 100 * x + 50
    np.concatenate([x, np.eye(CLASSES, dtype=np.float32)[y]], axis=1).astype(np.float32).tofile(tmp_path / "d.dat")
    ini = tmp_path / "model.ini"
    ini.write_text(
        "[Model]\nloss = cross\nbatch_size = 8\nepochs = 2\n[Optimizer]\ntype = adam\n"
        "[train_set]\ntype = file\npath = d.dat\nnormalization = standard\nnormalization_scope = feature\n"
        f"[in]\ntype = input\ninput_shape = 1:1:{FEATURES}\n"
        f"[out]\ntype = fully_connected\nunit = {CLASSES}\nactivation = softmax\n"
    )
    model = Model.from_ini(ini)
    model.train()
    np.testing.assert_allclose(model.normalization.shift[0].reshape(-1), x.mean(axis=0), rtol=1e-5)
    found = model.weights()
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    logits = scaled @ found["out:weight"][0, 0] + found["out:bias"].reshape(-1)
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict(x).reshape(40, CLASSES), shares, rtol=1e-4, atol=1e-6)
    model.save(tmp_path / "m.safetensors")
    other = Model.from_file(tmp_path / "m.safetensors")
    assert other.normalization == model.normalization
    np.testing.assert_array_equal(other.predict(x), model.predict(x))
    assert other.evaluate(x, y) == model.evaluate(x, y)


def test_a_name_that_is_neither_kind_of_weight_file_is_refused(tmp_path):
    model = classifier()
    for name in ("m.onnx", "m.h5", "foo.txt", "m.SAFETENSORS"):
        path = tmp_path / name
        with pytest.raises(UsageError, match=r"weights are written as \.bin or \.safetensors") as caught:
            model.save(path)
        assert (("formats.onnx" in str(caught.value)), path.exists()) == (name == "m.onnx", False)
        for key in ("save_path", "save_best_path"):
            with pytest.raises(UsageError, match=rf"{key}: .*weights are written as"):
                model.train(*data(16), epochs=1, **{key: str(path)})
    with pytest.raises(WeightFileError, match=r"weights are read from \.bin or \.safetensors"):
        model.load(tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_name_without_an_ending_is_a_bin_file(tmp_path):
    model = classifier()
    for name in ("weights", "w.bin", "w.BIN"):
        model.save(tmp_path / name)
        other = classifier(seed=4)
        other.load(tmp_path / name)
        assert weights(other) == weights(model)
    assert len({(tmp_path / name).read_bytes() for name in ("weights", "w.bin", "w.BIN")}) == 1


def test_a_bin_file_describes_no_model(tmp_path):
    classifier().save(tmp_path / "m.bin")
    with pytest.raises(WeightFileError, match=r"without a description.*Model\.from_ini"):
        Model.from_file(tmp_path / "m.bin")


def test_a_raw_file_with_labels_is_predicted_only_when_that_is_said(tmp_path):
    """A raw file does not tell whether it has labels: no row is ever made of labels without a word."""
    model = classifier()
    x, y = data(36)
    one_hot = np.eye(CLASSES, dtype=np.float32)[y]
    both, inputs = tmp_path / "both.dat", tmp_path / "inputs.dat"
    np.concatenate([x, one_hot], axis=1).tofile(both)  # 36 * 9 values are also 54 samples of 6
    x.tofile(inputs)
    made = model.predict(x)
    with pytest.raises(DataError, match=r"looks like 36 samples with labels.*labelled=True"):
        model.predict(both)
    np.testing.assert_array_equal(model.predict(both, labelled=True), made)
    assert len(model.predict(str(both), labelled=False)) == 54
    np.testing.assert_array_equal(model.predict(inputs), made)
    np.testing.assert_array_equal(model.predict(inputs, labelled=False), made)
    np.concatenate([x, one_hot], axis=1)[:35].tofile(both)  # 35 * 9 values are no whole number of 6
    with pytest.raises(DataError, match="looks like 35 samples with labels"):
        model.predict(both)
    with pytest.raises(DataError, match=r"wrong stride.*left over after 52 samples"):
        model.predict(both, labelled=False)
    x.tofile(inputs)
    with inputs.open("ab") as file:
        file.write(bytes(4))
    with pytest.raises(DataError, match=r"wrong stride.*4 bytes are left over"):
        model.predict(inputs)
    plain = Model.build([Input(input_shape="1:1:6"), FullyConnected(unit=2)])
    with pytest.raises(UsageError, match="labelled: this model has no loss"):
        plain.predict(both, labelled=True)
