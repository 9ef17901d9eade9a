"""Where each buffer lies: offsets in one arena, as small as a short search can make it.

A pure function over (size, first use, last use); it knows no operation, layer or network. Finding the smallest arena is
NP-hard, but the largest sum of bytes alive at one moment bounds it from below, and reaching that bound proves a plan
optimal. `place` tries a few greedy orders, each placing one buffer after the other at the lowest gap among those that
live at the same time, then repairs the best of them: whichever buffer breaks through the limit is placed earlier in
the next attempt ("squeaky wheel" optimization, Joslin and Clements 1999). The whole search is bounded by counts, never
by the clock, and its random numbers are seeded, so equal requests give equal plans on every machine.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

ALIGNMENT = 64
"""Bytes to which offsets and sizes are rounded: a cache line, and the widest vector register."""

ITERATIONS = 30_000
"""Attempts of the search after the greedy orders: about 0.2 s where none reaches the bound, most of them fail early."""

_VISITS = 8_000_000  # pairs of buffers the search may compare: well under a second, whatever the number of requests
_REPAIRED_ORDERS = 3  # greedy orders from which the search sets out
_UNLIMITED = 1 << 62


@dataclass(frozen=True, slots=True)
class Request:
    """One buffer: ``size`` bytes, alive from operation ``first`` to operation ``last``, both inclusive.

    ``weight_gradient`` matters to NNTrainer's planner v2 only.
    """

    size: int
    first: int
    last: int
    name: str = ""
    weight_gradient: bool = False

    def __post_init__(self) -> None:
        if self.size < 0:
            raise ValueError(f"request '{self.name}': expected a size of 0 bytes or more, got {self.size}")
        if self.last < self.first:
            raise ValueError(f"request '{self.name}': dies at {self.last}, before its first use at {self.first}")


@dataclass(frozen=True, slots=True)
class Placement:
    """A plan: ``offsets`` in request order and ``arena``, both in bytes; ``lower_bound`` no plan can beat.

    ``method`` names the order or planner that found it.
    """

    offsets: tuple[int, ...]
    arena: int
    lower_bound: int
    method: str

    @property
    def ratio(self) -> float:
        """Arena over lower bound: 1 is optimal."""
        return self.arena / self.lower_bound if self.lower_bound else 1.0


def place(
    requests: Sequence[Request], *, alignment: int = ALIGNMENT, seed: int = 0, iterations: int = ITERATIONS
) -> Placement:
    """Plan the arena: greedy orders, then at most ``iterations`` attempts to repair the best; stops at the lower bound.

    Deterministic in its arguments. Every offset is a multiple of ``alignment``; buffers of no bytes get offset 0.
    """
    problem = _Problem(requests, alignment)
    attempt = _search(problem, random.Random(seed), iterations)
    offsets = [0] * len(requests)
    for index, unit in zip(problem.indices, attempt.offsets, strict=True):
        offsets[index] = (problem.base + unit) * alignment
    floor = 0
    for index, units in problem.resident:  # alive throughout: at the bottom, one upon the other
        offsets[index] = floor * alignment
        floor += units
    bound = (problem.base + problem.bound) * alignment
    return Placement(tuple(offsets), (problem.base + attempt.top) * alignment, bound, attempt.method)


def lower_bound(requests: Sequence[Request], *, alignment: int = ALIGNMENT) -> int:
    """Largest sum of sizes, each rounded up to ``alignment``, alive at one moment: bytes no plan can go below."""
    return peak(requests, alignment=alignment)[1]


def peak(requests: Sequence[Request], *, alignment: int = ALIGNMENT) -> tuple[int, int]:
    """The first moment (operation index) at which most bytes are alive, and those bytes; (0, 0) without requests."""
    changes: dict[int, int] = {}
    for request in requests:
        size = aligned(request.size, alignment)
        changes[request.first] = changes.get(request.first, 0) + size
        changes[request.last + 1] = changes.get(request.last + 1, 0) - size
    moment, most, alive = 0, 0, 0
    for when in sorted(changes):
        alive += changes[when]
        if alive > most:
            moment, most = when, alive
    return moment, most


def aligned(size: int, alignment: int = ALIGNMENT) -> int:
    """``size`` rounded up to a multiple of ``alignment``."""
    return -(-size // alignment) * alignment


def validate(requests: Sequence[Request], placement: Placement, *, alignment: int = ALIGNMENT) -> None:
    """Raise ValueError unless every buffer is aligned, inside the arena and clear of all others alive with it."""
    if len(requests) != len(placement.offsets):
        raise ValueError(f"{len(requests)} requests, but {len(placement.offsets)} offsets")
    for request, offset in zip(requests, placement.offsets, strict=True):
        if offset < 0 or offset % alignment:
            raise ValueError(f"'{request.name}' lies at {offset}, not at a multiple of {alignment} bytes")
        if offset + request.size > placement.arena:
            end = offset + request.size
            raise ValueError(f"'{request.name}' ends at byte {end} of an arena of {placement.arena} bytes")
    if clash := next(_overlaps(requests, placement.offsets), None):
        one, other = (requests[index] for index in clash)
        raise ValueError(f"'{one.name}' and '{other.name}' overlap in memory while both are alive")


def _overlaps(requests: Sequence[Request], offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs of requests that share a byte at one moment; sweeps over time, neighbours by address suffice."""
    order = [index for index in range(len(requests)) if requests[index].size]
    events = sorted([(requests[i].first, 1, i) for i in order] + [(requests[i].last + 1, 0, i) for i in order])
    alive: list[tuple[int, int]] = []  # (offset, request), disjoint and ascending
    for _, starts, index in events:
        entry = (offsets[index], index)
        position = bisect_left(alive, entry)
        if not starts:
            del alive[position]
            continue
        if position and alive[position - 1][0] + requests[alive[position - 1][1]].size > offsets[index]:
            yield alive[position - 1][1], index
        if position < len(alive) and offsets[index] + requests[index].size > alive[position][0]:
            yield index, alive[position][1]
        alive.insert(position, entry)


class _Problem:
    """The requests that must be packed, in units of the alignment, on a time axis of only the moments that matter.

    Only moments at which a buffer is born and, before the next birth, one dies can hold a largest set of living
    buffers; any two that meet, meet in one of these. Buffers alive in all of them are ``resident`` and packed apart.
    """

    def __init__(self, requests: Sequence[Request], alignment: int) -> None:
        sized = [index for index, request in enumerate(requests) if request.size]
        births = sorted({requests[index].first for index in sized})
        deaths = {requests[index].last for index in sized}
        moments = sorted({births[bisect_right(births, death) - 1] for death in deaths})
        self.resident: list[tuple[int, int]] = []
        self.indices: list[int] = []
        self.sizes: list[int] = []
        self.first: list[int] = []
        self.last: list[int] = []
        for index in sized:
            request = requests[index]
            first, last = bisect_left(moments, request.first), bisect_right(moments, request.last) - 1
            units = -(-request.size // alignment)
            if first == 0 and last == len(moments) - 1:
                self.resident.append((index, units))
                continue
            self.indices.append(index)
            self.sizes.append(units)
            self.first.append(first)
            self.last.append(last)
        self.base = sum(units for _, units in self.resident)
        self.loads = self._loads(len(moments))
        self.bound = max(self.loads, default=0)

    def _loads(self, moments: int) -> list[int]:
        """Units alive at each moment, without the residents."""
        changes = [0] * (moments + 1)
        for size, first, last in zip(self.sizes, self.first, self.last, strict=True):
            changes[first] += size
            changes[last + 1] -= size
        loads, alive = [], 0
        for change in changes[:-1]:
            alive += change
            loads.append(alive)
        return loads

    def __len__(self) -> int:
        return len(self.sizes)

    def orders(self) -> Iterator[tuple[str, list[int]]]:
        """The greedy orders by name, the most promising first.

        Pressure, the largest load in a buffer's life, puts first what meets at the peak; among these long lives first
        makes stacks of nested lives (activations kept for their backward), large sizes first keeps gaps whole.
        """
        sizes = self.sizes
        lives = [last - first + 1 for first, last in zip(self.first, self.last, strict=True)]
        pressure = [max(self.loads[first : last + 1]) for first, last in zip(self.first, self.last, strict=True)]
        keys: dict[str, Callable[[int], tuple[float, ...]]] = {
            "pressure, life": lambda i: (-pressure[i], -lives[i], -sizes[i]),
            "size": lambda i: (-sizes[i], -lives[i]),
            "pressure, size": lambda i: (-pressure[i], -sizes[i], -lives[i]),
            "life": lambda i: (-lives[i], -sizes[i]),
            "size x life": lambda i: (-sizes[i] * lives[i], -sizes[i]),
            "size x root of life": lambda i: (-sizes[i] * math.sqrt(lives[i]), -sizes[i]),
        }
        for name, key in keys.items():
            yield name, sorted(range(len(self)), key=key)

    def first_fit(self, order: Sequence[int], limit: int) -> tuple[int, list[int], int]:
        """Place in ``order``, each at the lowest gap; give up at the first buffer that ends above ``limit``.

        Returns the top reached, the offsets and how many were placed (all: it fits; otherwise the position of the one
        that broke the limit).
        """
        sizes, firsts, lasts = self.sizes, self.first, self.last
        offsets = [0] * len(sizes)
        placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last; ascending
        top = 0
        for position, index in enumerate(order):
            size, first, last = sizes[index], firsts[index], lasts[index]
            offset = 0
            for low, high, born, dies in placed:
                if born <= last and dies >= first:
                    if low - offset >= size:
                        break
                    if high > offset:
                        offset = high
            end = offset + size
            if end > top:
                if end > limit:
                    return top, offsets, position
                top = end
            offsets[index] = offset
            insort(placed, (offset, end, first, last))
        return top, offsets, len(order)


@dataclass(frozen=True, slots=True)
class _Attempt:
    top: int
    offsets: list[int]
    method: str


def _search(problem: _Problem, rng: random.Random, iterations: int) -> _Attempt:
    """The best of the greedy orders, repaired while it is above the bound and work is left."""
    attempts: list[tuple[_Attempt, list[int]]] = []
    for name, order in problem.orders():
        top, offsets, _ = problem.first_fit(order, _UNLIMITED)
        attempts.append((_Attempt(top, offsets, name), order))
        if top <= problem.bound:
            return attempts[-1][0]
    attempts.sort(key=lambda attempt: attempt[0].top)  # stable: equal ones stay in the order of promise
    starts = attempts[:_REPAIRED_ORDERS]
    return _repair(problem, starts[0][0], [(attempt.method, order) for attempt, order in starts], rng, iterations)


def _repair(
    problem: _Problem, best: _Attempt, starts: list[tuple[str, list[int]]], rng: random.Random, iterations: int
) -> _Attempt:
    """Try again and again with the buffer that broke the limit moved to an earlier place, on each order in turn.

    The limit alternates: at the bound an attempt fails early and costs little; drawn from there up to just under the
    best plan so far it makes smaller gains too.
    """
    visits = 0
    for iteration in range(iterations):
        name, order = starts[iteration // 2 % len(starts)]
        limit = problem.bound if iteration % 2 else rng.randrange(problem.bound, best.top)
        top, offsets, count = problem.first_fit(order, limit)
        if count == len(order):
            best = _Attempt(top, offsets, f"search from {name}")
            if top <= problem.bound:
                break
        else:
            order.insert(int(count * rng.random()), order.pop(count))
        visits += count * count // 2
        if visits > _VISITS:
            break
    return best
