"""NNTrainer's planners on the same requests and with the same result, so that the figures stand side by side.

All four go through the requests once, in a fixed order, and never move a buffer again. Sizes are rounded up to
``alignment`` here as in our own planner; ``alignment=1`` gives the byte counts of the original, which does not round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from nntrainer_py.memory.planner import ALIGNMENT, Placement, Request, aligned, lower_bound, place


class Planner(Protocol):
    """A function that gives every request its offset."""

    def __call__(self, requests: Sequence[Request], *, alignment: int = ALIGNMENT) -> Placement: ...


def basic(requests: Sequence[Request], *, alignment: int = ALIGNMENT) -> Placement:
    """All buffers side by side, no byte used twice: what memory_optimization=false asks for."""
    offsets, arena = [], 0
    for request in requests:
        offsets.append(arena)
        arena += aligned(request.size, alignment)
    return _placement("basic", requests, offsets, alignment)


def optimized_v1(requests: Sequence[Request], *, alignment: int = ALIGNMENT) -> Placement:
    """A stack: each buffer on top of the living, or in the place of a dead one of exactly its size. The default."""
    offsets = [0] * len(requests)
    _stack(requests, range(len(requests)), offsets, alignment)
    return _placement("optimized_v1", requests, offsets, alignment)


def optimized_v2(requests: Sequence[Request], *, alignment: int = ALIGNMENT) -> Placement:
    """v1 for all but weight gradients; those lie above, largest first, sharing blocks where their lives do not meet.

    The original's test for a meeting of lives misses some: a newcomer that is born earlier than the member and dies
    within its life, say. Here no two lives in a block meet, as that planner says of itself.
    """
    offsets = [0] * len(requests)
    gradients = [index for index, request in enumerate(requests) if request.weight_gradient]
    others = [index for index, request in enumerate(requests) if not request.weight_gradient]
    top = _stack(requests, others, offsets, alignment)
    blocks: list[list[int]] = []  # members; the first is the largest and opened the block
    for index in sorted(gradients, key=lambda i: -requests[i].size):
        for members in blocks:
            if not any(_meet(requests[index], requests[member]) for member in members):
                members.append(index)
                offsets[index] = offsets[members[0]]
                break
        else:
            blocks.append([index])
            offsets[index] = top
            top += aligned(requests[index].size, alignment)
    return _placement("optimized_v2", requests, offsets, alignment)


def optimized_v3(requests: Sequence[Request], *, alignment: int = ALIGNMENT) -> Placement:
    """First fit in order of birth: the lowest gap between the living that is large enough."""
    offsets = [0] * len(requests)
    alive: list[int] = []
    for index in _by_birth(requests, range(len(requests))):
        alive = [other for other in alive if requests[other].last >= requests[index].first]
        alive.sort(key=lambda other: offsets[other])
        size, offset = aligned(requests[index].size, alignment), 0
        for other in alive:
            if offsets[other] > offset and offsets[other] - offset >= size:
                break
            # the largest end so far, not the last: a buffer of no bytes may start inside another
            offset = max(offset, offsets[other] + aligned(requests[other].size, alignment))
        offsets[index] = offset
        alive.append(index)
    return _placement("optimized_v3", requests, offsets, alignment)


PLANNERS: dict[str, Planner] = {
    "search": place,
    "basic": basic,
    "optimized_v1": optimized_v1,
    "optimized_v2": optimized_v2,
    "optimized_v3": optimized_v3,
}
"""Every planner by name; "search" is ours, the others are NNTrainer's."""


def _by_birth(requests: Sequence[Request], indices: Sequence[int]) -> list[int]:
    return sorted(indices, key=lambda index: (requests[index].first, requests[index].last))


def _meet(one: Request, other: Request) -> bool:
    return one.first <= other.last and other.first <= one.last


def _stack(requests: Sequence[Request], indices: Sequence[int], offsets: list[int], alignment: int) -> int:
    """Planner v1 over some of the requests: fills ``offsets`` in and returns the bytes used."""
    stack: list[int] = []  # by ascending offset; below the top the dead keep their places
    arena = 0
    for index in _by_birth(requests, indices):
        birth, size = requests[index].first, aligned(requests[index].size, alignment)
        while stack and requests[stack[-1]].last < birth:
            stack.pop()
        for position in reversed(range(len(stack))):
            dead = requests[stack[position]]
            if dead.last < birth and aligned(dead.size, alignment) == size:
                offsets[index] = offsets[stack[position]]
                stack[position] = index
                break
        else:
            offsets[index] = offsets[stack[-1]] + aligned(requests[stack[-1]].size, alignment) if stack else 0
            arena = max(arena, offsets[index] + size)
            stack.append(index)
    return arena


def _placement(method: str, requests: Sequence[Request], offsets: Sequence[int], alignment: int) -> Placement:
    ends = [offset + aligned(request.size, alignment) for request, offset in zip(requests, offsets, strict=True)]
    return Placement(tuple(offsets), max(ends, default=0), lower_bound(requests, alignment=alignment), method)
