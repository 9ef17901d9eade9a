"""U038 over NNTrainer's public model files: weights saved in each format and loaded are the same bytes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from shared import shared_files
from small_models import weights

from nntrainer_py import Model
from nntrainer_py.errors import DescriptionError

#: larger models are of the same layers
PARAMETERS = 3_000_000


@pytest.mark.parametrize("path", shared_files("ini/*.ini") + shared_files("parity/*.ini"), ids=lambda path: path.stem)
def test_u038_every_public_model(tmp_path: Path, path: Path) -> None:
    """U038: both formats, into a model of another seed; and the self-describing file alone."""
    try:
        model = Model.from_ini(path).compile(batch_size=2, threads=1, seed=1)
    except DescriptionError:
        pytest.skip("refused by its own test")
    if sum(math.prod(weight.dim.shape) for weight in model.lowered().weights) > PARAMETERS:
        pytest.skip("large")
    random = np.random.default_rng(0)
    for array in model.weights().values():
        array[...] = random.normal(size=array.shape)
    for suffix in ("bin", "safetensors"):
        model.save(tmp_path / f"w.{suffix}")
        other = Model.from_ini(path).compile(batch_size=2, threads=1)
        other.load(tmp_path / f"w.{suffix}")
        assert weights(other) == weights(model)
    alone = Model.from_file(tmp_path / "w.safetensors")
    assert list(weights(alone).values()) == list(weights(model).values())
