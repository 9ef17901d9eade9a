"""Recomputation: run an operation again instead of keeping what it made. List in, list out.

`remake` is the one rewriting step: a copy of the operation that made a value stands before a later use, and every use
from there on reads the copy's outcome. Only pure operations qualify (random ones draw the same numbers again), and only
where no state that they read has been changed in between; so no bit changes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from nntrainer_py.memory.listing import Borders, Listing, forward_end
from nntrainer_py.tensor.operations.record import Operation, Role, Value

Stand = Callable[[Value], Value]


def repeatable(listing: Listing, root: Value) -> bool:
    """One pure operation made the value, whole, and could run again while what it reads is unchanged."""
    writers = listing.writers.get(root, ())
    if root.persistent or root.role is Role.SCALAR or len(writers) != 1:
        return False
    maker = listing.operations[writers[0]]
    if not maker.kind.pure or maker.accumulate or maker.kind.modifies:
        return False
    written = [value for value in maker.writes.values() if value.base is not None or value.persistent]
    return not written and all(len(listing.writers[value]) == 1 for value in maker.writes.values())


def stable(listing: Listing, maker: int, until: int) -> bool:
    """Nothing that the operation at ``maker`` reads is written after it and before ``until``."""
    return not any(
        maker < position < until
        for value in listing.operations[maker].reads.values()
        for position in listing.writers.get(value.root, ())
    )


def remake(listing: Listing, makers: Sequence[int], before: int) -> list[Operation]:
    """The list with copies of the operations at ``makers`` (ascending) run before position ``before``.

    From there on their outcomes are read instead of the first ones.
    """
    operations = listing.operations
    phase = operations[before].phase
    again: dict[Value, Value] = {}
    views: dict[Value, Value] = {}

    def stand_in(value: Value) -> Value:
        root = value.root
        if root not in again:
            return value
        if value is root:
            return again[root]
        if value not in views:
            views[value] = Value(
                _again(value.name), value.shape, value.role, value.dtype, again[root], value.root_offset
            )
        return views[value]

    copies = []
    for position in makers:
        maker = operations[position]
        reads = {name: stand_in(value) for name, value in maker.reads.items()}
        writes = {}
        for name, value in maker.writes.items():
            writes[name] = again[value] = Value(_again(value.name), value.shape, value.role, value.dtype)
        copies.append(
            Operation(maker.kind, reads, writes, maker.attributes, phase, maker.layer, False, maker.origin, True)
        )
    rest = [reading(operation, stand_in) for operation in operations[before:]]
    return [*operations[:before], *copies, *rest]


def reading(operation: Operation, stand_in: Stand) -> Operation:
    """The operation with other values for its operands; itself when none changes."""
    reads = {name: stand_in(value) for name, value in operation.reads.items()}
    writes = {
        name: stand_in(value) if name in operation.kind.modifies else value for name, value in operation.writes.items()
    }
    if reads == operation.reads and writes == operation.writes:
        return operation
    return Operation(
        operation.kind, reads, writes, operation.attributes, operation.phase, operation.layer, operation.accumulate,
        operation.origin, operation.recomputed,
    )  # fmt: skip


def candidates(operations: Sequence[Operation]) -> list[Value]:
    """Forward values that the way back could have computed again, in the order they are made."""
    listing = Listing(operations, Borders())
    boundary = forward_end(operations)
    found = []
    for root, positions in listing.writers.items():
        first = _first_backward(listing, root, boundary)
        if positions[0] < boundary and repeatable(listing, root) and stable(listing, positions[0], first):
            found.append(root)
    return found


def recompute(operations: Sequence[Operation], chosen: Collection[Value]) -> list[Operation]:
    """The list in which the way back computes the chosen values (from `candidates`) again; nothing is kept of them.

    A value whose maker reads state that has changed by then is kept after all.
    """
    listing = Listing(operations, Borders())
    wanted = set(chosen)
    while True:
        boundary = forward_end(listing.operations)
        pending = [
            (first, root)
            for root in wanted
            if (first := _first_backward(listing, root, boundary)) < len(listing.operations)
        ]
        if not pending:
            return listing.operations
        # the last made first: its copy may need others before their own first use
        first, root = max(pending, key=lambda pair: listing.writers[pair[1]][0])
        maker = listing.writers[root][0]
        if repeatable(listing, root) and stable(listing, maker, first):
            listing = listing.with_operations(remake(listing, [maker], first))
        else:
            wanted.discard(root)


def _first_backward(listing: Listing, root: Value, boundary: int) -> int:
    return next((position for position in listing.uses.get(root, ()) if position >= boundary), len(listing.operations))


def _again(name: str) -> str:
    return name if name.endswith("/again") else f"{name}/again"
