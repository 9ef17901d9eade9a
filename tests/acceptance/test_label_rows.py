"""U013 for the fast way in: arrays that need no conversion are still refused with a label row of no distribution."""

from __future__ import annotations

import numpy as np
import pytest

from nntrainer_py import DataError, Model
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.optimizers.sgd import Sgd
from nntrainer_py.registry import LOSSES


@pytest.mark.parametrize("loss", ["cross_softmax", "focal", "kld"])
@pytest.mark.parametrize("total", [0.0, 2.0])
def test_u013_row_that_is_no_distribution_names_its_sample(loss: str, total: float) -> None:
    activation = "softmax" if loss == "kld" else "none"
    layers = [
        ("in", Input(input_shape="1:1:4")),
        ("out", FullyConnected(unit=3, activation=activation)),
        ("loss", LOSSES.load(loss)()),
    ]
    model = Model.build(layers, optimizer=Sgd(learning_rate=0.1)).compile(2, threads=1)
    x = np.ones((2, 1, 1, 4), np.float32)
    y = np.zeros((2, 1, 1, 3), np.float32)
    y[:, 0, 0, 0] = 1.0, total
    before = {name: array.copy() for name, array in model.weights().items()}
    with pytest.raises(DataError, match="sample 1"):
        model.train_on_batch(x, y)
    for name, array in model.weights().items():
        np.testing.assert_array_equal(array, before[name])
