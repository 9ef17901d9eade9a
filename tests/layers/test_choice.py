"""Layers that choose or reorder elements: slice, gather, transpose, channel_shuffle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Case, Feeds, build, case_id, check, compiled

from nntrainer_py.errors import DataError, DescriptionError, UsageError
from nntrainer_py.graph.lower import lower
from nntrainer_py.layers.channel_shuffle import ChannelShuffle
from nntrainer_py.layers.gather import Gather
from nntrainer_py.layers.slice import Slice
from nntrainer_py.layers.transpose import Transpose


def _indices(size: int) -> Any:
    def make(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        return rng.standard_normal(shape) if index == 0 else rng.integers(0, size, shape)

    return make


def _gather(axis: int, data: tuple[int, int, int, int], chosen: tuple[int, int, int, int]) -> Case:
    return Case(
        lambda: Gather(axis=axis), [data, chosen], f"gather {axis} {data} {chosen}", fill=_indices(data[axis]),
        differentiable_inputs=[True, False],
    )  # fmt: skip


def _slice(axis: int, start: int, end: int, shape: tuple[int, int, int, int]) -> Case:
    layer = lambda: Slice(axis=axis, start_index=start, end_index=end)  # noqa: E731
    return Case(layer, [shape], f"slice {axis} {start}:{end} {shape}")


CASES = [
    _slice(1, 1, 2, (2, 3, 4, 5)),
    _slice(2, 2, 5, (2, 3, 4, 5)),
    _slice(3, 3, 4, (2, 3, 4, 5)),
    _slice(1, 2, 4, (1, 3, 4, 5)),
    _slice(2, 2, 3, (1, 1, 4, 5)),
    _slice(3, 1, 6, (2, 3, 4, 5)),
    _gather(1, (2, 3, 4, 5), (2, 6, 4, 5)),
    _gather(2, (2, 3, 4, 5), (2, 1, 7, 1)),
    _gather(3, (2, 3, 4, 5), (1, 1, 1, 2)),
    _gather(3, (1, 1, 1, 1), (1, 1, 1, 3)),
    *(Case(lambda a=axis: Transpose(axis=a), [(2, 3, 4, 5)], f"transpose {axis}") for axis in (0, 1, 2)),
    Case(lambda: Transpose(), [(1, 1, 4, 5)], "transpose, default"),
    Case(lambda: ChannelShuffle(split_number=2), [(2, 6, 3, 4)], "shuffle 2"),
    Case(lambda: ChannelShuffle(split_number=3), [(1, 6, 1, 1)], "shuffle 3"),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)


def test_a_contiguous_slice_is_a_view() -> None:
    nodes, _ = build(_slice(1, 2, 4, (1, 3, 4, 5)), training=False)
    assert lower(nodes, batch=1, training=False).operations == []


def test_shuffled_channels() -> None:
    case = Case(lambda: ChannelShuffle(split_number=2), [(1, 6, 1, 1)], fill=lambda i, s, rng: np.arange(6).reshape(s))
    nodes, _ = build(case, training=False)
    results, _, _ = compiled(lower(nodes, batch=1, training=False), Feeds(case))
    np.testing.assert_array_equal(results["output 0"].reshape(-1), [0, 3, 1, 4, 2, 5])


@pytest.mark.parametrize("bad", [-1.0, 4.0, float("nan")])
def test_an_index_outside_names_its_sample(bad: float) -> None:
    def fill(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        x = np.zeros(shape)
        if index == 1:
            x[1, 0, 1] = bad
        return x

    case = Case(lambda: Gather(axis=2), [(3, 1, 4, 2), (3, 1, 2, 1)], fill=fill)
    nodes, _ = build(case, training=False)
    with pytest.raises(DataError, match="sample 1"):
        compiled(lower(nodes, batch=3, training=False), Feeds(case))


@pytest.mark.parametrize(
    ("layer", "inputs", "message"),
    [
        (lambda: Slice(axis=3, start_index=1, end_index=7), [(1, 1, 1, 5)], "end_index: expected at most 6"),
        (lambda: ChannelShuffle(split_number=4), [(1, 6, 1, 1)], "split_number: expected a divisor of the 6"),
        (lambda: ChannelShuffle(split_number=6), [(1, 6, 1, 1)], "split_number"),
        (lambda: Gather(axis=1), [(1, 2, 3, 4)], "expected two inputs"),
        (lambda: Gather(axis=1), [(1, 2, 3, 4), (1, 5, 2, 4)], "expected 1 or 3 on axis 2"),
    ],
)
def test_what_does_not_fit_is_refused(layer: Any, inputs: Any, message: str) -> None:
    nodes, _ = build(Case(layer, inputs))
    with pytest.raises(DescriptionError, match=message):
        lower(nodes, batch=1, training=True)


def test_an_empty_slice_is_refused() -> None:
    with pytest.raises(UsageError, match="end_index"):
        Slice(axis=1, start_index=2, end_index=2)
