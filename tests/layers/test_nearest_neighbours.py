"""nearest_neighbours through the harness: votes against the twin, what training stores, batch 1, odd sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Case, Feeds, build, case_id, check, compiled

from nntrainer_py.errors import DescriptionError
from nntrainer_py.graph.lower import lower
from nntrainer_py.layers.nearest_neighbours import NearestNeighbours


def one_hot(shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    return np.eye(shape[3])[rng.integers(0, shape[3], shape[0])].reshape(shape)


def store(count: int, classes: int) -> Any:
    """State with ``count`` stored samples; values of an 8 bit grid, so that float32 and float64 agree on ties."""

    def fill(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        if name == "stored":
            return np.full(shape, count)
        if name == "classes":
            return rng.integers(0, classes, shape)
        return np.round(rng.standard_normal(shape) * 8) / 8

    return fill


CASES = [
    Case(
        lambda k=classes, n=neighbours: NearestNeighbours(num_class=k, neighbours=n, capacity=9),
        [shape],
        f"{neighbours} of {count} stored, {classes} classes, {shape}",
        label=one_hot,
        weights=store(count, classes),
        differentiable_inputs=[False],
    )
    for classes, neighbours, count, shape in [
        (3, 1, 9, (5, 1, 1, 4)), (3, 4, 6, (5, 1, 1, 4)), (1, 2, 3, (1, 1, 1, 1)), (7, 5, 2, (4, 2, 3, 2)),
        (2, 3, 0, (3, 1, 1, 5)), (2, 9, 13, (3, 1, 1, 5)), (4, 3, 17, (3, 1, 1, 5)),
    ]
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)


def test_a_stored_sample_is_not_stored_again() -> None:
    x = np.array([[1.0, 2], [3, 4], [1, 2], [1, 2]]).reshape(4, 1, 1, 2)
    label = np.eye(2)[[0, 1, 0, 1]].reshape(4, 1, 1, 2)  # the last: the same numbers, another class
    case = Case(
        lambda: NearestNeighbours(num_class=2, capacity=5), [x.shape], fill=lambda i, shape, r: x,
        label=lambda shape, r: label, weights=lambda name, shape, r: np.zeros(shape),
    )  # fmt: skip
    nodes, _ = build(case, training=False)
    results, _, _ = compiled(lower(nodes, batch=4, training=True), Feeds(case))
    assert results["state layer:stored"].item() == 3
    np.testing.assert_array_equal(results["state layer:classes"].reshape(-1), [0, 1, 1, 0, 0])
    np.testing.assert_array_equal(results["state layer:samples"].reshape(-1, 2)[:3], [[1, 2], [3, 4], [1, 2]])


def test_more_neighbours_than_fit_are_refused() -> None:
    nodes, _ = build(Case(lambda: NearestNeighbours(num_class=2, neighbours=4, capacity=3), [(1, 1, 1, 2)]))
    with pytest.raises(DescriptionError, match="neighbours: expected at most the capacity, 3, got 4"):
        lower(nodes, batch=1, training=True)
