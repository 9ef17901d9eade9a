"""When each buffer is alive, and which buffers may be one: pure functions over operation records.

A value is alive from the operation that first writes it to the last that reads or writes it (or a view of it). Model
inputs and labels are alive from the start; pinned values (losses, predictions) to the end of their phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nntrainer_py.tensor.operations.record import Operation, Value


@dataclass(slots=True)
class Buffer:
    """One piece of transient memory and the values that live in it, one after the other."""

    values: list[Value]
    first: int
    last: int
    nbytes: int

    @property
    def name(self) -> str:
        return self.values[0].name


@dataclass(slots=True)
class Lifetime:
    """Positions of the first and the last operation that touch a value."""

    first: int
    last: int


def lifetimes(
    operations: Sequence[Operation], external: Iterable[Value] = (), pinned: Mapping[Value, int] | None = None
) -> dict[Value, Lifetime]:
    """Lifetimes of the transient roots. ``external`` values exist from the start; ``pinned`` ones until a position."""
    found: dict[Value, Lifetime] = {}
    for value in external:
        found[value.root] = Lifetime(0, 0)
    for position, operation in enumerate(operations):
        for value in (*operation.reads_all, *operation.writes.values()):
            root = value.root
            if root.persistent:
                continue
            if root in found:
                found[root].last = max(found[root].last, position)
            else:
                found[root] = Lifetime(position, position)
    for value, position in (pinned or {}).items():
        root = value.root
        if root in found:
            found[root].last = max(found[root].last, position)
    return found


def assign(
    operations: Sequence[Operation], found: dict[Value, Lifetime], *, in_place: bool = True
) -> tuple[list[Buffer], dict[Value, Buffer]]:
    """Buffers for all transient roots; where a record permits it and the old value is dead, its buffer is taken over.

    The read value's last use must be this very operation, and the buffer it lives in must end there too.
    """
    buffers: list[Buffer] = []
    where: dict[Value, Buffer] = {}

    def own(root: Value) -> None:
        life = found[root]
        buffer = Buffer([root], life.first, life.last, root.nbytes)
        buffers.append(buffer)
        where[root] = buffer

    written = {value.root for operation in operations for value in operation.writes.values()}
    for root in found:
        if root not in written:
            own(root)
    for position, operation in enumerate(operations):
        taken: set[int] = set()
        if in_place:
            for write_name, read_name in operation.kind.aliases(operation):
                write, read = operation.writes.get(write_name), operation.reads.get(read_name)
                if write is None or read is None or write.base is not None or write.persistent or write in where:
                    continue
                root = read.root
                if root.persistent or root not in where or found[root].last != position or id(root) in taken:
                    continue
                if read.size != root.size or write.nbytes > where[root].nbytes or found[write].first != position:
                    continue
                buffer = where[root]
                if buffer.last != position or _read_otherwise(operation, root, read_name):
                    continue
                buffer.values.append(write)
                buffer.last = found[write].last
                where[write] = buffer
                taken.add(id(root))
        for value in operation.writes.values():
            root = value.root
            if not root.persistent and root not in where:
                own(root)
    return buffers, where


def _read_otherwise(operation: Operation, root: Value, name: str) -> bool:
    """The operation reads the same memory under another name, which the alias does not cover."""
    return any(value.root is root and other != name for other, value in operation.reads.items())


def taken_in_place(where: dict[Value, Buffer]) -> set[Value]:
    """Values that took over the buffer of an earlier one."""
    return {value for value, buffer in where.items() if buffer.values[0] is not value}
