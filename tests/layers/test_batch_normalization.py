"""batch_normalization through the harness, and frozen."""

from __future__ import annotations

import pytest
from harness import Case, case_id, check

from nntrainer_py.layers.batch_normalization import BatchNormalization

CASES = [
    Case(lambda: BatchNormalization(), [(4, 3, 5, 2)], "channels"),
    Case(lambda: BatchNormalization(), [(5, 1, 1, 7)], "features"),
    Case(lambda: BatchNormalization(epsilon=1e-6, momentum=0.9), [(3, 1, 4, 5)], "features of a sequence"),
    Case(lambda: BatchNormalization(axis=2), [(3, 2, 4, 5)], "rows"),
    Case(lambda: BatchNormalization(axis=3), [(3, 2, 4, 5)], "columns"),
    Case(lambda: BatchNormalization(), [(8, 16, 33, 33)], "large enough for two threads", numeric=False),
    Case(lambda: BatchNormalization(trainable=False), [(4, 3, 2, 2)], "frozen", numeric=False),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)
