"""Compiling again does not throw loaded weights away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memory.nets import model

from nntrainer_py import Model
from nntrainer_py.errors import WeightFileError

X = np.random.default_rng(0).standard_normal((8, 1, 1, 96)).astype(np.float32)
Y = np.arange(8) % 10


@pytest.fixture
def trained(tmp_path: Path) -> Model:
    made = model("mlp", tmp_path).compile(8, threads=1, seed=5)
    made.train(X, Y, epochs=2)
    made.save(tmp_path / "w.safetensors")
    made.save(tmp_path / "w.bin")
    return made


@pytest.mark.parametrize("name", ["w.safetensors", "w.bin"])
@pytest.mark.parametrize(
    "options", [{}, {"training": False, "memory_budget": 1 << 20}, {"memory_budget": 1 << 20}, {"swap": True}]
)
def test_loaded_weights_stay(name: str, options: dict[str, Any], trained: Model, tmp_path: Path) -> None:
    again = Model.from_ini(tmp_path / "mlp.ini")
    again.load(tmp_path / name)
    again.compile(4, threads=1, swap_folder=str(tmp_path), **options)
    assert not again.compiled.plans.begun  # no memory is taken yet
    np.testing.assert_array_equal(again.predict(X), trained.predict(X))
    assert again.epoch == trained.epoch
    for key, array in trained.weights().items():
        np.testing.assert_array_equal(again.weights()[key], array)


def test_of_a_file_with_its_description(trained: Model, tmp_path: Path) -> None:
    again = Model.from_file(tmp_path / "w.safetensors").compile(memory_budget=1 << 20, threads=1)
    assert again.evaluate(X, Y) == trained.evaluate(X, Y)
    again.train(X, Y, epochs=1)
    again.compile(threads=1)
    np.testing.assert_array_equal(again.predict(X), trained.predict(X))  # as loaded, not as trained since


def test_without_a_file_they_start_anew(tmp_path: Path) -> None:
    made = model("mlp", tmp_path).compile(8, threads=1)
    first = made.predict(X)
    made.train(X, Y, epochs=1)
    assert np.abs(made.predict(X) - first).max() > 0
    np.testing.assert_array_equal(made.compile(8, threads=1).predict(X), first)


def test_a_file_that_is_gone(trained: Model, tmp_path: Path) -> None:
    again = Model.from_file(tmp_path / "w.safetensors")
    (tmp_path / "w.safetensors").unlink()
    again.compile(threads=1)
    for _ in range(2):
        with pytest.raises(WeightFileError, match=r"w\.safetensors: no such file"):
            again.predict(X)


def test_freezing_layers_does_not_load_again(trained: Model, tmp_path: Path) -> None:
    again = Model.from_file(tmp_path / "w.safetensors").compile(8, threads=1)
    again.train(X, Y, epochs=1)
    before = {key: array.copy() for key, array in again.weights().items()}
    again.set_trainable(False, "a")
    for key, array in again.weights().items():
        np.testing.assert_array_equal(array, before[key])
