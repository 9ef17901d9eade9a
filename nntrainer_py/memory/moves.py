"""What a search may do about a peak: the moves that free memory while one operation runs, each with bytes and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nntrainer_py.memory import swap
from nntrainer_py.memory.listing import Listing
from nntrainer_py.memory.planner import aligned
from nntrainer_py.memory.recompute import remake, repeatable, stable
from nntrainer_py.memory.swap_file import Slot
from nntrainer_py.tensor.operations.record import Operation, Value

_SHORTEST = 3  # operations between two uses for which a value is worth swapping
_LENGTHS = (1, 2, 3, 4, 6, 8, 12, 16, 24)  # operations in a chain that is run again


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which moves a search may use.

    ``remake`` says which operations may run again, ``extend`` whether values may be kept longer for that; ``swap``
    whether values may go to a file, ``persistent`` those of the weights and state that may live there.
    """

    remake: Callable[[Operation], bool] = lambda _: True
    extend: bool = True
    swap: bool = False
    persistent: tuple[Value, ...] = ()
    lookahead: int = 0
    smallest: int = 4096


@dataclass(frozen=True, slots=True)
class Move:
    """Frees ``freed`` bytes at the moment it was made for; costs ``cost`` nanoseconds in every step."""

    kind: str  # recompute, swap, swap weight, wait
    value: Value
    freed: int
    cost: float
    key: tuple[object, ...]
    apply: Callable[[], list[Operation]]
    slot: Slot | None = None


@dataclass(frozen=True, slots=True)
class Taken:
    """What is remembered of a move: a `Move` holds the whole list that it was made for."""

    kind: str
    value: Value
    freed: int
    cost: float


def moves(listing: Listing, allowed: Allowed, moment: int) -> list[Move]:
    """The moves that help at ``moment``, the best bargain first; waiting costs least of all."""
    found = [
        *_waits(listing, allowed, moment),
        *_remakes(listing, allowed, moment),
        *_swaps(listing, allowed, moment),
    ]
    return sorted(found, key=lambda move: (move.kind != "wait", -move.freed / (move.cost + 1.0)))


def _candidates(listing: Listing, allowed: Allowed, moment: int) -> Iterator[tuple[Value, int, int]]:
    for root in listing.alive(moment):
        if root.nbytes >= allowed.smallest and root not in listing.borders.pinned:
            gap = listing.gap(root, moment)
            if gap is not None:
                yield root, *gap


def _waits(listing: Listing, allowed: Allowed, moment: int) -> Iterator[Move]:
    for root, before, after in _candidates(listing, allowed, moment):
        if before < 0 or not swap.is_movement(listing.operations[before]):
            continue
        if (made := swap.postponed(listing, root, moment)) is not None:
            key = ("wait", root, listing.operations[after])
            yield Move("wait", root, aligned(root.nbytes), 0.0, key, lambda made=made: made)  # type: ignore[misc]


def _remakes(listing: Listing, allowed: Allowed, moment: int) -> Iterator[Move]:
    for root, _, after in _candidates(listing, allowed, moment):
        best: tuple[float, int, float, list[int]] | None = None
        last: list[int] = []
        for length in _LENGTHS:
            chain = _chain(listing, allowed, root, after, moment, length)
            if chain is None:
                continue  # what it needs is dead by then; a longer chain makes that too
            if chain[0] == last:
                break
            last, kept = chain
            freed = _freed(listing, last, after, moment) - kept
            cost = sum(listing.operations[position].kind.cost(listing.operations[position]) for position in last)
            if freed > 0 and (best is None or freed / (cost + 1.0) > best[0]):
                best = (freed / (cost + 1.0), freed, cost, last)
        if best is not None:
            _, freed, cost, makers = best
            key = ("recompute", root, listing.operations[after])
            yield Move(
                "recompute", root, freed, cost, key,
                lambda makers=makers, after=after: remake(listing, makers, after),  # type: ignore[misc]
            )  # fmt: skip


def _chain(
    listing: Listing, allowed: Allowed, root: Value, after: int, moment: int, length: int
) -> tuple[list[int], int] | None:
    """Operations (positions, ascending) to run again for ``root`` before ``after``; bytes kept longer for them.

    At most ``length`` operations; what these read and is dead by then is kept, where that is allowed.
    """
    makers: set[int] = set()
    kept: dict[Value, int] = {}
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if value.persistent or (makers and any(value.root is w for p in makers for w in _written(listing, p))):
            continue
        life = listing.lives[value]
        if value is not root and (life.last >= after or (life.last >= moment and allowed.extend)):
            continue
        position = listing.writers[value][0] if listing.writers.get(value) else -1
        if (
            len(makers) < length
            and position >= 0
            and repeatable(listing, value)
            and allowed.remake(listing.operations[position])
            and stable(listing, position, after)
        ):
            makers.add(position)
            waiting += [read.root for read in listing.operations[position].reads.values()]
        elif value is root or not allowed.extend or len(listing.writers.get(value, ())) > 1:
            return None
        else:
            kept[value] = aligned(value.nbytes)
    return sorted(makers), sum(kept.values())


def _written(listing: Listing, position: int) -> list[Value]:
    return [value.root for value in listing.operations[position].writes.values()]


def _freed(listing: Listing, makers: list[int], after: int, moment: int) -> int:
    """Bytes of what the operations make that is alive at ``moment`` only for uses from ``after`` on."""
    total = 0
    for position in makers:
        for root in _written(listing, position):
            gap = listing.gap(root, moment)
            if gap is not None and gap[1] >= after and listing.lives[root].first < moment:
                total += aligned(root.nbytes)
    return total


def _swaps(listing: Listing, allowed: Allowed, moment: int) -> Iterator[Move]:
    if not allowed.swap:
        return
    for root, before, after in _candidates(listing, allowed, moment):
        between = listing.operations[max(before, 0) + 1 : after]
        if sum(not swap.is_movement(operation) for operation in between) < _SHORTEST:
            continue
        if swap.is_movement(listing.operations[after]) and listing.operations[after].kind is not swap.SWAP_OUT:
            continue
        cost = 2 * root.nbytes * swap.NANOSECONDS_PER_BYTE
        yield Move(
            "swap", root, aligned(root.nbytes), cost, ("swap", root, listing.operations[after]),
            lambda root=root: swap.swap_between(listing, root, moment, allowed.lookahead),  # type: ignore[misc]
        )  # fmt: skip
    for root in allowed.persistent:
        uses = listing.uses.get(root, ())
        if root.nbytes < allowed.smallest or moment in uses:
            continue
        slot = Slot(root.nbytes, root.name)
        cost = (len(uses) + len(listing.writers.get(root, ()))) * root.nbytes * swap.NANOSECONDS_PER_BYTE
        yield Move(
            "swap weight", root, aligned(root.nbytes), cost, ("swap weight", root),
            lambda root=root, slot=slot: swap.swap_persistent(listing, root, slot, allowed.lookahead),  # type: ignore[misc]
            slot,
        )  # fmt: skip
