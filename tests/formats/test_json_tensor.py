"""Lists of JSON values as tensors."""

from __future__ import annotations

import numpy as np
import pytest

from nntrainer_py.errors import WeightFileError
from nntrainer_py.formats import json_tensor, safetensors
from nntrainer_py.formats.safetensors import SafetensorsFile


def written(path, array):
    safetensors.save(path, {"it": array})
    return SafetensorsFile(path)


@pytest.mark.parametrize(
    "values",
    [
        [],
        ["a", "", "line\nbreak", "\u00e9\u4e2d", "\ud800"],
        [{"a": 1.5, "b": None}, [1, 2], 3],
        [float(2**60), 0.1, 1e-300],
    ],
)
def test_they_come_back_equal(tmp_path, values):
    with written(tmp_path / "f.safetensors", json_tensor.of_values(values)) as file:
        assert list(json_tensor.values(file, "it")) == values


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros(3, np.float32), "expected a row of bytes"),
        (np.zeros((2, 2), np.uint8), "expected a row of bytes"),
        (np.frombuffer(b"1\n2", np.uint8), "its last line has no end"),
        (np.frombuffer(b"1\n\n", np.uint8), "a line of it is no JSON"),
        (np.frombuffer(b"\xff\n", np.uint8), "a line of it is no JSON"),
        (np.frombuffer(b"[" * 100_000 + b"\n", np.uint8), "a line of it is no JSON"),
    ],
)
def test_what_is_damaged_is_told(tmp_path, array, message):
    with (
        written(tmp_path / "f.safetensors", array) as file,
        pytest.raises(WeightFileError, match=rf"f\.safetensors: tensor 'it': {message}"),
    ):
        list(json_tensor.values(file, "it"))
