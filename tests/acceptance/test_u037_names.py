"""U037: inputs and losses are told apart by name, never by the order of the alphabet or of the caller's dictionary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nntrainer_py import Model
from nntrainer_py.errors import DataError

RANDOM = np.random.default_rng(37)
A, B = RANDOM.normal(size=(2, 6, 3)).astype(np.float32)
TWO = """\
[Model]
batch_size = 2
{order}
loss = mse

[Optimizer]
type = sgd
learning_rate = 0.1

[b]
type = input
input_shape = 1:1:3

[a]
type = input
input_shape = 1:1:3

[difference]
type = subtract
input_layers = b, a

[scaled]
type = fully_connected
unit = 3
trainable = false
weight_initializer = ones
"""
LOSSES = """\
[Model]
batch_size = 6
{order}

[Optimizer]
type = sgd
learning_rate = 0.5

[x]
type = input
input_shape = 1:1:3

[z]
type = fully_connected
input_layers = x
unit = 2

[y]
type = fully_connected
input_layers = x
unit = 2

[loss_z]
type = mse
input_layers = z

[loss_y]
type = mse
input_layers = y
"""
#: what [Model] may say -> the order in which data gives the inputs; unset is NNTrainer's, the last declared first
ORDERS = {"input_layers = b, a": "ba", "input_layers = a, b": "ab", "": "ab"}


def _model(folder: Path, text: str, order: str) -> Model:
    ini = folder / "model.ini"
    ini.write_text(text.format(order=order), encoding="utf-8")
    return Model.from_ini(ini).compile(threads=1)


def _in(order: str) -> list[np.ndarray]:
    return [{"a": A, "b": B}[name] for name in order]


def _expected() -> np.ndarray:
    return np.repeat((B.astype(np.float64) - A).sum(axis=1, keepdims=True), 3, axis=1)


@pytest.mark.filterwarnings("ignore:the inputs are taken in the order a, b:nntrainer_py.errors.DataWarning")
@pytest.mark.parametrize("order", ORDERS)
def test_u037_inputs_by_name_and_by_position(tmp_path: Path, order: str) -> None:
    model = _model(tmp_path, TWO, order)
    for given in ({"a": A, "b": B}, {"b": B, "a": A}, _in(ORDERS[order])):
        np.testing.assert_allclose(model.predict(given).reshape(6, 3), _expected(), rtol=1e-5, atol=1e-6)
        assert model.evaluate(given, _expected())["loss"] < 1e-12
    wrong = model.predict(_in(ORDERS[order][::-1])).reshape(6, 3)
    np.testing.assert_allclose(wrong, -_expected(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["dat", "csv", "npy", "npz"])
def test_u037_inputs_from_files(tmp_path: Path, order: str, kind: str) -> None:
    """The loss of data whose label is b - a is 0 when each input gets its own."""
    model = _model(tmp_path, TWO, order)
    path = tmp_path / f"data.{kind}"
    rows = np.concatenate([*_in(ORDERS[order]), _expected()], axis=1).astype("<f4")
    if kind == "dat":
        rows.tofile(path)
    elif kind == "csv":
        np.savetxt(path, rows, delimiter=",", fmt="%.9g")
    elif kind == "npy":
        np.save(path, rows)
    else:
        first, second = _in(ORDERS[order])
        np.savez(path, x0=first, x1=second, y=_expected().astype(np.float32))
    assert model.evaluate(path)["loss"] < 1e-10


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"a": A}, ["input 'b' is missing"]),
        ({"a": A, "b": B, "c": A}, ["no input 'c'"]),
        ({"a": A, "bb": B}, ["no input 'bb'", "did you mean 'b'", "input 'b' is missing"]),
        ([A], ["1 input,", "takes 2"]),
        ([A, B, A], ["3 inputs", "takes 2"]),
    ],
)
def test_u037_extra_and_missing_inputs(tmp_path: Path, given: object, words: list[str]) -> None:
    model = _model(tmp_path, TWO, "")
    for use in (
        lambda: model.predict(given),
        lambda: model.evaluate(given, _expected()),
        lambda: model.train_on_batch(given, _expected()),
        lambda: model.train(given, _expected()),
        lambda: model.train({"a": A, "b": B}, _expected(), valid=(given, _expected())),
    ):
        with pytest.raises(DataError) as caught:
            use()
        for word in words:
            assert word in str(caught.value)


@pytest.mark.filterwarnings("ignore:the inputs are taken in the order a, b:nntrainer_py.errors.DataWarning")
def test_u037_training_by_name_is_training_by_position(tmp_path: Path) -> None:
    text = TWO.replace("trainable = false\n", "")
    target = RANDOM.normal(size=(6, 3)).astype(np.float32)
    made = []
    for given in ({"b": B, "a": A}, [A, B]):
        model = _model(tmp_path, text, "")
        result = model.train(given, target, valid=(given, target), epochs=2)
        made.append((model.weights()["scaled:weight"].tobytes(), [row.valid_loss for row in result.history]))
    assert made[0] == made[1]


@pytest.mark.parametrize(("order", "first"), [("", "y"), ("label_layers = z, y", "z"), ("label_layers = y, z", "y")])
def test_u037_losses_by_name_and_by_position(tmp_path: Path, order: str, first: str) -> None:
    """The label of each loss moves its own layer: by hand, one step of sgd on the biases."""
    order = order.replace("z", "loss_z").replace("y, ", "loss_y, ").replace(", y", ", loss_y")
    order = order.replace("label_laloss_yers", "label_layers")
    labels = {"z": np.full((6, 2), 3.0, np.float32), "y": np.full((6, 2), -5.0, np.float32)}
    listed = [labels[first], labels["y" if first == "z" else "z"]]
    by_name = {f"loss_{name}": label for name, label in labels.items()}
    for given in (by_name, dict(reversed(by_name.items())), listed):
        model = _model(tmp_path, LOSSES, order)
        before = {name: array.astype(np.float64) for name, array in model.weights().items()}
        loss, expected = model.train_on_batch(A, given), 0.0
        for name, label in labels.items():
            made = A @ before[f"{name}:weight"][0, 0] + before[f"{name}:bias"].reshape(-1)
            expected += np.mean((made - label) ** 2)
            moved = before[f"{name}:bias"].reshape(-1) - 0.5 * 2 * (made - label).sum(axis=0) / label.size
            np.testing.assert_allclose(model.weights()[f"{name}:bias"].reshape(-1), moved, rtol=1e-5, atol=1e-6)
        assert loss == pytest.approx(expected, rel=1e-5)
    model = _model(tmp_path, LOSSES, order)
    with pytest.raises(DataError, match="label 'loss_y' is missing"):
        model.train_on_batch(A, {"loss_z": labels["z"]})
    with pytest.raises(DataError, match="no label 'loss_x'"):
        model.train_on_batch(A, {**by_name, "loss_x": labels["z"]})
