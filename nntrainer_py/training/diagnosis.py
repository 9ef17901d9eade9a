"""Where a value that is not finite began: the first layer of the forward pass and the first sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.data.loader import Batch
from nntrainer_py.errors import DataError
from nntrainer_py.memory.plan import plan
from nntrainer_py.memory.swap_file import pieces
from nntrainer_py.tensor.operations.record import Operation, Role, Run, StepState, Value
from nntrainer_py.training.compiled import Compiled
from nntrainer_py.training.engine import Store, transient
from nntrainer_py.training.launch import launch
from nntrainer_py.training.lowerings import Mode

Where = Callable[[int], str]


def find_origin(compiled: Compiled, mode: Mode, batch: Batch, where: Where) -> str:
    """A sentence: which input, label, weight or layer first holds NaN or infinity, and in which sample.

    Looks at the batch and the weights, then runs the forward pass again, operation by operation, with memory of its own
    for every value. Changes nothing.

    Args:
        where: number of a sample in the data set to what messages call it.
    """
    graph = compiled.graph(mode)
    for names, arrays, what in ((graph.inputs, batch.inputs, "input"), (graph.labels, batch.labels, "label")):
        for name, array in zip(names, arrays, strict=True):
            row = first_bad_row(array[: batch.count])
            if row is not None:
                return f"{where(int(batch.indices[row]))} has a value that is not finite in its {what} ({name})"
    for name, array in compiled.weights(compiled.lowered(mode, batch.count)).items():
        if not all_finite(array):
            return f"the weight {name} is not finite any more; a smaller learning rate or clip_grad_by_norm may help"
    found = _first_operation(compiled, mode, batch)
    if found is None:
        return "every value is finite when the batch is computed again without reusing memory"
    operation, row = found
    sample = f", first in {where(int(batch.indices[row]))}" if row is not None else ""
    return f"it begins in the layer {operation.layer} ({operation.kind.name}){sample}"


def data_fault(compiled: Compiled, error: DataError, batch: Batch, where: Where) -> DataError:
    """An error that a kernel reported about sample k of the batch, about that sample of the data set."""
    state = compiled.state
    if not state.status[StepState.CODE]:
        return error
    row = int(state.status[StepState.DETAIL])
    told = error.message.removeprefix(f"sample {row} of the batch")
    return DataError(f"{where(int(batch.indices[row]))}{told}") if row < batch.count else error


def all_finite(array: NDArray[Any]) -> bool:
    """Whether every element is finite; looks at a piece at a time, so that memory stays small."""
    if array.dtype.kind != "f":
        return True
    return all(bool(np.isfinite(piece).all()) for piece in pieces(array))


def first_bad_row(array: NDArray[Any]) -> int | None:
    """The first row of a batch that holds a value that is not finite."""
    for row, values in enumerate(array):
        if not all_finite(np.ascontiguousarray(values)):
            return row
    return None


def _first_operation(compiled: Compiled, mode: Mode, batch: Batch) -> tuple[Operation, int | None] | None:
    lowered = compiled.lowered(mode, batch.count)
    external, pinned = transient(lowered)
    apart = plan(
        lowered.operations,
        external=external,
        pinned=pinned,
        threads=compiled.options.threads,
        in_place=False,
        reuse=False,
    )
    arrays = _Arrays(compiled.engine.store)
    count, graph = batch.count, compiled.graph(mode)
    for place, given in zip(graph.input_order, batch.inputs, strict=True):
        np.copyto(arrays(lowered.inputs[place]), given[:count].reshape(lowered.inputs[place].shape))
    for place, given in zip(graph.label_order, batch.labels, strict=True):
        np.copyto(arrays(lowered.labels[place]), given[:count].reshape(lowered.labels[place].shape))
    run_state = StepState()
    np.copyto(run_state.numbers, compiled.state.numbers)
    np.copyto(run_state.counters, compiled.state.counters)
    for operation, size in zip(apart.operations, apart.scratch_sizes, strict=True):
        if operation.phase.backward:
            return None
        bound = {name: arrays(value) for name, value in (*operation.reads.items(), *operation.writes.items())}
        scratch = _aligned(size)
        function, arguments = operation.kind.bind(operation, bound, Run(run_state, compiled.options.threads, scratch))
        with launch(compiled.options.threads, numpy_inside=operation.kind.name == "opaque"):
            function(*arguments)
        for name, value in operation.writes.items():
            if value.root.role in (Role.OPTIMIZER,) or all_finite(bound[name]):
                continue
            by_sample = value.shape[:1] == (count,) and len(value.shape) == 4
            return operation, first_bad_row(bound[name]) if by_sample else None
    return None


class _Arrays:
    """Memory for each transient value of its own; copies of what is persistent, so that nothing is changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._roots: dict[Value, NDArray[Any]] = {}

    def __call__(self, value: Value) -> NDArray[Any]:
        root = value.root
        if root not in self._roots:
            if root.role is Role.CONSTANT:
                self._roots[root] = self._store.constant(root)
            elif root.persistent:
                self._roots[root] = self._store.arrays[root.name].copy()
            else:
                self._roots[root] = np.zeros(root.shape, root.dtype)
        whole = self._roots[root]
        if value is root:
            return whole
        return whole.reshape(-1)[value.root_offset : value.root_offset + value.size].reshape(value.shape)


def _aligned(size: int) -> NDArray[np.uint8]:
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]
