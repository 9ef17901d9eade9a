"""Layers that move or combine elements: flatten, reshape, identity, multiout, addition, concat, split, permute."""

from __future__ import annotations

import pytest
from harness import Case, case_id, check

from nntrainer_py.layers.addition import Addition
from nntrainer_py.layers.concat import Concat
from nntrainer_py.layers.flatten import Flatten
from nntrainer_py.layers.identity import Identity
from nntrainer_py.layers.multiout import MultiOut
from nntrainer_py.layers.permute import Permute
from nntrainer_py.layers.reshape import Reshape
from nntrainer_py.layers.split import Split

CASES = [
    Case(lambda: Flatten(), [(2, 3, 4, 5)], "flatten", in_place=True),
    Case(lambda: Flatten(start_dimension=2), [(2, 3, 4, 5)], "flatten the plane", in_place=True),
    Case(lambda: Flatten(end_dimension=2), [(1, 3, 4, 5)], "flatten channel and height", in_place=True),
    Case(lambda: Reshape(target_shape="5:3:4"), [(2, 3, 4, 5)], "reshape", in_place=True),
    Case(lambda: Identity(), [(2, 1, 1, 3), (2, 2, 1, 3)], "identity", outputs=2),
    Case(lambda: MultiOut(), [(2, 3, 1, 3)], "multiout", outputs=3),
    Case(lambda: Addition(), [(2, 3, 4, 5)] * 2, "addition of two", in_place=True),
    Case(lambda: Addition(), [(1, 3, 1, 5)] * 3, "addition of three", in_place=True),
    Case(lambda: Concat(), [(2, 1, 4, 5), (2, 2, 4, 5)], "concat, default for one channel"),
    Case(lambda: Concat(), [(2, 3, 4, 5), (2, 3, 4, 1)], "concat, default for channels"),
    Case(lambda: Concat(axis=2), [(2, 3, 4, 5), (2, 3, 1, 5), (2, 3, 2, 5)], "concat of three along the height"),
    Case(lambda: Split(axis=1), [(2, 3, 4, 5)], "split channels", outputs=3),
    Case(lambda: Split(axis=2, split_number=2), [(2, 3, 4, 5)], "split the height", outputs=2),
    Case(lambda: Split(axis=3, split_number=1), [(2, 3, 4, 5)], "split in one"),
    Case(lambda: Permute(direction="3,1,2"), [(2, 3, 4, 5)], "permute"),
    Case(lambda: Permute(direction=(2, 1, 3)), [(1, 3, 4, 5)], "swap"),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)
