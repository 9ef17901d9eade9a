"""input: both ways of scaling, alone and together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Case, case_id, check

from nntrainer_py.layers.input import Input


def constant_sample(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    x = rng.standard_normal(shape)
    x[0] = 0.1
    return x


def constant(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    return np.full(shape, 0.1)


OPTIONS: list[dict[str, Any]] = [
    {"normalization": True}, {"standardization": True}, {"normalization": True, "standardization": True},
]  # fmt: skip
CASES = [
    Case(
        lambda o=options: Input(**o),
        [shape],
        f"{'+'.join(options)} {shape} {fill.__name__ if fill else ''}",
        fill=fill,
        differentiable_inputs=[False],
    )
    for options in OPTIONS
    for shape, fill in [
        ((3, 2, 4, 5), None),
        ((1, 1, 1, 7), None),
        ((3, 1, 2, 5), constant_sample),
        ((2, 1, 1, 3), constant),
    ]
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)
