"""What a checkpoint says besides its tensors has no limit of length: epochs, columns, classes, scaled features."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nntrainer_py import Model
from nntrainer_py.data.normalization import Normalization
from nntrainer_py.errors import UsageError, WeightFileError
from nntrainer_py.formats import safetensors
from nntrainer_py.training import checkpoint
from nntrainer_py.training.history import EpochRow, History

COLUMNS = 200_000  # more than the header of a file of this size may describe


def built(inputs: int = 4) -> Model:
    layers = [("in", _layer("input", input_shape=f"1:1:{inputs}")), ("out", _layer("fully_connected", unit=2))]
    return Model.build(layers, model={"loss": "mse", "batch_size": 4}, optimizer="sgd").compile()


def _layer(keyword, **properties):
    from nntrainer_py.registry import LAYERS

    return LAYERS.load(keyword)(**properties)


def progress(history):
    return checkpoint.Progress(len(history), 0, True, {"seed": 0}, {}, history=history)


def test_a_very_long_history(tmp_path):
    path = tmp_path / "c.safetensors"
    rows = [
        EpochRow(n, 3 * n, 1 / n, {"accuracy": n / 20_000}, 0.1 + n, {"accuracy": 0.5}, 0.01, 0.25, 8)
        for n in range(1, 15_001)
    ]
    checkpoint.save(path, built(), progress(History(rows)), None)
    found, kept = checkpoint.restore(path, built(), {"seed": 0})
    assert list(found.history) == rows
    assert not kept


def test_very_many_columns_classes_and_scaled_features(tmp_path):
    model = built(COLUMNS)
    rng = np.random.default_rng(0)
    shift = rng.standard_normal((1, 1, COLUMNS), dtype=np.float32)
    scale = rng.random((1, 1, COLUMNS), dtype=np.float32) + np.float32(0.5)
    model.normalization = Normalization("standard", "feature", (shift,), (scale,))
    model.feature_names = tuple(f"a rather long name of a column, number {n}" for n in range(COLUMNS))
    model.class_names = ("no", "y\u00e9s")
    checkpoint.save(tmp_path / "c.safetensors", model, progress(History()), None)
    model.save(tmp_path / "m.safetensors")
    for name in ("c.safetensors", "m.safetensors"):
        again = built(COLUMNS)
        again.load(tmp_path / name)
        assert again.normalization == model.normalization
        assert again.feature_names == model.feature_names
        assert again.class_names == model.class_names
    whole = Model.from_file(tmp_path / "m.safetensors")
    assert whole.normalization == model.normalization


def test_many_columns_must_be_the_same_to_go_on(tmp_path):
    x, y = np.ones((8, 2000), np.float32), np.ones((8, 2), np.float32)
    path = tmp_path / "c.safetensors"
    model = built(2000)
    model.feature_names = tuple(f"c{n}" for n in range(2000))
    model.train(x, y, epochs=1, checkpoint=path)
    other = built(2000)
    other.feature_names = (*model.feature_names[1:], "c0")
    with pytest.raises(UsageError, match=r"input columns 2000 names \(hash [0-9a-f]{16}\), this one has 2000 names"):
        other.train(x, y, epochs=2, checkpoint=path, resume=True)
    other.feature_names = model.feature_names
    assert other.train(x, y, epochs=2, checkpoint=path, resume=True).epoch == 2


SCALING = {"method": "standard", "scope": "whole", "inputs": 1}
NUMBERS = {"data/shift/0": np.zeros((1, 1, 1), np.float32), "data/scale/0": np.ones((1, 1, 1), np.float32)}


@pytest.mark.parametrize(
    ("told", "changes", "message"),
    [
        ("{", {}, "its normalization cannot be read"),
        (json.dumps({**SCALING, "inputs": 2}), {}, "there is no tensor 'data/shift/1'"),
        (json.dumps({**SCALING, "inputs": 10**9}), {}, "its normalization cannot be read: for 1000000000 inputs"),
        (json.dumps({**SCALING, "method": "x"}), {}, "its normalization cannot be read: expected a method"),
        (json.dumps(SCALING), {"data/scale/0": np.zeros((1, 1, 1), np.float32)}, "a scale must be greater than 0"),
        (json.dumps(SCALING), {"data/shift/0": np.zeros((1, 1, 1), np.float64)}, "expected float32, got float64"),
        (
            json.dumps(SCALING),
            {"data/class_names": np.frombuffer(b"3\n", np.uint8)},
            "'data/class_names': expected names",
        ),
    ],
)
def test_a_damaged_description_changes_nothing(tmp_path, told, changes, message):
    model = built()
    before = {name: array.copy() for name, array in model.weights().items()}
    ones = {name: np.ones_like(array) for name, array in before.items()}
    path = tmp_path / "m.safetensors"
    safetensors.save(path, {**ones, **NUMBERS, **changes}, {"format": checkpoint.MODEL_FORMAT, "normalization": told})
    with pytest.raises(WeightFileError, match=message):
        model.load(path)
    assert model.normalization is None
    assert model.class_names is None
    for name, array in model.weights().items():
        np.testing.assert_array_equal(array, before[name])
