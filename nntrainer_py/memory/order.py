"""Execution orders of one list of operations: what must come before what, and orders with a lower peak.

The canonical order (of emission) fixes sums: additions to one gradient keep their order, because each reads and writes
the same value. Every order that respects `dependencies` therefore gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nntrainer_py.memory.planner import aligned
from nntrainer_py.tensor.operations.record import Operation, Phase, Value


def dependencies(operations: Sequence[Operation]) -> list[set[int]]:
    """For each operation the positions that must run before it because of what they read and write.

    A reader after the writer, a second writer after the first and after all readers between them. Beside these the
    whole forward part comes before the way back (the loss is tested in between), which is not listed pair by pair.
    """
    before: list[set[int]] = [set() for _ in operations]
    writer: dict[Value, int] = {}
    readers: dict[Value, list[int]] = {}
    for position, operation in enumerate(operations):
        for value in operation.reads_all:
            root = value.root
            if root in writer:
                before[position].add(writer[root])
            readers.setdefault(root, []).append(position)
        for value in operation.writes.values():
            root = value.root
            if root in writer:
                before[position].add(writer[root])
            before[position].update(reader for reader in readers.get(root, ()) if reader != position)
            writer[root] = position
            readers[root] = []
    return before


def is_valid(operations: Sequence[Operation], order: Sequence[int]) -> bool:
    """``order`` (positions) runs every operation once, each after all it depends on."""
    place = {position: index for index, position in enumerate(order)}
    if len(place) != len(operations):
        return False
    parts = [operations[position].phase.backward for position in order]
    return parts == sorted(parts) and all(
        place[earlier] < place[position]
        for position, earliers in enumerate(dependencies(operations))
        for earlier in earliers
    )


def schedule(operations: Sequence[Operation], choose: Callable[[list[int]], int]) -> list[int]:
    """List scheduling: ``choose`` picks one of the positions that are ready (sorted), until all are placed."""
    before = dependencies(operations)
    waiting = [len(earliers) for earliers in before]
    later: list[list[int]] = [[] for _ in operations]
    for position, earliers in enumerate(before):
        for earlier in earliers:
            later[earlier].append(position)
    order: list[int] = []
    for backward in (False, True):
        part = [position for position, operation in enumerate(operations) if operation.phase.backward is backward]
        ready = [position for position in part if waiting[position] == 0]
        while ready:
            position = choose(ready)
            ready.remove(position)
            order.append(position)
            freed = []
            for following in later[position]:
                waiting[following] -= 1
                if waiting[following] == 0 and operations[following].phase.backward is backward:
                    freed.append(following)
            if freed:
                ready = sorted([*ready, *freed])
    return order


def frugal(operations: Sequence[Operation], window: int = 12) -> list[int]:
    """Greedy by memory: of the ready operations near the front, the one that leaves the least memory taken.

    ``window`` bounds how far an operation may be drawn ahead of the earliest one that waits.
    """
    uses: dict[Value, int] = {}
    for operation in operations:
        for root in {value.root for value in (*operation.reads_all, *operation.writes.values())}:
            uses[root] = uses.get(root, 0) + 1
    left = dict(uses)
    taken: set[Value] = set()

    def change(position: int) -> int:
        operation = operations[position]
        grown = sum(
            aligned(root.nbytes)
            for root in {value.root for value in operation.writes.values()}
            if not root.persistent and root not in taken
        )
        shrunk = sum(
            aligned(root.nbytes)
            for root in {value.root for value in (*operation.reads_all, *operation.writes.values())}
            if not root.persistent and left[root] == 1
        )
        return grown - shrunk

    def choose(ready: list[int]) -> int:
        near = [position for position in ready if position <= ready[0] + window]
        best = min(near, key=lambda position: (change(position), position))
        operation = operations[best]
        taken.update(value.root for value in operation.writes.values())
        for root in {value.root for value in (*operation.reads_all, *operation.writes.values())}:
            left[root] -= 1
        return best

    return schedule(operations, choose)


def derivative_first(operations: Sequence[Operation]) -> list[int]:
    """Each layer's derivative before its weight gradients, which then live only until the update that follows them.

    The canonical order is the other way round and keeps the gradient while the derivative is computed.
    """
    last: dict[str, int] = {}
    for position, operation in enumerate(operations):
        if operation.phase is Phase.DERIVATIVE:
            last[operation.layer] = position
    keys = [
        (max(position, last.get(operation.layer, -1)), operation.phase is Phase.GRADIENT, position)
        if operation.phase is Phase.GRADIENT
        else (position, False, position)
        for position, operation in enumerate(operations)
    ]
    return schedule(operations, lambda ready: min(ready, key=keys.__getitem__))


def apply(operations: Sequence[Operation], order: Sequence[int]) -> list[Operation]:
    """The operations in that order."""
    return [operations[position] for position in order]
