"""Swapping as operations of the list: out after one use, in again before the next, the step going on meanwhile.

``swap_out`` and ``swap_in`` start a movement, ``swapped_out`` and ``swapped_in`` wait for its end. Memory belongs to a
value until its way out has ended, and from the start of its way in; lifetimes follow from the records as for all
others. A value that came in unchanged is not written a second time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nntrainer_py.memory.listing import Listing, forward_end
from nntrainer_py.memory.swap_file import PAGE, Slot, SwapFile, Transfer
from nntrainer_py.tensor.operations.record import (
    Array,
    Call,
    Operation,
    OperationKind,
    Phase,
    Run,
    Spec,
    Value,
)

NANOSECONDS_PER_BYTE = 1.0
"""Estimated cost of moving a byte one way: 1 GB/s."""

_Piece = tuple[int, Operation]  # the position before which an operation is put in
_OUTWARD = ("swap_out", "swapped_out")
_CLUSTER = 3  # uses of a weight at most this many operations apart share one stay in memory


class _Movement(OperationKind):
    """Attributes: ``link``, a `_Link` shared by the operation that starts and the one that waits."""

    pure = False
    outward = True
    starts = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {}

    def cost(self, operation: Operation) -> float:
        link: _Link = operation.attributes["link"]
        return link.slot.nbytes * NANOSECONDS_PER_BYTE if self.starts else 0.0

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        link: _Link = operation.attributes["link"]
        assert link.file is not None, "the plan was not settled"
        if not self.starts:
            assert link.transfer is not None, "a wait before its start"
            return link.file.wait, (link.transfer,)
        flat = arrays["x" if self.outward else "out"].reshape(-1).view(np.uint8)
        link.transfer = Transfer(flat.data, link.slot, self.outward)
        return link.file.start, (link.transfer,)


class SwapOut(_Movement):
    """Starts writing ``x``."""

    name = "swap_out"


class SwappedOut(_Movement):
    """Waits until ``x`` is written."""

    name = "swapped_out"
    starts = False


class SwapIn(_Movement):
    """Starts reading ``out``."""

    name = "swap_in"
    outward = False


class SwappedIn(_Movement):
    """Waits until ``x`` is read."""

    name = "swapped_in"
    outward = False
    starts = False


SWAP_OUT, SWAPPED_OUT, SWAP_IN, SWAPPED_IN = SwapOut(), SwappedOut(), SwapIn(), SwappedIn()


class _Link:
    """What the two halves of a movement share; ``file`` is set by `settle`, ``transfer`` when the start is bound."""

    __slots__ = ("file", "slot", "transfer")

    def __init__(self, slot: Slot) -> None:
        self.slot = slot
        self.file: SwapFile | None = None
        self.transfer: Transfer | None = None


def is_movement(operation: Operation) -> bool:
    """Whether the operation belongs to a swap."""
    return isinstance(operation.kind, _Movement)


def slot_of(operation: Operation) -> Slot:
    """The place in the file that a movement works on."""
    link: _Link = operation.attributes["link"]
    return link.slot


def swap_between(listing: Listing, root: Value, moment: int, lookahead: int) -> list[Operation]:
    """The list in which a value is out of memory while the operation at ``moment`` runs.

    The way out may take ``lookahead`` operations after the last use, the way in starts as many before the next one, as
    far as ``moment`` and the parts of a step allow: no movement goes on from one part into the next.
    """
    gap = listing.gap(root, moment)
    assert gap is not None
    before, after = gap
    operations = listing.operations
    slot = _came_from(listing, root)
    pieces: list[_Piece] = []
    if slot is None:
        slot = Slot(root.nbytes, root.name)
        end = part(operations, max(before, 0))[1]
        pieces += _out(operations, root, slot, before + 1, min(before + 1 + lookahead, moment, end))
    begin = part(operations, after)[0]
    inside, stand_in = _in(operations, root, slot, min(max(after - lookahead, moment + 1, begin), after), after)
    pieces += inside
    rest = [_replaced(operation, root, stand_in) for operation in operations[after:]]
    return _spliced([*operations[:after], *rest], pieces)


def swap_persistent(listing: Listing, root: Value, slot: Slot, lookahead: int) -> list[Operation]:
    """The list in which a weight or state lives in the file and comes into memory only around its uses."""
    operations = listing.operations
    clusters: list[list[int]] = []
    for position in listing.uses.get(root, []):
        near = bool(clusters) and position - clusters[-1][-1] <= _CLUSTER
        if near and part(operations, position) == part(operations, clusters[-1][-1]):
            clusters[-1].append(position)
        else:
            clusters.append([position])
    written = set(listing.writers.get(root, ()))
    pieces: list[_Piece] = []
    changed = list(operations)
    handed = 0  # no way in may start before what was written earlier has been handed to the worker
    for cluster in clusters:
        first, last = cluster[0], cluster[-1]
        begin, end = part(operations, first)
        inside, stand_in = _in(operations, root, slot, max(first - lookahead, handed, begin), first)
        pieces += inside
        for position in cluster:
            changed[position] = _replaced(operations[position], root, stand_in)
        if written.intersection(cluster):
            pieces += _out(operations, stand_in, slot, last + 1, min(last + 1 + lookahead, end))
            handed = last + 1
    return _spliced(changed, pieces)


def part(operations: Sequence[Operation], position: int) -> tuple[int, int]:
    """First position and end of the part of a step that a position lies in: forward, way back, updates at the end."""
    boundary = forward_end(operations)
    if position < boundary:
        return 0, boundary
    tail = len(operations)
    while tail > boundary and operations[tail - 1].phase is Phase.UPDATE:
        tail -= 1
    return (boundary, tail) if position < tail else (tail, len(operations))


def postponed(listing: Listing, root: Value, moment: int) -> list[Operation] | None:
    """The list in which a movement of the value that is under way at ``moment`` is not: it ends before or starts after.

    None when the value is alive then for another reason.
    """
    gap = listing.gap(root, moment)
    if gap is None or gap[0] < 0:
        return None
    before, after = gap
    operations = listing.operations
    rest = [operation for position, operation in enumerate(operations) if position not in (before, after)]
    if operations[before].kind is SWAP_IN and operations[after].kind is SWAPPED_IN:
        rest[after - 1 : after - 1] = [operations[before], operations[after]]
        return rest
    if operations[before].kind is SWAP_OUT and operations[after].kind is SWAPPED_OUT:
        rest[before:before] = [operations[before], operations[after]]
        return rest
    return None


def settle(operations: Sequence[Operation], file: SwapFile, base: int) -> int:
    """Give every slot without one a place from ``base`` on; returns the end. The file is not touched."""
    for operation in operations:
        if is_movement(operation):
            link: _Link = operation.attributes["link"]
            link.file = file
            if link.slot.offset < 0:
                link.slot.offset = base
                base += -(-link.slot.nbytes // PAGE) * PAGE
    return base


def _came_from(listing: Listing, root: Value) -> Slot | None:
    """The slot that still holds the value: it came from there and nothing has written it since."""
    writers = listing.writers.get(root, ())
    if len(writers) == 1 and listing.operations[writers[0]].kind is SWAP_IN:
        return slot_of(listing.operations[writers[0]])
    return None


def _operation(kind: OperationKind, root: Value, link: _Link, phase: Phase) -> Operation:
    reads, writes = ({}, {"out": root}) if kind is SWAP_IN else ({"x": root}, {})
    return Operation(kind, reads, writes, {"link": link}, phase, root.name.split(":")[0].split("/")[0])


def _out(operations: Sequence[Operation], root: Value, slot: Slot, start: int, wait: int) -> list[_Piece]:
    link = _Link(slot)
    phase = operations[max(start - 1, 0)].phase  # of the operation that it follows: it belongs to that part
    return [(start, _operation(SWAP_OUT, root, link, phase)), (wait, _operation(SWAPPED_OUT, root, link, phase))]


def _in(operations: Sequence[Operation], root: Value, slot: Slot, start: int, wait: int) -> tuple[list[_Piece], Value]:
    name = root.name if root.name.endswith("/in") else f"{root.name}/in"
    stand_in = Value(name, root.shape, root.role, root.dtype)
    stand_in.persistent = False
    link, phase = _Link(slot), operations[wait].phase
    starting, waiting = (_operation(kind, stand_in, link, phase) for kind in (SWAP_IN, SWAPPED_IN))
    return [(start, starting), (wait, waiting)], stand_in


def _replaced(operation: Operation, root: Value, new: Value) -> Operation:
    """The operation with ``new`` (or a view of it) wherever it read or wrote ``root``."""

    def stand_in(value: Value) -> Value:
        if value.root is not root:
            return value
        if value is root:
            return new
        view = Value(value.name, value.shape, value.role, value.dtype, new, value.root_offset)
        view.persistent = False
        return view

    return Operation(
        operation.kind,
        {name: stand_in(value) for name, value in operation.reads.items()},
        {name: stand_in(value) for name, value in operation.writes.items()},
        operation.attributes, operation.phase, operation.layer, operation.accumulate, operation.origin,
        operation.recomputed,
    )  # fmt: skip


def _spliced(operations: Sequence[Operation], pieces: Sequence[_Piece]) -> list[Operation]:
    """``operations`` with ``pieces`` put in before their positions, ways out first."""
    by_position: dict[int, list[Operation]] = {}
    for position, operation in sorted(pieces, key=lambda piece: (piece[0], piece[1].kind.name not in _OUTWARD)):
        by_position.setdefault(position, []).append(operation)
    made: list[Operation] = []
    for position in range(len(operations) + 1):
        made += by_position.get(position, ())
        made += operations[position : position + 1]
    return made
