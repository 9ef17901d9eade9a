"""fully_connected through the harness: every path of the matrix product, odd sizes, one row."""

from __future__ import annotations

import pytest
from harness import Case, case_id, check

from nntrainer_py.layers.fully_connected import FullyConnected

CASES = [
    Case(lambda: FullyConnected(unit=5), [(3, 1, 1, 4)], "small"),
    Case(lambda: FullyConnected(unit=1), [(1, 1, 1, 1)], "one of each"),
    Case(lambda: FullyConnected(unit=7, disable_bias=True), [(2, 3, 4, 5)], "last axis only, no bias"),
    Case(lambda: FullyConnected(unit=33), [(17, 1, 1, 65)], "beyond one tile"),
    Case(lambda: FullyConnected(unit=96), [(40, 1, 1, 300)], "more than one block of depth", numeric=False),
    Case(lambda: FullyConnected(unit=130), [(64, 1, 2, 517)], "large enough for two threads", numeric=False),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)
