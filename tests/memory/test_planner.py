"""The planner: valid for any requests, optimal on tiny ones, near the lower bound on random and network-like ones.

The full 10,000 random sets: ``pytest -m slow tests/memory/test_planner.py``.
"""

from __future__ import annotations

import itertools
import random
import statistics

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from memory.painting import fullest_moment, painted_twice
from memory.request_sets import NETWORKS, STEPS, random_set, training_step

from nntrainer_py.memory.planner import Placement, Request, lower_bound, peak, place, validate

REQUEST_LISTS = st.lists(
    st.builds(
        lambda size, first, life, number: Request(size, first, first + life, f"r{number}"),
        st.one_of(st.just(0), st.integers(0, 2000), st.integers(0, 30).map(lambda n: 64 * n)),
        st.integers(0, 30),
        st.one_of(st.just(0), st.integers(0, 30)),
        st.integers(0, 99),
    ),
    max_size=30,
)


@settings(deadline=None, max_examples=300)
@given(REQUEST_LISTS, st.sampled_from([1, 16, 64, 4096]))
@example([], 64)
@example([Request(0, 0, 0)], 64)
@example([Request(1, 3, 3)], 64)
def test_any_requests_get_a_valid_plan(requests: list[Request], alignment: int) -> None:
    placement = place(requests, alignment=alignment, iterations=200)
    assert all(offset % alignment == 0 for offset in placement.offsets)
    assert all(o + r.size <= placement.arena for r, o in zip(requests, placement.offsets, strict=True))
    assert painted_twice(requests, placement, alignment) == 0
    assert placement.lower_bound == fullest_moment(requests, alignment) <= placement.arena
    assert placement.lower_bound == lower_bound(requests, alignment=alignment)
    validate(requests, placement, alignment=alignment)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 5000), max_size=40))
def test_all_alive_together_lie_side_by_side(sizes: list[int]) -> None:
    # the third moves within the others' lives, so that they are not simply the buffers alive throughout
    requests = [Request(size, number % 3, 10 + number % 5) for number, size in enumerate(sizes)]
    placement = place(requests)
    assert placement.arena == sum(-(-size // 64) * 64 for size in sizes)
    assert painted_twice(requests, placement, 64) == 0


def test_no_requests() -> None:
    assert place([]) == Placement((), 0, 0, "pressure, life")
    assert place([]).ratio == 1.0
    assert peak([]) == (0, 0)


def test_one_request_starts_at_zero_and_is_rounded_up() -> None:
    placement = place([Request(65, 7, 9)])
    assert (placement.offsets, placement.arena, placement.lower_bound) == ((0,), 128, 128)


def test_buffers_that_never_meet_share_their_bytes() -> None:
    placement = place([Request(640, 0, 4), Request(640, 5, 9), Request(64, 10, 10)])
    assert (placement.offsets, placement.arena) == ((0, 0, 0), 640)


def test_last_use_is_inclusive() -> None:
    assert place([Request(64, 0, 5), Request(64, 5, 9)]).arena == 128


def test_the_peak_is_the_first_fullest_moment() -> None:
    requests = [Request(64, 0, 1), Request(60, 4, 8), Request(64, 6, 6), Request(1, 9, 9), Request(100, 9, 9)]
    assert peak(requests) == (9, 192)
    assert peak(requests[:3]) == (6, 128)


@pytest.mark.parametrize(("size", "first", "last"), [(-1, 0, 0), (4, 3, 2)])
def test_impossible_requests_are_refused(size: int, first: int, last: int) -> None:
    with pytest.raises(ValueError, match="request 'x'"):
        Request(size, first, last, "x")


def best_of_all_orders(requests: list[Request]) -> int:
    """The optimum: any plan, pushed down, is what first fit makes of its buffers in order of address."""
    best = sum(request.size for request in requests)
    for order in itertools.permutations(requests):
        placed: list[tuple[int, Request]] = []
        for request in order:
            rivals = [(o, r) for o, r in placed if r.first <= request.last and request.first <= r.last]
            spots = [0, *(o + r.size for o, r in rivals)]
            free = [s for s in spots if all(s + request.size <= o or o + r.size <= s for o, r in rivals)]
            placed.append((min(free), request))
        best = min(best, max(o + r.size for o, r in placed))
    return best


def test_tiny_sets_reach_the_optimum() -> None:
    rng = random.Random(4)
    above_bound = 0
    for _ in range(60):
        requests = []
        for _ in range(6):
            first = rng.randrange(6)
            requests.append(Request(64 * rng.randint(1, 5), first, first + rng.randint(0, 3)))
        placement = place(requests)
        assert placement.arena == best_of_all_orders(requests)
        above_bound += placement.arena > placement.lower_bound
    assert above_bound < 10


UNREACHABLE = [(1, 4, 6), (1, 3, 4), (2, 6, 8), (2, 5, 8), (2, 2, 2), (3, 0, 3), (1, 4, 5), (1, 3, 5), (1, 0, 1)]
"""Units, first, last: 5 units are alive at the fullest moment, yet no arena of 5 holds them."""


def shifted(copies: int) -> list[Request]:
    """`UNREACHABLE` again and again, one after the other."""
    return [Request(64 * size, first + 9 * n, last + 9 * n) for n in range(copies) for size, first, last in UNREACHABLE]


def fits(requests: list[Request], arena: int, offsets: tuple[int, ...] = ()) -> bool:
    """Whether any plan of ``arena`` bytes exists: tries every offset for every buffer."""
    if len(offsets) == len(requests):
        return True
    new = requests[len(offsets)]
    rivals = [(o, r) for o, r in zip(offsets, requests, strict=False) if r.first <= new.last and new.first <= r.last]
    return any(
        all(offset + new.size <= o or o + r.size <= offset for o, r in rivals)
        and fits(requests, arena, (*offsets, offset))
        for offset in range(0, arena - new.size + 1, 64)
    )


def test_where_the_bound_cannot_be_reached() -> None:
    requests = shifted(1)
    placement = place(requests)
    validate(requests, placement)
    assert (placement.lower_bound, placement.arena) == (5 * 64, 6 * 64)
    assert not fits(requests, 5 * 64)
    assert fits(requests, 6 * 64)


def test_equal_requests_give_equal_plans_whatever_the_names() -> None:
    for seed in range(20):
        requests = random_set(random.Random(seed))
        renamed = [Request(r.size, r.first, r.last, "other") for r in requests]
        assert place(requests) == place(renamed)


def hard_set() -> list[Request]:
    """A random set on which every greedy order stays above the bound."""
    for seed in itertools.count():
        requests = random_set(random.Random(seed))
        if place(requests, iterations=0).ratio > 1.01:
            return requests
    raise AssertionError


def test_the_search_improves_on_the_greedy_orders() -> None:
    requests = hard_set()
    greedy, searched = place(requests, iterations=0), place(requests)
    assert searched.arena < greedy.arena
    assert searched.method.startswith("search from ")
    validate(requests, searched)


def test_the_search_is_bounded() -> None:
    """A search that can never succeed ends: by its count of attempts, and with many buffers by its count of work."""
    requests = shifted(300)
    placement = place(requests, iterations=10**9)
    validate(requests, placement)
    assert (placement.lower_bound, placement.arena) == (5 * 64, 6 * 64)


@pytest.mark.parametrize(
    ("requests", "placement", "message"),
    [
        ([Request(64, 0, 1)], Placement((), 64, 64, ""), "1 requests, but 0 offsets"),
        ([Request(64, 0, 1, "a")], Placement((32,), 128, 64, ""), "'a' lies at 32"),
        ([Request(64, 0, 1, "a")], Placement((-64,), 128, 64, ""), "'a' lies at -64"),
        ([Request(65, 0, 1, "a")], Placement((0,), 64, 128, ""), "'a' ends at byte 65"),
        ([Request(65, 0, 1, "a"), Request(1, 1, 2, "b")], Placement((0, 64), 128, 192, ""), "'a' and 'b' overlap"),
        ([Request(1, 1, 2, "b"), Request(65, 0, 1, "a")], Placement((64, 0), 128, 192, ""), "'a' and 'b' overlap"),
        ([Request(64, 0, 1, "a"), Request(64, 0, 1, "b")], Placement((0, 0), 128, 128, ""), "overlap"),
    ],
)
def test_validate_refuses(requests: list[Request], placement: Placement, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        validate(requests, placement)


def test_validate_finds_every_single_overlap() -> None:
    """Move one buffer of a valid plan about: validate and the painted canvas agree on every position."""
    rng = random.Random(2)
    refused = accepted = 0
    for _ in range(300):
        requests = [
            Request(rng.randint(0, 300), first, first + rng.randint(0, 4))
            for first in (rng.randrange(8) for _ in range(9))
        ]
        placement = place(requests)
        offsets = list(placement.offsets)
        offsets[rng.randrange(9)] = 64 * rng.randint(0, 8)
        moved = Placement(tuple(offsets), 4096, placement.lower_bound, "moved")
        if painted_twice(requests, moved, 1):
            refused += 1
            with pytest.raises(ValueError, match="overlap"):
                validate(requests, moved)
        else:
            accepted += 1
            validate(requests, moved)
    assert refused > 30
    assert accepted > 30


def ratios_of_random_sets(count: int) -> list[float]:
    rng = random.Random(2024)
    ratios = []
    for _ in range(count):
        requests = random_set(rng)
        assert max(request.last for request in requests) < STEPS
        placement = place(requests)
        validate(requests, placement)
        assert placement.lower_bound == lower_bound(requests)
        ratios.append(placement.ratio)
    return sorted(ratios)


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_sets_come_near_the_bound(count: int) -> None:
    ratios = ratios_of_random_sets(count)
    assert statistics.median(ratios) <= 1.01
    assert ratios[int(0.99 * count)] <= 1.10
    print(
        f"{count} random sets: {sum(ratio == 1 for ratio in ratios)} at the bound, "
        f"median {statistics.median(ratios):.4f}, 99 % {ratios[int(0.99 * count)]:.4f}, worst {ratios[-1]:.4f}"
    )


@pytest.mark.parametrize("layers", [3, 10, 30, 100, 300])
@pytest.mark.parametrize("network", NETWORKS)
def test_training_steps_come_within_two_percent(network: str, layers: int) -> None:
    for seed in range(5):
        rng = random.Random(f"{network} {layers} {seed}")
        requests = training_step(NETWORKS[network](layers, rng), rng, skips=network == "hourglass")
        placement = place(requests)
        validate(requests, placement)
        assert placement.ratio <= 1.02
