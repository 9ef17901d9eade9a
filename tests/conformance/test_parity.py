"""Recorded runs of NNTrainer itself: initial weights from the INI alone, losses, final weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from shared import shared_files

from nntrainer_py.model import Model


@pytest.mark.parametrize("path", shared_files("parity/*.ini"), ids=lambda path: path.stem)
def test_run_equals_nntrainers(path: Path) -> None:
    with np.load(path.with_suffix(".npz")) as recorded:
        run = {name: recorded[name] for name in recorded.files}
    batch = int(run["batch"])
    model = Model.from_ini(path).compile(batch, threads=1, convolution="direct")
    weights = model.weights()
    start = np.concatenate([array.reshape(-1) for array in weights.values()])
    assert [array.size for array in weights.values()] == [int(text.split("|")[1]) for text in run["tensors"]]
    np.testing.assert_allclose(start, run["weights_before"], atol=1e-7, rtol=0)
    samples, losses = len(run["x"]), []
    for step in range(len(run["losses"])):
        chosen = np.arange(step * batch, (step + 1) * batch) % samples
        losses.append(model.train_on_batch(run["x"][chosen], run["y"][chosen]))
    np.testing.assert_allclose(losses, run["losses"], rtol=1e-5)
    end = np.concatenate([array.reshape(-1) for array in weights.values()])
    np.testing.assert_allclose(end, run["weights_after"], atol=1e-5, rtol=1e-5)
