"""fully_connected through the harness: every path of the matrix product, odd sizes, one row."""

from __future__ import annotations

import numpy as np
import pytest
from harness import Case, case_id, check

from nntrainer_py import Model
from nntrainer_py.graph.description import load_text
from nntrainer_py.layers.fully_connected import FullyConnected

CASES = [
    Case(lambda: FullyConnected(unit=5), [(3, 1, 1, 4)], "small"),
    Case(lambda: FullyConnected(unit=1), [(1, 1, 1, 1)], "one of each"),
    Case(lambda: FullyConnected(unit=7, disable_bias=True), [(2, 3, 4, 5)], "last axis only, no bias"),
    Case(lambda: FullyConnected(unit=5, lora_rank=2), [(3, 1, 2, 4)], "low rank"),
    Case(lambda: FullyConnected(unit=5, lora_rank=3, lora_alpha=6.5), [(2, 2, 1, 7)], "low rank, scaled"),
    Case(lambda: FullyConnected(unit=5, lora_rank=1, lora_alpha=1, disable_bias=True), [(1, 1, 1, 2)], "rank one"),
    Case(lambda: FullyConnected(unit=33), [(17, 1, 1, 65)], "beyond one tile"),
    Case(lambda: FullyConnected(unit=96), [(40, 1, 1, 300)], "more than one block of depth", numeric=False),
    Case(lambda: FullyConnected(unit=130), [(64, 1, 2, 517)], "large enough for two threads", numeric=False),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)


def test_low_rank_training_leaves_the_weight_alone() -> None:
    """The first output is that of the weight alone, since A is zero; then only A and B move; NNTrainer's order."""
    text = (
        "[Model]\nbatch_size = 4\nloss = mse\n[Optimizer]\ntype = adamw\nweight_decay = 0.1\n"
        "[x]\ntype = input\ninput_shape = 5\n[fc]\ntype = fully_connected\nunit = 3\n"
    )
    plain, low = Model(load_text(text)), Model(load_text(text + "lora_rank = 2\nlora_alpha = 8\n"))
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    np.testing.assert_array_equal(low.predict(x), plain.predict(x))
    assert list(low.weights()) == ["fc:weight", "fc:bias", "fc:loraA", "fc:loraB"]
    before = {name: array.copy() for name, array in low.weights().items()}
    for _ in range(3):
        low.train_on_batch(x, np.ones((4, 3), np.float32))
    moved = [name for name, array in low.weights().items() if not np.array_equal(array, before[name])]
    assert moved == ["fc:loraA", "fc:loraB"]
    w = {name: array.astype(np.float64).reshape(array.shape[2:]) for name, array in low.weights().items()}
    expected = x @ w["fc:weight"] + w["fc:bias"] + 4 * (x @ w["fc:loraA"]) @ w["fc:loraB"]
    np.testing.assert_allclose(low.predict(x).reshape(4, 3), expected, rtol=1e-5, atol=1e-6)
