"""layer_normalization over every set of axes, with a gamma that is not one; rmsnorm."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from harness import Case, case_id, check

from nntrainer_py.errors import PropertyError, UsageError
from nntrainer_py.layers.layer_normalization import LayerNormalization

AXES = [axes for count in (1, 2, 3) for axes in itertools.combinations((1, 2, 3), count)]


def _case(axes: tuple[int, ...], shape: tuple[int, int, int, int], **more: Any) -> Case:
    name = f"axes {','.join(map(str, axes))} {shape}"
    return Case(lambda: LayerNormalization(axis=axes), [shape], name, **more)


CASES = [_case(axes, shape) for axes in AXES for shape in [(2, 3, 4, 5), (1, 2, 3, 7)]]
CASES += [
    Case(lambda: LayerNormalization(axis="3,1", epsilon=0.1), [(3, 2, 1, 5)], "another epsilon"),
    _case((3,), (8, 4, 16, 300), numeric=False),  # split over threads
    _case((1,), (8, 32, 24, 24), numeric=False),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("axis", ["0", "4", "1,1", "1,2,3,3"])
def test_bad_axes_are_refused(axis: str) -> None:
    with pytest.raises((PropertyError, UsageError), match="axis"):
        LayerNormalization(axis=axis)
