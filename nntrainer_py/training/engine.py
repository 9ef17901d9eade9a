"""One step: replay the bound calls of a plan. No array memory is taken, nothing is looked up.

An :class:`Engine` owns the persistent memory of a model (weights, state, optimizer state) and any number of
:class:`Program` objects (training and inference, each batch size) that share it and one transient block.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import DataError, NumericalError
from nntrainer_py.graph.lower import Lowered
from nntrainer_py.memory.arena import Arena
from nntrainer_py.memory.plan import MemoryPlan
from nntrainer_py.tensor.operations.record import Call, Phase, Role, Run, Status, StepState, Value
from nntrainer_py.training.launch import launch


class Store:
    """Persistent tensors by name: weights, state, optimizer state."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self.blocks: list[Arena] = []

    def ensure(self, values: Iterable[Value]) -> list[str]:
        """Take memory for the values that are not there yet, zero-filled; returns their names."""
        fresh = [value for value in dict.fromkeys(values) if value.name not in self.arrays]
        offsets, size = [], 0
        for value in fresh:
            offsets.append(size)
            size += -(-value.nbytes // 64) * 64
        if fresh:
            block = Arena(size)
            self.blocks.append(block)
            for value, offset in zip(fresh, offsets, strict=True):
                self.arrays[value.name] = block.view(offset, value.shape, value.dtype)
        return [value.name for value in fresh]

    @property
    def nbytes(self) -> int:
        return sum(block.size for block in self.blocks)


class Program:
    """The bound calls of one plan."""

    def __init__(
        self, lowered: Lowered, plan: MemoryPlan, store: Store, arena: Arena, state: StepState, threads: int
    ) -> None:
        self.lowered = lowered
        self.plan = plan
        self._store = store
        self.arena = arena
        self._constants: dict[Value, NDArray[Any]] = {}
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
        delayed = any(value.persistent for value in lowered.gradients.values())
        for position, operation in enumerate(plan.operations):
            arrays = {name: self.array(value) for name, value in (*operation.reads.items(), *operation.writes.items())}
            offset, size = plan.scratch_offsets[position], plan.scratch_sizes[position]
            scratch = arena.bytes[offset : offset + size] if size else arena.bytes[:0]
            call = operation.kind.bind(operation, arrays, Run(state, threads, scratch))
            if not operation.phase.backward:
                self.forward.append(call)
            elif delayed and operation.phase is Phase.UPDATE:
                self.update.append(call)
            else:
                self.backward.append(call)

    def array(self, value: Value) -> NDArray[Any]:
        """The memory of a value."""
        root = value.root
        if root.role is Role.CONSTANT:
            if root not in self._constants:
                assert root.fill is not None
                self._constants[root] = np.ascontiguousarray(root.fill)
            whole = self._constants[root]
        elif root.persistent:
            whole = self._store.arrays[root.name]
        else:
            itemsize = np.dtype(root.dtype).itemsize
            return self.arena.view(self.plan.offset(root) + value.root_offset * itemsize, value.shape, value.dtype)
        if value is root:
            return whole
        flat = whole.reshape(-1)[value.root_offset : value.root_offset + value.size]
        return flat.reshape(value.shape)


class Engine:
    """Runs steps. ``state`` carries what changes from step to step."""

    def __init__(self, threads: int = 1) -> None:
        self.state = StepState()
        self.store = Store()
        self.threads = threads
        self._arena = Arena(0)

    def program(self, lowered: Lowered, plan: MemoryPlan) -> Program:
        """Bind a plan. The transient block grows when needed; programs bound before must then be bound again."""
        if plan.arena > self._arena.size:
            self._arena = Arena(plan.arena)
        return Program(lowered, plan, self.store, self._arena, self.state, self.threads)

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
            for function, arguments in program.forward:
                function(*arguments)
        self._check_status(program)
        loss = 0.0
        for array in program.losses:
            loss += float(array[0])
        return loss

    def backward(self, program: Program) -> None:
        """Run the backward part with the updates that need no delay."""
        with launch(self.threads, numpy_inside=program.opaque):
            for function, arguments in program.backward:
                function(*arguments)
        self._check_status(program)

    def update(self, program: Program) -> None:
        """Run the delayed updates (gradient accumulation)."""
        with launch(self.threads, numpy_inside=program.opaque):
            for function, arguments in program.update:
                function(*arguments)

    def step(self, program: Program) -> float:
        """Forward, test of the loss, backward; returns the loss before the update."""
        loss = self.forward(program)
        if not np.isfinite(loss):
            raise NumericalError(f"the loss is {loss}")
        self.backward(program)
        self.state.counters[StepState.ITERATION] += 1
        self.state.counters[StepState.STEP] += 1
        return loss

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
