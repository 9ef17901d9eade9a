"""What a search may do about a peak: the moves that free memory while one operation runs, each with bytes and cost.

A move that is taken leaves a `Step` behind, which names everything by its place in the list: the list of another batch
size, alike but for the sizes, is rewritten by the same steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

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
    whether values may go to a file.
    """

    remake: Callable[[Operation], bool] = lambda _: True
    extend: bool = True
    swap: bool = False
    lookahead: int = 0
    smallest: int = 4096


Kind = Literal["recompute", "swap", "swap weight", "wait"]


@dataclass(frozen=True, slots=True)
class Step:
    """One rewriting of a list by places: ``value`` is that of the root among `Listing.uses`."""

    kind: Kind
    value: int
    moment: int = -1
    makers: tuple[int, ...] = ()
    lookahead: int = 0

    def root(self, listing: Listing) -> Value:
        """The value that the step is about."""
        return list(listing.uses)[self.value]

    def applied(self, listing: Listing, slot: Slot | None = None) -> list[Operation]:
        """The rewritten list; ``slot`` is where a weight lives."""
        return rewritten(listing, self.kind, self.root(listing), self.moment, self.makers, self.lookahead, slot)


def rewritten(
    listing: Listing, kind: Kind, root: Value, moment: int, makers: Sequence[int], lookahead: int, slot: Slot | None
) -> list[Operation]:
    """The list after a move. Nothing here looks at a size."""
    if kind == "recompute":
        return remake(listing, makers, moment)
    if kind == "swap":
        return swap.swap_between(listing, root, moment, lookahead)
    if kind == "swap weight":
        assert slot is not None
        return swap.swap_persistent(listing, root, slot, lookahead)
    made = swap.postponed(listing, root, moment)
    assert made is not None
    return made


@dataclass(frozen=True, slots=True)
class Move:
    """Frees ``freed`` bytes at the moment it was made for; costs ``cost`` nanoseconds in every step.

    ``moment`` is the position that the rewriting starts from: of the later use for a recomputation, else of the peak.
    """

    kind: Kind
    value: Value
    freed: int
    cost: float
    key: tuple[object, ...]
    moment: int
    makers: tuple[int, ...] = ()
    lookahead: int = 0
    slot: Slot | None = None

    def applied(self, listing: Listing) -> list[Operation]:
        """The list that it was made for, rewritten."""
        return rewritten(listing, self.kind, self.value, self.moment, self.makers, self.lookahead, self.slot)

    def step(self, listing: Listing) -> Step:
        """The same by places; for a weight also in other lists that use it."""
        place = next(place for place, root in enumerate(listing.uses) if root is self.value)
        return Step(self.kind, place, self.moment, self.makers, self.lookahead)


@dataclass(frozen=True, slots=True)
class Taken:
    """What is remembered of a move: a `Move` holds the whole list that it was made for."""

    kind: Kind
    value: Value
    freed: int
    cost: float


def moves(listing: Listing, allowed: Allowed, moment: int, persistent: Sequence[Value] = ()) -> list[Move]:
    """The moves that help at ``moment``, the best bargain first; waiting costs least of all.

    ``persistent`` are the weights and state that may go to the file.
    """
    found = [*_waits(listing, allowed, moment), *_remakes(listing, allowed, moment)]
    if allowed.swap:
        found += _swaps(listing, allowed, moment)
        found += (
            swap_of(listing, value, Slot(value.nbytes, value.name), allowed.lookahead)
            for value in persistent
            if value.nbytes >= allowed.smallest and moment not in listing.uses.get(value, ())
        )
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
        if swap.postponed(listing, root, moment) is not None:
            yield Move("wait", root, aligned(root.nbytes), 0.0, ("wait", root, listing.operations[after]), moment)


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
            yield Move("recompute", root, freed, cost, key, after, tuple(makers))


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
    for root, before, after in _candidates(listing, allowed, moment):
        between = listing.operations[max(before, 0) + 1 : after]
        if sum(not swap.is_movement(operation) for operation in between) < _SHORTEST:
            continue
        if swap.is_movement(listing.operations[after]) and listing.operations[after].kind is not swap.SWAP_OUT:
            continue
        cost = 2 * root.nbytes * swap.NANOSECONDS_PER_BYTE
        key = ("swap", root, listing.operations[after])
        yield Move("swap", root, aligned(root.nbytes), cost, key, moment, lookahead=allowed.lookahead)


def swap_of(listing: Listing, root: Value, slot: Slot, lookahead: int) -> Move:
    """The move that makes a weight or state live in the file."""
    movements = len(listing.uses.get(root, ())) + len(listing.writers.get(root, ()))
    cost = movements * root.nbytes * swap.NANOSECONDS_PER_BYTE
    return Move(
        "swap weight", root, aligned(root.nbytes), cost, ("swap weight", root), -1, lookahead=lookahead, slot=slot
    )
