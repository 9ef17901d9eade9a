"""dropout through the harness; the share kept, masks over steps."""

from __future__ import annotations

import pytest
from harness import Case, case_id, check

from nntrainer_py.layers.dropout import Dropout

CASES = [
    Case(lambda: Dropout(dropout_rate=0.5), [(4, 3, 5, 2)], "half", in_place=True),
    Case(lambda: Dropout(dropout_rate=0.3), [(3, 1, 1, 7)], "odd width", in_place=True),
    Case(lambda: Dropout(dropout_rate=0.25), [(2, 1, 1, 3), (2, 2, 3, 1)], "two inputs", outputs=2, in_place=True),
    Case(lambda: Dropout(), [(2, 1, 1, 3)], "off"),
    Case(lambda: Dropout(dropout_rate=1.0), [(2, 1, 1, 3)], "all"),
    Case(lambda: Dropout(dropout_rate=0.5), [(64, 1, 1, 2050)], "large", numeric=False, in_place=True),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)
