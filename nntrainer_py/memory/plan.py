"""The memory plan of one list of operations: buffers, offsets, scratch, and the peak, known before a byte is taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nntrainer_py.memory.lifetimes import Buffer, assign, lifetimes
from nntrainer_py.memory.planner import Placement, Request, place
from nntrainer_py.tensor.operations.record import Operation, Value

ALIGNMENT = 64


@dataclass(slots=True)
class MemoryPlan:
    """Where every transient value lies. Bytes throughout."""

    operations: list[Operation]
    buffers: list[Buffer]
    where: dict[Value, Buffer]
    offsets: dict[int, int]  # by id of the buffer
    scratch_offsets: list[int]  # by position of the operation; -1: none
    scratch_sizes: list[int]
    placement: Placement
    requests: list[Request]

    @property
    def arena(self) -> int:
        """Bytes of the transient arena."""
        return self.placement.arena

    def offset(self, value: Value) -> int:
        """Byte offset of a value in the transient arena."""
        root = value.root
        itemsize = value.nbytes // value.size
        return self.offsets[id(self.where[root])] + value.root_offset * itemsize

    def without_reuse(self) -> int:
        """Bytes if every request had memory of its own."""
        return sum(-(-request.size // ALIGNMENT) * ALIGNMENT for request in self.requests)


def plan(
    operations: Sequence[Operation],
    *,
    external: Iterable[Value] = (),
    pinned: dict[Value, int] | None = None,
    threads: int = 1,
    in_place: bool = True,
    reuse: bool = True,
    planner: object = None,
) -> MemoryPlan:
    """Plan the transient memory; ``reuse=False`` is the basic planner, ``planner`` another placing function."""
    operations = list(operations)
    found = lifetimes(operations, external, pinned)
    buffers, where = assign(operations, found, in_place=in_place)
    end = max(len(operations) - 1, 0)
    requests = [
        Request(buffer.nbytes, buffer.first if reuse else 0, buffer.last if reuse else end, buffer.name)
        for buffer in buffers
    ]
    scratch_sizes = [operation.kind.scratch(operation, threads) for operation in operations]
    scratch_positions = [position for position, size in enumerate(scratch_sizes) if size > 0]
    for position in scratch_positions:
        operation = operations[position]
        requests.append(Request(scratch_sizes[position], position, position, f"{operation.layer}/{operation.kind.name}:scratch"))
    function = place if planner is None else planner
    placement: Placement = function(requests)  # type: ignore[operator]
    offsets = {id(buffer): placement.offsets[i] for i, buffer in enumerate(buffers)}
    scratch_offsets = [-1] * len(operations)
    for i, position in enumerate(scratch_positions):
        scratch_offsets[position] = placement.offsets[len(buffers) + i]
    return MemoryPlan(operations, buffers, where, offsets, scratch_offsets, scratch_sizes, placement, requests)
