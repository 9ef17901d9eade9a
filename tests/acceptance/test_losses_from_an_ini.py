"""Several losses, weights, class weights, smoothing and class numbers, from an INI and from every kind of data file."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_softmax

from nntrainer_py import Model

RANDOM = np.random.default_rng(6)
X = RANDOM.normal(size=(24, 4)).astype(np.float32)
CLASS = RANDOM.integers(0, 3, 24)
TARGET = RANDOM.normal(size=(24, 2)).astype(np.float32)
ONE_HOT = np.eye(3, dtype=np.float32)[CLASS]

ONE = """\
[Model]
batch_size = 8
epochs = 2
[Optimizer]
type = sgd
learning_rate = 0.1
[train_set]
type = {type}
path = {path}
shuffle = false
{data}
[x]
type = input
input_shape = 4
[z]
type = fully_connected
unit = 3
[class]
type = cross_softmax
{loss}
"""
TWO = """\
[Model]
batch_size = 8
label_layers = {order}
[Optimizer]
type = sgd
learning_rate = 0.1
[train_set]
type = {type}
path = {path}
shuffle = false
{data}
[x]
type = input
input_shape = 4
[body]
type = fully_connected
unit = 5
activation = tanh
[z]
type = fully_connected
input_layers = body
unit = 3
[class]
type = cross_softmax
integer_labels = true
class_weights = 1, 2, 0.5
label_smoothing = 0.1
weight = 0.3
[value]
type = fully_connected
input_layers = body
unit = 2
[distance]
type = mse
weight = 2
"""


def write(folder: Path, kind: str, labels: list[np.ndarray]) -> str:
    """A data file of the inputs and the labels, each with one row a sample; its name."""
    columns = [X, *(label.reshape(len(X), -1) for label in labels)]
    table = np.concatenate(columns, axis=1).astype(np.float32)
    path = folder / f"data.{kind}"
    if kind == "dat":
        table.tofile(path)
    elif kind == "npy":
        np.save(path, table)
    elif kind == "npz":
        np.savez(path, x=X, **{f"y{i}": label for i, label in enumerate(labels)})
    else:
        rows = [",".join(repr(float(value)) for value in row) for row in table]
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path.name


def trained(folder: Path, text: str) -> dict[str, np.ndarray]:
    (folder / "model.ini").write_text(text, encoding="utf-8")
    model = Model.from_ini(folder / "model.ini")
    model.train(progress=False)
    return {name: array.copy() for name, array in model.weights().items()}


def data_keys(kind: str, labels: int, *, numbers: bool = False) -> str:
    """What the section needs beside the path."""
    if kind == "csv":
        return f"header = false\nlabel = {','.join(str(4 + i) for i in range(labels))}"
    return "integer_labels = true" if kind == "dat" and numbers else ""


@pytest.mark.parametrize("kind", ["dat", "csv", "npy", "npz"])
def test_class_numbers_and_rows_train_alike(kind: str, tmp_path: Path) -> None:
    """The loss wants numbers or rows; the file may hold what the loss wants."""
    loss = "class_weights = 1, 2, 0.5\nlabel_smoothing = 0.1\nweight = 0.7"
    what = {"dat": "file"}.get(kind, kind)
    rows = ONE.format(type=what, path=write(tmp_path, kind, [ONE_HOT]), data=data_keys(kind, 3), loss=loss)
    expected = trained(tmp_path, rows)
    numbers = write(tmp_path, kind, [CLASS.reshape(-1, 1)])
    found = trained(
        tmp_path, ONE.format(type=what, path=numbers, data=data_keys(kind, 1), loss=f"integer_labels = true\n{loss}")
    )
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-7, rtol=1e-6)  # other sums


@pytest.mark.parametrize("kind", ["dat", "csv", "npz"])
def test_class_numbers_become_rows_where_the_loss_wants_rows(kind: str, tmp_path: Path) -> None:
    """Class numbers in the file, no key at the loss: they are made one-hot."""
    what = {"dat": "file"}.get(kind, kind)
    expected = trained(
        tmp_path, ONE.format(type=what, path=write(tmp_path, kind, [ONE_HOT]), data=data_keys(kind, 3), loss="")
    )
    numbers = write(tmp_path, kind, [CLASS.reshape(-1, 1)])
    keys = data_keys(kind, 1, numbers=True)
    found = trained(tmp_path, ONE.format(type=what, path=numbers, data=keys, loss=""))
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])


def test_losses_add_up_with_their_weights(tmp_path: Path) -> None:
    name = write(tmp_path, "npz", [CLASS.astype(np.float32), TARGET])
    (tmp_path / "model.ini").write_text(TWO.format(type="npz", path=name, data="", order="class, distance"))
    model = Model.from_ini(tmp_path / "model.ini")
    weights = {key: array.astype(np.float64) for key, array in model.weights().items()}
    body = np.tanh(X @ weights["body:weight"][0, 0] + weights["body:bias"].reshape(-1))
    z = body @ weights["z:weight"][0, 0] + weights["z:bias"].reshape(-1)
    value = body @ weights["value:weight"][0, 0] + weights["value:bias"].reshape(-1)
    wanted = (0.9 * ONE_HOT + 0.1 / 3) * [1, 2, 0.5]
    cross = -(wanted * log_softmax(z, axis=1)).sum(axis=1).mean()
    expected = 0.3 * cross + 2 * ((value - TARGET) ** 2).mean()
    found = model.evaluate(X, {"class": CLASS, "distance": TARGET})["loss"]
    assert found == pytest.approx(expected, rel=1e-6)
    assert model.train_on_batch(X, [CLASS, TARGET]) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", ["dat", "csv", "npy", "npz"])
def test_label_layers_is_the_order_in_every_file(kind: str, tmp_path: Path) -> None:
    labels = {"class": CLASS.astype(np.float32).reshape(-1, 1), "distance": TARGET}
    what = {"dat": "file"}.get(kind, kind)
    found = []
    for order in itertools.permutations(labels):
        name = write(tmp_path, kind, [labels[layer] for layer in order])
        text = TWO.format(type=what, path=name, data=data_keys(kind, 3), order=", ".join(order))
        found.append(trained(tmp_path, text))
    for name in found[0]:
        np.testing.assert_array_equal(found[0][name], found[1][name])
    assert not np.array_equal(found[0]["z:weight"], Model.from_ini(tmp_path / "model.ini").weights()["z:weight"])
