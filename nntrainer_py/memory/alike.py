"""Lists that are alike but for the sizes: those of one model and mode for two batches.

What was chosen for the larger one can be done to the smaller one, and the places of the larger one's plan hold it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from nntrainer_py.memory.lifetimes import Buffer
from nntrainer_py.memory.outcome import Task
from nntrainer_py.memory.plan import MemoryPlan, requests_of
from nntrainer_py.memory.planner import Placement, aligned, lower_bound
from nntrainer_py.tensor.operations.record import Operation, Value


class _Twins:
    """Pairs of roots, one to one, the second of each no larger; persistent ones by name."""

    def __init__(self) -> None:
        self.there: dict[Value, Value] = {}
        self._back: dict[Value, Value] = {}

    def add(self, one: Value, other: Value) -> bool:
        """Whether the two can be a pair."""
        root, twin = one.root, other.root
        if self.there.get(root) is twin:
            return (one.base is None) == (other.base is None)
        if root in self.there or twin in self._back or twin.nbytes > root.nbytes:
            return False
        if root.persistent != twin.persistent or (root.persistent and root.name != twin.name):
            return False
        self.there[root], self._back[twin] = twin, root
        return (one.base is None) == (other.base is None)


def counterparts(larger: Task, smaller: Task) -> dict[Value, Value] | None:
    """The roots of one list to those of another that does the same with values that are no larger; None if it does not.

    Weights and state correspond by name.
    """
    if len(larger.operations) != len(smaller.operations) or len(larger.external) != len(smaller.external):
        return None
    twins = _Twins()
    if not all(twins.add(*pair) for pair in zip(larger.external, smaller.external, strict=True)):
        return None
    for one, other in zip(larger.operations, smaller.operations, strict=True):
        if one.kind is not other.kind or one.phase is not other.phase or one.accumulate != other.accumulate:
            return None
        if list(one.reads) != list(other.reads) or list(one.writes) != list(other.writes):
            return None
        if not all(twins.add(*pair) for pair in zip(_operands(one), _operands(other), strict=True)):
            return None
    pinned = {twins.there.get(root): until for root, until in _pinned(larger).items() if root in twins.there}
    present = set(twins.there.values())
    if pinned != {root: until for root, until in _pinned(smaller).items() if root in present}:
        return None
    return twins.there


def _operands(operation: Operation) -> list[Value]:
    return [*operation.reads.values(), *operation.writes.values()]


def _pinned(task: Task) -> dict[Value, bool]:
    """Roots that live on, and whether to the very end."""
    end = len(task.operations)
    found: dict[Value, bool] = {}
    for value, position in task.pinned.items():
        found[value.root] = found.get(value.root, False) or position >= end
    return found


def mirrored(plan: MemoryPlan, larger: Task, smaller: Task, threads: int) -> MemoryPlan | None:
    """The plan of a smaller list with the buffers and places of the larger one's ``plan``; None if they do not serve.

    The lists are those of the plans, that is, with all that was put into them.
    """
    there = counterparts(larger, smaller)
    if there is None:
        return None
    operations = list(smaller.operations)
    scratch = [operation.kind.scratch(operation, threads) for operation in operations]
    if any(mine > theirs for mine, theirs in zip(scratch, plan.scratch_sizes, strict=True)):
        return None
    buffers = []
    for buffer in plan.buffers:
        values = [there[value] for value in buffer.values]
        if not _may_follow(values, operations):
            return None
        buffers.append(Buffer(values, buffer.first, buffer.last, values[0].nbytes))
    places = [plan.offsets[id(buffer)] for buffer in plan.buffers]
    scratch_offsets = [plan.scratch_offsets[i] if size else -1 for i, size in enumerate(scratch)]
    requests = requests_of(operations, buffers, scratch)
    offsets = (*places, *(offset for offset, size in zip(scratch_offsets, scratch, strict=True) if size))
    arena = max((offset + aligned(r.size) for offset, r in zip(offsets, requests, strict=True)), default=0)
    placement = Placement(offsets, arena, lower_bound(requests), "that of the larger batch")
    where = {value: buffer for buffer in buffers for value in buffer.values}
    by_buffer = {id(buffer): offset for buffer, offset in zip(buffers, places, strict=True)}
    return MemoryPlan(operations, buffers, where, by_buffer, scratch_offsets, scratch, placement, requests)


def _may_follow(values: Sequence[Value], operations: Sequence[Operation]) -> bool:
    """Whether each value may be written over the one before it, as the records of the smaller list have it."""
    for before, value in pairwise(values):
        writer = next(op for op in operations if any(written is value for written in op.writes.values()))
        pairs = [(writer.writes.get(write), writer.reads.get(read)) for write, read in writer.kind.aliases(writer)]
        fits = any(w is value and r is not None and r.root is before and r.size == before.size for w, r in pairs)
        if not fits or value.nbytes > values[0].nbytes:
            return False
    return True
