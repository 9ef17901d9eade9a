"""Recomputation: run a forward operation again on the way back instead of keeping what it made. List in, list out.

A chosen value is dropped after its last forward reader. Where the way back needs it, a copy of the operation that made
it stands just before the first reader, and so, in turn, for chosen values that this operation reads; what is not chosen
is kept for it. Only pure operations qualify (random ones draw the same numbers again), and only while no state that
they read has been changed in between; so no bit changes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nntrainer_py.tensor.operations.record import Operation, Phase, Role, Value


def forward_end(operations: Sequence[Operation]) -> int:
    """Position of the first operation of the way back."""
    for position, operation in enumerate(operations):
        if operation.phase.backward:
            return position
    return len(operations)


def candidates(operations: Sequence[Operation]) -> list[Value]:
    """Forward values that the way back reads and that could be computed again, in the order they are made."""
    boundary = forward_end(operations)
    makers = _makers(operations[:boundary])
    changed = _last_changes(operations)
    last_read: dict[Value, int] = {}
    for position in range(boundary, len(operations)):
        for value in operations[position].reads.values():
            last_read[value.root] = position
    found = []
    for root, maker in makers.items():
        if root in last_read and _repeatable(maker, root) and _stable(maker, changed, last_read[root]):
            found.append(root)
    return found


def recompute(operations: Sequence[Operation], chosen: Collection[Value]) -> list[Operation]:
    """The list in which the chosen values (roots, from `candidates`) are computed again for the way back."""
    boundary = forward_end(operations)
    makers = _makers(operations[:boundary])
    wanted = {root for root in chosen if root in makers}
    again: dict[Value, Value] = {}
    views: dict[Value, Value] = {}
    made: list[Operation] = list(operations[:boundary])

    def stand_in(value: Value) -> Value:
        """The value to read instead of ``value`` in the way back."""
        root = value.root
        if root not in wanted:
            return value
        if root not in again:
            repeat(makers[root])
        if value is root:
            return again[root]
        if value not in views:
            views[value] = Value(
                f"{value.name}/again", value.shape, value.role, value.dtype, again[root], value.root_offset
            )
        return views[value]

    def repeat(maker: Operation) -> None:
        reads = {name: stand_in(value) for name, value in maker.reads.items()}
        writes = {}
        for name, value in maker.writes.items():
            writes[name] = again[value] = Value(f"{value.name}/again", value.shape, value.role, value.dtype)
        made.append(
            Operation(
                maker.kind, reads, writes, maker.attributes, Phase.DERIVATIVE, maker.layer, False, maker.origin, True
            )
        )

    for operation in operations[boundary:]:
        reads = {name: stand_in(value) for name, value in operation.reads.items()}
        if all(reads[name] is value for name, value in operation.reads.items()):
            made.append(operation)
            continue
        made.append(
            Operation(
                operation.kind, reads, operation.writes, operation.attributes, operation.phase, operation.layer,
                operation.accumulate, operation.origin, operation.recomputed,
            )
        )  # fmt: skip
    return made


def cost_of(operations: Sequence[Operation], chosen: Collection[Value]) -> float:
    """Nanoseconds that recomputing the chosen values adds, by the kinds' own estimates."""
    return sum(operation.kind.cost(operation) for operation in recompute(operations, chosen) if operation.recomputed)


def _makers(forward: Sequence[Operation]) -> dict[Value, Operation]:
    return {
        value: operation
        for operation in forward
        for value in operation.writes.values()
        if value.base is None and not value.persistent
    }


def _repeatable(maker: Operation, root: Value) -> bool:
    return maker.kind.pure and not maker.accumulate and root.role is not Role.SCALAR


def _last_changes(operations: Sequence[Operation]) -> dict[Value, list[int]]:
    """Positions at which persistent roots are written."""
    changes: dict[Value, list[int]] = {}
    for position, operation in enumerate(operations):
        for value in operation.writes.values():
            if value.root.persistent:
                changes.setdefault(value.root, []).append(position)
    return changes


def _stable(maker: Operation, changes: dict[Value, list[int]], until: int) -> bool:
    """No persistent value that the maker reads changes before ``until``, in the forward pass neither."""
    return all(
        all(position >= until for position in changes.get(value.root, ()))
        for value in maker.reads.values()
        if value.root.persistent
    )
