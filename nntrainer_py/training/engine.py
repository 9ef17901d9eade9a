"""One step: replay the bound calls of a plan. No array memory is taken, nothing is looked up.

An :class:`Engine` owns the persistent memory of a model (weights, state, optimizer state) and any number of
:class:`Program` objects (training and inference, each batch size) that share it and one transient block.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import DataError, NumericalError
from nntrainer_py.graph.lower import Lowered
from nntrainer_py.memory.arena import Arena
from nntrainer_py.memory.plan import MemoryPlan
from nntrainer_py.memory.planner import aligned
from nntrainer_py.memory.swap import is_movement
from nntrainer_py.memory.swap_file import Slot, SwapFile
from nntrainer_py.tensor.operations.record import Call, Phase, Role, Run, Status, StepState, Value
from nntrainer_py.training.launch import launch

_MEASURED_RUN = 3  # the first runs load kernels and touch memory


class Store:
    """Persistent tensors by name: weights, state, optimizer state. Beside them the tables that never change."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.blocks: list[Arena] = []
        self._constants: dict[Hashable, NDArray[Any]] = {}

    def constant(self, value: Value) -> NDArray[Any]:
        """The array of a constant, for all plans; made when it is first asked for."""
        key = (value.name, value.shape, value.dtype, value.fill)
        if key not in self._constants:
            self._constants[key] = value.filled()
        return self._constants[key]

    def ensure(
        self, values: Iterable[Value], on_file: Mapping[Value, Slot] | None = None, file: SwapFile | None = None
    ) -> list[str]:
        """Take memory for the values that are not there yet, zero-filled; returns their names.

        Those ``on_file`` become arrays over the swap file instead.
        """
        fresh = [value for value in dict.fromkeys(values) if value.name not in self.arrays]
        slots = {value.name: slot for value, slot in (on_file or {}).items()}
        offsets, size = [], 0
        for value in fresh:
            offsets.append(size)
            if value.name not in slots:
                size += aligned(value.nbytes)
        if size:
            self.blocks.append(Arena(size))
        for value, offset in zip(fresh, offsets, strict=True):
            if value.name in slots:
                assert file is not None
                self.arrays[value.name] = file.array(slots[value.name], value.shape, value.dtype)
            else:
                self.arrays[value.name] = self.blocks[-1].view(offset, value.shape, value.dtype)
        return [value.name for value in fresh]

    @property
    def nbytes(self) -> int:
        return sum(block.size for block in self.blocks)


@dataclass(frozen=True, slots=True)
class MeasuredCost:
    """Seconds of one step, and what of it went into computing again and into waiting for the swap file."""

    total: float
    recomputed: float
    swapped: float

    @property
    def slowdown(self) -> float:
        """Time of the step over that without both."""
        rest = self.total - self.recomputed - self.swapped
        return self.total / rest if rest > 0.0 else 1.0

    def __str__(self) -> str:
        share = 100.0 / self.total if self.total else 0.0
        return (
            f"{1e3 * self.total:.1f} ms a step, {share * self.recomputed:.1f} % of it recomputation, "
            f"{share * self.swapped:.1f} % swapping"
        )


class Program:
    """The bound calls of one plan."""

    def __init__(
        self,
        lowered: Lowered,
        plan: MemoryPlan,
        store: Store,
        arena: Arena,
        state: StepState,
        threads: int,
        *,
        file: SwapFile | None = None,
        poison: bool = False,
    ) -> None:
        self.lowered = lowered
        self.plan = plan
        self._store = store
        self.arena = arena
        self.file = file
        self.inputs = [self.array(value) for value in lowered.inputs]
        self.labels = [self.array(value) for value in lowered.labels]
        self.losses = [self.array(value) for value in lowered.losses]
        self.outputs = [self.array(value) for value in lowered.outputs]
        self.predictions = [self.array(value) for value in lowered.predictions]
        self.metrics = {name: self.array(value) for name, value in lowered.metrics.items()}
        self.opaque = any(operation.kind.name == "opaque" for operation in plan.operations)  # a user's NumPy inside
        self.forward: list[Call] = []
        self.backward: list[Call] = []
        self.update: list[Call] = []
        #: the call of each operation of the plan, in its order; the three parts above hold the same calls
        self.calls: list[Call] = []
        self._extra = {
            position
            for position, operation in enumerate(plan.operations)
            if operation.recomputed or is_movement(operation)
        }
        self._starts: dict[int, int] = {}  # position of the first call of each part, by identity of the list
        self.runs = 0
        self.times: list[float] | None = None  # nanoseconds by position, while somebody measures
        self.measured: MeasuredCost | None = None
        delayed = any(value.persistent for value in lowered.gradients.values())
        filling = Poison(plan, arena) if poison else None
        for position, operation in enumerate(plan.operations):
            arrays = {name: self.array(value) for name, value in (*operation.reads.items(), *operation.writes.items())}
            offset, size = plan.scratch_offsets[position], plan.scratch_sizes[position]
            scratch = arena.bytes[offset : offset + size] if size else arena.bytes[:0]
            call = operation.kind.bind(operation, arrays, Run(state, threads, scratch))
            if filling is not None:
                call = filling.around(position, call)
            self.calls.append(call)
            if not operation.phase.backward:
                part = self.forward
            elif delayed and operation.phase is Phase.UPDATE:
                part = self.update
            else:
                part = self.backward
            self._starts.setdefault(id(part), position)
            part.append(call)

    def start_of(self, part: list[Call]) -> int:
        """Position in the plan of the first call of ``forward``, ``backward`` or ``update``."""
        return self._starts.get(id(part), 0)

    @property
    def costs_extra(self) -> bool:
        """Whether anything is computed again or swapped."""
        return bool(self._extra)

    def settle_times(self) -> None:
        """What the measured step took becomes `measured`."""
        if self.times is None:
            return
        again = sum(t for i, t in enumerate(self.times) if i in self._extra and self.plan.operations[i].recomputed)
        moved = sum(t for i, t in enumerate(self.times) if i in self._extra and not self.plan.operations[i].recomputed)
        self.measured = MeasuredCost(sum(self.times) * 1e-9, again * 1e-9, moved * 1e-9)
        self.times = None

    def array(self, value: Value) -> NDArray[Any]:
        """The memory of a value."""
        root = value.root
        if root.role is Role.CONSTANT:
            whole = self._store.constant(root)
        elif root.persistent:
            whole = self._store.arrays[root.name]
        else:
            itemsize = np.dtype(root.dtype).itemsize
            return self.arena.view(self.plan.offset(root) + value.root_offset * itemsize, value.shape, value.dtype)
        if value is root:
            return whole
        flat = whole.reshape(-1)[value.root_offset : value.root_offset + value.size]
        return flat.reshape(value.shape)


def _timed(calls: Sequence[Call], times: list[float], start: int) -> None:
    for position, (function, arguments) in enumerate(calls, start):
        began = time.perf_counter_ns()
        function(*arguments)
        times[position] = float(time.perf_counter_ns() - began)


class Poison:
    """A search for faults: memory is filled with NaN before its first write and after its last use, scratch too.

    What an operation reads then was written by one that this plan let come before, or the results show it.
    """

    def __init__(self, plan: MemoryPlan, arena: Arena) -> None:
        self._before: dict[int, list[NDArray[np.uint8]]] = {}
        self._after: dict[int, list[NDArray[np.uint8]]] = {}
        for buffer in plan.buffers:
            offset = plan.offsets[id(buffer)]
            block = arena.bytes[offset : offset + buffer.nbytes]
            made_by = plan.operations[buffer.first].writes.values() if buffer.first < len(plan.operations) else ()
            if any(value.root is buffer.values[0] for value in made_by):
                self._before.setdefault(buffer.first, []).append(block)
            self._after.setdefault(buffer.last, []).append(block)
        for position, (offset, size) in enumerate(zip(plan.scratch_offsets, plan.scratch_sizes, strict=True)):
            if size:
                self._before.setdefault(position, []).append(arena.bytes[offset : offset + size])
                self._after.setdefault(position, []).append(arena.bytes[offset : offset + size])

    def around(self, position: int, call: Call) -> Call:
        """The call with the filling before and after it."""
        function, arguments = call
        before, after = self._before.get(position, ()), self._after.get(position, ())

        def filled(*given: Any) -> None:
            for block in before:
                block[:] = 0xFF
            function(*given)
            for block in after:
                block[:] = 0xFF

        return filled, arguments


class Engine:
    """Runs steps. ``state`` carries what changes from step to step. ``poison`` is for tests, see `Poison`."""

    def __init__(self, threads: int = 1, *, poison: bool = False) -> None:
        self.state = StepState()
        self.store = Store()
        self.threads = threads
        self.poison = poison
        self._arena = Arena(0)

    def program(self, lowered: Lowered, plan: MemoryPlan, file: SwapFile | None = None) -> Program:
        """Bind a plan. The transient block grows when needed; programs bound before must then be bound again.

        ``file`` is the swap file that the plan was settled on.
        """
        if plan.arena > self._arena.size:
            self._arena = Arena(0)  # give the old block back first, or both would exist for a moment
            self._arena = Arena(plan.arena)
        return Program(lowered, plan, self.store, self._arena, self.state, self.threads, file=file, poison=self.poison)

    def current(self, program: Program) -> bool:
        """The program is bound to the transient block in use."""
        return program.arena is self._arena

    @property
    def arena(self) -> Arena:
        return self._arena

    def forward(self, program: Program) -> float:
        """Run the forward part; returns the loss (0 without one). Raises before anything was changed by an update."""
        with launch(self.threads, numpy_inside=program.opaque):
            self.state.status[:] = 0
            program.runs += 1
            if program.runs == _MEASURED_RUN and program.costs_extra:
                program.times = [0.0] * len(program.calls)
            self._run(program, program.forward)
        self._check_status(program)
        loss = 0.0
        for array in program.losses:
            loss += float(array[0])
        return loss

    def backward(self, program: Program) -> None:
        """Run the backward part with the updates that need no delay."""
        with launch(self.threads, numpy_inside=program.opaque):
            self._run(program, program.backward)
        program.settle_times()
        self._check_status(program)

    def update(self, program: Program) -> None:
        """Run the delayed updates (gradient accumulation)."""
        with launch(self.threads, numpy_inside=program.opaque):
            self._run(program, program.update)

    def step(self, program: Program) -> float:
        """Forward, test of the loss, backward; returns the loss before the update."""
        loss = self.forward(program)
        if not np.isfinite(loss):
            raise NumericalError(f"the loss is {loss}")
        self.backward(program)
        self.state.counters[StepState.ITERATION] += 1
        self.state.counters[StepState.STEP] += 1
        return loss

    def _run(self, program: Program, calls: list[Call]) -> None:
        try:
            if program.times is None:
                for function, arguments in calls:
                    function(*arguments)
            else:
                _timed(calls, program.times, program.start_of(calls))
        except BaseException:
            if program.file is not None:
                program.file.drain()  # nothing may move into memory that another program uses next
            raise

    def measure(self, program: Program) -> list[float]:
        """Run one training step like `step`, timing each operation: nanoseconds by position in the plan.

        The loss is not tested, and no counter moves on: for benchmarks and reports.
        """
        with launch(self.threads, numpy_inside=program.opaque):
            self.state.status[:] = 0
            times = [0.0] * len(program.calls)
            _timed(program.calls, times, 0)
        return times

    def _check_status(self, program: Program) -> None:
        code, detail = int(self.state.status[StepState.CODE]), int(self.state.status[StepState.DETAIL])
        if code == Status.FINE:
            return
        wrong = float(self.state.numbers[StepState.WRONG])
        what = {
            Status.LABEL_OUT_OF_RANGE: "expected as label a class number or probabilities (of classes: summing to 1), "
            f"got {wrong:g}",
            Status.INDEX_OUT_OF_RANGE: "an index is outside the table",
        }.get(Status(code), "bad data")
        raise DataError(f"sample {detail} of the batch: {what}")


def transient(lowered: Lowered) -> tuple[list[Value], dict[Value, int]]:
    """External and pinned values of a lowering, for the memory plan."""
    external: list[Value] = [*lowered.inputs, *lowered.labels]
    end = len(lowered.operations)
    boundary = lowered.forward_end
    pinned: dict[Value, int] = dict.fromkeys((*lowered.losses, *lowered.metrics.values()), end)
    for value in lowered.predictions:
        pinned[value] = max(boundary - 1, 0)
    if not lowered.training:
        for value in lowered.outputs:
            pinned[value] = end
    return external, pinned


def persistent(lowered: Lowered) -> Sequence[Value]:
    """Persistent values in a fixed order: weights and state in .bin order, optimizer state, accumulated gradients."""
    values = [weight.value for weight in lowered.weights if weight.value is not None]
    values += lowered.optimizer_state
    values += [value for value in lowered.gradients.values() if value.persistent]
    return values
