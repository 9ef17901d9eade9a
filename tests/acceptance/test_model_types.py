"""``[Model] type``: knn, logistic_regression and regression add what such a model needs; other words do nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from commands import command
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid

from nntrainer_py import Model
from nntrainer_py.errors import DescriptionError
from nntrainer_py.graph.description import load_text

RANDOM = np.random.default_rng(4)
CLASSES = RANDOM.integers(0, 3, 60)
X = (RANDOM.normal(size=(3, 5))[CLASSES] * 1.5 + RANDOM.normal(size=(60, 5))).astype(np.float32)
Y = np.eye(3, dtype=np.float32)[CLASSES]
NEW = RANDOM.normal(size=(50, 5)).astype(np.float32) * 2
INPUT = "[in]\ntype = input\ninput_shape = 5\n"


def model(text: str) -> Model:
    return Model(load_text(text))


def trained(text: str, epochs: int = 1) -> Model:
    made = model(text)
    made.train(X, Y, epochs=epochs, progress=False)
    return made


@pytest.mark.parametrize("epochs", [1, 3])
def test_knn_is_the_nearest_mean(epochs: int) -> None:
    made = trained(f"[Model]\ntype = knn\nnum_class = 3\nbatch_size = 7\n{INPUT}", epochs)
    expected = NearestCentroid().fit(X, CLASSES).predict(NEW)
    np.testing.assert_array_equal(made.predict(NEW).reshape(50, 3).argmax(axis=1), expected)
    assert made.evaluate(NEW, np.eye(3)[expected])["accuracy"] == 1.0


@pytest.mark.parametrize("epochs", [1, 3])
@pytest.mark.parametrize("neighbours", [1, 4, 60, 99])
def test_knn_with_neighbours(neighbours: int, epochs: int) -> None:
    made = trained(f"[Model]\ntype = kNN\nnum_class = 3\nneighbours = {neighbours}\nbatch_size = 7\n{INPUT}", epochs)
    expected = KNeighborsClassifier(min(neighbours, 60), algorithm="brute").fit(X, CLASSES).predict_proba(NEW)
    np.testing.assert_allclose(made.predict(NEW).reshape(50, 3), expected, atol=1e-6)


def test_an_empty_store_votes_for_nobody_and_a_full_one_forgets() -> None:
    text = f"[Model]\nbatch_size = 1\n{INPUT}[knn]\ntype = nearest_neighbours\nnum_class = 3\ncapacity = 20\n"
    made = model(text)
    assert not made.predict(NEW).any()
    made.train(X, Y, shuffle=False, progress=False)
    expected = KNeighborsClassifier(1).fit(X[40:], CLASSES[40:]).predict(NEW)
    np.testing.assert_array_equal(made.predict(NEW).reshape(50, 3).argmax(axis=1), expected)


def test_the_samples_are_saved_with_the_model(tmp_path: Path) -> None:
    made = trained(f"[Model]\ntype = knn\nnum_class = 3\nneighbours = 3\nbatch_size = 4\n{INPUT}")
    made.save(tmp_path / "knn.safetensors")
    np.testing.assert_array_equal(Model.from_file(tmp_path / "knn.safetensors").predict(NEW), made.predict(NEW))


def test_knn_trains_from_the_command_line_without_an_optimizer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "knn.ini").write_text(f"[Model]\ntype = knn\nnum_class = 3\nbatch_size = 4\n{INPUT}")
    np.savez(tmp_path / "train.npz", x=X, y=Y)
    data = tmp_path / "train.npz"
    done = command(capsys, "train", tmp_path / "knn.ini", "--train", data, "--valid", data)
    assert done.code == 0, done.err
    assert "accuracy" in done.out.lower()


def test_knn_needs_the_number_of_classes() -> None:
    with pytest.raises(DescriptionError, match="num_class: required for a knn"):
        load_text(f"[Model]\ntype = knn\n{INPUT}")


def test_keys_of_a_knn_elsewhere_are_noticed() -> None:
    spec = load_text(f"[Model]\ntype = neuralnetwork\nneighbours = 3\n{INPUT}")
    assert [str(notice) for notice in spec.notices] == [
        "warning: line 3: [Model] neighbours: has no effect; it belongs to a knn without a layer for it"
    ]


@pytest.mark.parametrize(("unit", "last", "loss"), [(1, "sigmoid", "cross_sigmoid"), (3, "softmax", "cross_softmax")])
def test_logistic_regression(unit: int, last: str, loss: str) -> None:
    text = (
        f"[Model]\ntype = logistic_regression\nbatch_size = 10\n[Optimizer]\ntype = sgd\nlearning_rate = 0.3\n{INPUT}"
    )
    out = f"[out]\ntype = fully_connected\nunit = {unit}\n"
    short = model(text + out)
    long = model(f"{text}{out}activation = {last}\n".replace("type = logistic_regression", "loss = cross"))
    labels = Y[:, :1] if unit == 1 else Y
    for made in (short, long):
        made.train(X, labels, epochs=5, progress=False)
    np.testing.assert_array_equal(short.predict(NEW), long.predict(NEW))
    assert [node.layer.keyword for node in short.compiled.graph("train").nodes][-1] == loss
    assert short.predict(NEW).min() >= 0.0
    assert short.predict(NEW).max() <= 1.0


def test_regression_is_mse_unless_a_loss_is_said() -> None:
    text = (
        f"[Model]\ntype = regression\n{{}}\n[Optimizer]\ntype = sgd\n{INPUT}[out]\ntype = fully_connected\nunit = 2\n"
    )
    assert model(text.format("")).compiled.graph("train").nodes[-1].layer.keyword == "mse"
    assert model(text.format("loss = huber")).compiled.graph("train").nodes[-1].layer.keyword == "huber"
    own = model(text.format("") + "[loss]\ntype = mae\n").compiled.graph("train").nodes
    assert [node.layer.keyword for node in own] == ["input", "fully_connected", "mae"]


def test_other_words_do_nothing_and_say_so() -> None:
    text = (
        f"[Model]\ntype = {{}}\nloss = mse\n[Optimizer]\ntype = sgd\n{INPUT}[out]\ntype = fully_connected\nunit = 2\n"
    )
    assert load_text(text.format("NeuralNetwork")).notices == ()
    (notice,) = load_text(text.format("logistic_regresion")).notices
    assert "'logistic_regresion' has no effect" in str(notice)
    assert "did you mean 'logistic_regression'?" in str(notice)
