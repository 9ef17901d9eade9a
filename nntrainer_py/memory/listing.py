"""A list of operations with what a search asks again and again: uses, lifetimes, bytes alive at each moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from nntrainer_py.memory.lifetimes import Lifetime, assign, lifetimes
from nntrainer_py.memory.planner import aligned
from nntrainer_py.tensor.operations.record import Operation, Value

Until = Literal["forward", "end"]
"""How long a pinned value lives on: to the end of the forward part, or to the end of the list."""


@dataclass(frozen=True, slots=True)
class Borders:
    """What the list does not say itself: values that exist before it, and values somebody reads after a part of it."""

    external: tuple[Value, ...] = ()
    pinned: Mapping[Value, Until] = field(default_factory=dict)

    def positions(self, operations: Sequence[Operation]) -> dict[Value, int]:
        """Position until which each pinned value lives."""
        last = {"forward": max(forward_end(operations) - 1, 0), "end": len(operations)}
        return {value: last[until] for value, until in self.pinned.items()}

    @classmethod
    def of(cls, operations: Sequence[Operation], external: Sequence[Value], pinned: Mapping[Value, int]) -> Borders:
        """From positions in a list that is about to change."""
        end = len(operations)
        return cls(tuple(external), {v: "end" if position >= end else "forward" for v, position in pinned.items()})


def forward_end(operations: Sequence[Operation]) -> int:
    """Position of the first operation of the way back."""
    for position, operation in enumerate(operations):
        if operation.phase.backward:
            return position
    return len(operations)


class Listing:
    """One list of operations, analysed. ``loads[i]`` are the bytes alive while operation ``i`` runs, scratch included.

    What is asked is worked out on the first question and kept until `forget`. Weights and state that lie in memory all
    the time are part of no load.
    """

    def __init__(
        self, operations: Sequence[Operation], borders: Borders, *, threads: int = 1, in_place: bool = True
    ) -> None:
        self.operations = list(operations)
        self.borders = borders
        self.threads = threads
        self.in_place = in_place

    def forget(self) -> None:
        """Give back the memory of everything that can be worked out again, which is many times that of the list."""
        for name in ("lives", "uses", "writers", "loads"):
            self.__dict__.pop(name, None)

    @cached_property
    def lives(self) -> dict[Value, Lifetime]:
        """Lifetimes of the transient roots."""
        return lifetimes(self.operations, self.borders.external, self.borders.positions(self.operations))

    @cached_property
    def uses(self) -> dict[Value, list[int]]:
        """Positions of the operations that read or write a root."""
        return self._positions(lambda operation: (*operation.reads_all, *operation.writes.values()))

    @cached_property
    def writers(self) -> dict[Value, list[int]]:
        """Positions of the operations that write a root."""
        return self._positions(lambda operation: operation.writes.values())

    def _positions(self, touched: Callable[[Operation], Iterable[Value]]) -> dict[Value, list[int]]:
        found: dict[Value, list[int]] = {}
        for position, operation in enumerate(self.operations):
            for root in dict.fromkeys(value.root for value in touched(operation)):
                found.setdefault(root, []).append(position)
        return found

    @cached_property
    def loads(self) -> list[int]:
        """Bytes alive while each operation runs."""
        buffers, _ = assign(self.operations, self.lives, in_place=self.in_place)
        count = len(self.operations)
        changes = [0] * (count + 1)
        for buffer in buffers:
            size = aligned(buffer.nbytes)
            changes[buffer.first] += size
            changes[min(buffer.last + 1, count)] -= size
        loads, alive = [], 0
        for position, operation in enumerate(self.operations):
            alive += changes[position]
            loads.append(alive + aligned(operation.kind.scratch(operation, self.threads)))
        return loads

    @cached_property
    def moment(self) -> int:
        """Position of the operation with the largest load."""
        return max(range(len(self.loads)), key=self.loads.__getitem__, default=0)

    @cached_property
    def peak(self) -> int:
        """The largest load: no placement needs less."""
        return self.loads[self.moment] if self.loads else 0

    def with_operations(self, operations: Sequence[Operation]) -> Listing:
        """Another list between the same borders."""
        return Listing(operations, self.borders, threads=self.threads, in_place=self.in_place)

    def cost(self) -> float:
        """Estimated nanoseconds of one run, by the kinds."""
        return sum(operation.kind.cost(operation) for operation in self.operations)

    def gap(self, root: Value, moment: int) -> tuple[int, int] | None:
        """The last use of a value before ``moment`` and the first after it, when it is alive but unused then."""
        before, after = -1, -1
        for position in self.uses.get(root, ()):
            if position < moment:
                before = position
            elif position == moment:
                return None
            else:
                after = position
                break
        if after < 0 or (before < 0 and root not in self.borders.external):
            return None
        return before, after

    def alive(self, moment: int) -> list[Value]:
        """Transient roots alive while the operation at ``moment`` runs."""
        return [root for root, life in self.lives.items() if life.first <= moment <= life.last]
