"""NNTrainer's planners: layouts worked out by hand from their description, and validity for any requests."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory.painting import painted_twice
from memory.request_sets import NETWORKS, random_set, training_step

from nntrainer_py.memory.nntrainer_planners import PLANNERS, basic, optimized_v1, optimized_v2, optimized_v3
from nntrainer_py.memory.planner import Request, lower_bound, validate


def test_basic_uses_no_byte_twice() -> None:
    placement = basic([Request(100, 0, 0), Request(0, 1, 1), Request(64, 2, 2), Request(1, 3, 3)])
    assert placement.offsets == (0, 128, 128, 192)
    assert (placement.arena, placement.lower_bound) == (256, 128)


def test_without_rounding_the_bytes_are_the_originals() -> None:
    placement = basic([Request(100, 0, 0), Request(30, 1, 1)], alignment=1)
    assert (placement.offsets, placement.arena) == ((0, 100), 130)


def test_v1_stacks_pops_and_replaces_equal_sizes() -> None:
    requests = [
        Request(64, 0, 9, "kept"),
        Request(128, 0, 1, "dies below the top"),  # born with the one above but dies first: sorted before it
        Request(64, 1, 5, "on top"),
        Request(64, 2, 3, "does not fit the dead of another size"),
        Request(128, 3, 4, "takes the place of the dead of its size"),
        Request(192, 6, 7, "the dead above are popped"),
    ]
    placement = optimized_v1(requests)
    #                            sorted: 128 (0-1), 64 (0-9), 64 (1-5), 64 (2-3), 128 (3-4), 192 (6-7)
    assert placement.offsets == (128, 0, 192, 256, 0, 192)
    assert (placement.arena, placement.method) == (384, "optimized_v1")


def test_v1_wastes_a_gap_of_another_size_that_v3_fills() -> None:
    requests = [Request(256, 0, 0), Request(64, 0, 5), Request(128, 1, 2), Request(128, 1, 2)]
    assert optimized_v1(requests).offsets == (0, 256, 320, 448)
    assert optimized_v3(requests).offsets == (0, 256, 0, 128)
    assert (optimized_v1(requests).arena, optimized_v3(requests).arena) == (576, 320)


def test_v2_packs_weight_gradients_above_largest_first() -> None:
    requests = [
        Request(64, 0, 9),
        Request(64, 0, 2, "small", weight_gradient=True),
        Request(192, 3, 5, "largest", weight_gradient=True),
        Request(128, 5, 6, "meets the largest", weight_gradient=True),
        Request(64, 6, 8, "meets the second, not the largest", weight_gradient=True),
    ]
    placement = optimized_v2(requests)
    assert placement.offsets == (0, 64, 64, 256, 64)
    assert placement.arena == 64 + 192 + 128


def test_v2_shares_no_block_where_one_life_contains_another() -> None:
    """The original's test for a meeting of lives misses this case."""
    requests = [Request(128, 3, 4, weight_gradient=True), Request(64, 2, 5, weight_gradient=True)]
    assert optimized_v2(requests).offsets == (0, 128)


def test_v2_without_weight_gradients_is_v1() -> None:
    requests = random_set(random.Random(3))
    assert optimized_v2(requests).offsets == optimized_v1(requests).offsets


@pytest.mark.parametrize("name", PLANNERS)
@settings(deadline=None, max_examples=150)
@given(
    requests=st.lists(
        st.builds(
            lambda size, first, life, gradient: Request(size, first, first + life, weight_gradient=gradient),
            st.one_of(st.just(0), st.integers(0, 500), st.sampled_from([64, 128, 256])),
            st.integers(0, 20),
            st.integers(0, 10),
            st.booleans(),
        ),
        max_size=25,
    ),
    alignment=st.sampled_from([1, 64]),
)
def test_any_requests_get_a_valid_plan(name: str, requests: list[Request], alignment: int) -> None:
    placement = PLANNERS[name](requests, alignment=alignment)
    assert painted_twice(requests, placement, 1) == 0
    validate(requests, placement, alignment=alignment)
    assert placement.lower_bound == lower_bound(requests, alignment=alignment) <= placement.arena


@pytest.mark.parametrize("network", NETWORKS)
def test_ours_is_never_larger(network: str) -> None:
    rng = random.Random(network)
    requests = training_step(NETWORKS[network](40, rng), rng, skips=network == "hourglass")
    arenas = {name: planner(requests).arena for name, planner in PLANNERS.items()}
    assert arenas["search"] == min(arenas.values())
    assert arenas["optimized_v1"] < arenas["basic"]
