"""embedding: duplicate indices, indices outside the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Case, Feeds, build, case_id, check, compiled

from nntrainer_py.errors import DataError, DescriptionError
from nntrainer_py.graph.lower import Node, lower
from nntrainer_py.layers.embedding import Embedding
from nntrainer_py.tensor.dim import TensorDim


def indices(rows: int) -> Any:
    def make(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        return rng.integers(0, rows, shape) + rng.choice([0.0, 0.7], shape)  # truncated

    return make


def _case(rows: int, width: int, shape: tuple[int, int, int, int], **more: Any) -> Case:
    layer = lambda: Embedding(in_dim=rows, out_dim=width)  # noqa: E731
    return Case(layer, [shape], f"{rows}x{width} {shape}", fill=indices(rows), differentiable_inputs=[False], **more)


CASES = [
    _case(7, 5, (2, 1, 1, 4)),
    _case(2, 3, (3, 1, 1, 9)),
    _case(1, 1, (1, 1, 1, 1)),
    _case(300, 64, (16, 1, 1, 200), numeric=False),  # split over threads
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("bad", [-1.0, 7.0, 1e9, float("nan"), float("inf")])
def test_an_index_outside_names_its_sample(bad: float) -> None:
    def fill(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        x = np.zeros(shape)
        x[2, 0, 0, 1] = bad
        return x

    case = Case(lambda: Embedding(in_dim=7, out_dim=2), [(4, 1, 1, 3)], fill=fill)
    nodes, _ = build(case)
    lowered = lower(nodes, batch=4, training=True)
    with pytest.raises(DataError, match="sample 2"):
        compiled(lowered, Feeds(case))


def test_only_a_row_of_indices() -> None:
    node = Node("e", Embedding(in_dim=3, out_dim=2), [], [TensorDim(1, 1, 2, 3)])
    with pytest.raises(DescriptionError, match="expected indices of shape 1:1:W"):
        lower([node], batch=1, training=False)
