"""The memory plan of one list of operations: buffers, offsets, scratch, and the peak, known before a byte is taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nntrainer_py.memory.lifetimes import Buffer, assign, lifetimes
from nntrainer_py.memory.nntrainer_planners import Planner, basic
from nntrainer_py.memory.planner import Placement, Request, aligned, place
from nntrainer_py.tensor.operations.record import Operation, Role, Value


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
        return sum(aligned(request.size) for request in self.requests)

    def alive_at(self, position: int) -> list[Request]:
        """What is alive while an operation runs, the largest first."""
        alive = [request for request in self.requests if request.first <= position <= request.last]
        return sorted(alive, key=lambda request: -request.size)


def plan(
    operations: Sequence[Operation],
    *,
    external: Iterable[Value] = (),
    pinned: Mapping[Value, int] | None = None,
    threads: int = 1,
    in_place: bool = True,
    reuse: bool = True,
    planner: Planner = place,
) -> MemoryPlan:
    """Plan the transient memory of a list as it stands.

    ``external`` values exist from the start, ``pinned`` ones live until a position. ``reuse=False`` gives every request
    memory of its own, whatever the ``planner``.
    """
    operations = list(operations)
    found = lifetimes(operations, external, pinned)
    buffers, where = assign(operations, found, in_place=in_place)
    scratch_sizes = [operation.kind.scratch(operation, threads) for operation in operations]
    requests = requests_of(operations, buffers, scratch_sizes)
    placement = planner(requests) if reuse else basic(requests)
    offsets = {id(buffer): placement.offsets[i] for i, buffer in enumerate(buffers)}
    scratch_offsets = [-1] * len(operations)
    scratch_positions = [position for position, size in enumerate(scratch_sizes) if size > 0]
    for i, position in enumerate(scratch_positions):
        scratch_offsets[position] = placement.offsets[len(buffers) + i]
    return MemoryPlan(operations, buffers, where, offsets, scratch_offsets, scratch_sizes, placement, requests)


def requests_of(
    operations: Sequence[Operation], buffers: Sequence[Buffer], scratch_sizes: Sequence[int]
) -> list[Request]:
    """What is to be placed: the buffers, then the scratch of the operations that have some."""
    requests = [
        Request(
            buffer.nbytes, buffer.first, buffer.last, buffer.name,
            weight_gradient=buffer.values[0].role is Role.GRADIENT,
        )
        for buffer in buffers
    ]  # fmt: skip
    for position, (operation, size) in enumerate(zip(operations, scratch_sizes, strict=True)):
        if size > 0:
            requests.append(Request(size, position, position, f"{operation.layer}/{operation.kind.name}:scratch"))
    return requests
