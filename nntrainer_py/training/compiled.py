"""A graph made ready to run: lowered, planned and bound once per mode and batch size, over one set of weights.

All modes (see `training.lowerings`) share weights and one transient block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import DataError
from nntrainer_py.graph.lower import Lowered
from nntrainer_py.graph.order import Graph
from nntrainer_py.memory.outcome import CompiledMemory
from nntrainer_py.memory.plan import MemoryPlan
from nntrainer_py.memory.swap_file import release
from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.tensor.initializers import fill
from nntrainer_py.tensor.kernels.precompile import missing, precompile
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.tensor.rng import Stream
from nntrainer_py.training.engine import Engine, MeasuredCost, Program, persistent
from nntrainer_py.training.lowerings import Lowerings, Mode
from nntrainer_py.training.options import Options
from nntrainer_py.training.plans import Places, Plans

_MOST_KEPT = 64  # modes and batch sizes
_MOST_OPERATIONS = 2000  # of all that are kept: each takes some 2 kB in lists, plans and bound calls
_LEAST_KEPT = 4


class Compiled:
    """Programs by mode and batch size, bound over one engine.

    Args:
        graph: makes the layers, with or without the losses.
        optimizer: of the description.
        options: see `Options`.
        batch: samples of a full batch. Smaller ones follow its plans and never need more memory; a budget is kept
            for it in all modes, or refused.
        places: where budget and swap folder are named.
    """

    def __init__(
        self,
        graph: Callable[[bool], Graph],
        optimizer: Optimizer | None = None,
        options: Options | None = None,
        batch: int | None = None,
        places: Places | None = None,
    ) -> None:
        self._graph = graph
        self.optimizer = optimizer
        self.options = options = options or Options()
        self.engine = Engine(options.threads, poison=options.poison)
        #: held from the feeding of a batch until its results are read: all programs share one block of memory
        self.lock = RLock()
        self._lowerings = Lowerings(graph, optimizer, options, self.lock)
        full = batch if batch is None else min(batch, options.micro_batch or batch)
        self.plans = Plans(self._lowerings, options, full, self.lock, self.engine.store, places)
        self._programs: dict[tuple[Mode, int], Program] = {}
        #: called when the first weights have been made, to give them other values than the initial ones; until it
        #: succeeds, so that nobody computes with these
        self.on_begin: Callable[[], None] | None = None
        self._beginning = False

    def take_over(self, before: Compiled) -> None:
        """Go on with the weights, state and counters of another compilation of the same model."""
        self.engine, self.on_begin = before.engine, before.on_begin
        self.plans.take_over(before.plans)

    @property
    def state(self) -> StepState:
        return self.engine.state

    def graph(self, mode: Mode) -> Graph:
        """The layers of a mode in canonical order, and the order of inputs and labels in the data."""
        return self._lowerings.graph(mode)

    def lowered(self, mode: Mode, batch: int) -> Lowered:
        """The operation list of a mode; no memory is taken."""
        return self._lowerings.lowered(mode, batch)

    def memory(self, mode: Mode, batch: int) -> CompiledMemory:
        """The memory plan of a mode and how it came about; PlanError where it cannot meet the budget."""
        return self.plans.memory(mode, batch)

    def plan(self, mode: Mode, batch: int) -> MemoryPlan:
        """The memory plan of a mode; no memory is taken."""
        return self.memory(mode, batch).plan

    @property
    def planned(self) -> bool:
        """Whether there are plans or weights."""
        return bool(self.plans) or self.plans.begun

    @property
    def limited(self) -> bool:
        """Whether somebody wants memory to be saved by files."""
        return self.options.memory_budget is not None or bool(self.options.swap)

    def require_swap_file(self, copies: int = 0) -> None:
        """UsageError when files for the plans so far and ``copies`` bytes cannot be made; nothing stays behind."""
        file = self.plans.planning.file
        size = (0 if file is None else self.plans.file_bytes()) + (copies if self.limited else 0)
        if size:
            (file or self.plans.new_file()).require(size)

    def measured_cost(self, mode: Mode, batch: int) -> MeasuredCost | None:
        """What one of the first steps took, recomputation and swapping apart; None before it, or without both."""
        program = self._programs.get((mode, batch))
        return None if program is None else program.measured

    def program(self, mode: Mode, batch: int) -> Program:
        """The bound calls of a mode. Weights that did not exist are created and initialised."""
        with self.lock:
            key = (mode, batch)
            program = self._programs.get(key)
            if program is None or not self.plans.holds(key, program.plan) or not self.engine.current(program):
                lowered, memory = self.lowered(mode, batch), self.memory(mode, batch)
                self._forget_oldest(key)
                program = self._programs[key] = self._bound(lowered, memory)
            return program

    def _bound(self, lowered: Lowered, memory: CompiledMemory) -> Program:
        self._ensure(lowered)
        if memory.plan.arena > self.engine.arena.size:
            self._programs.clear()  # they hold the smaller block
        file = self.plans.planning.file if memory.swaps else None
        if file is not None:
            file.reserve(memory.file_bytes)
            file.forget()  # weights may have been read and written
        program = self.engine.program(lowered, memory.plan, file)
        precompile(missing(program.calls))
        return program

    def _forget_oldest(self, key: tuple[Mode, int]) -> None:
        """Ever new batch sizes must not add up: they take memory that no plan counts. The first ones stay."""
        sizes = self._lowerings.sizes()
        count, operations = len(sizes), sum(sizes.values())
        for old in [old for old in sizes if old != key and not self.plans.keeps(old)]:
            if count <= _LEAST_KEPT or (count <= _MOST_KEPT and operations <= _MOST_OPERATIONS):
                return
            count, operations = count - 1, operations - sizes[old]
            self._lowerings.forget(old)
            self.plans.forget(old)
            self._programs.pop(old, None)

    def _ensure(self, lowered: Lowered) -> None:
        """Persistent memory and initial values, drawn in canonical order from NNTrainer's stream."""
        self.plans.decide(lowered)
        if not self.plans.begun:
            self.require_swap_file()
        planning = self.plans.planning
        fresh = set(self.engine.store.ensure(persistent(lowered), planning.on_file(lowered), planning.file))
        stream = Stream(self.options.seed)
        done: set[str] = set()
        for row in lowered.table:
            for weight in row.weights:
                if weight.key in fresh and weight.key not in done:
                    done.add(weight.key)
                    array = self.engine.store.arrays[weight.key]
                    fill(weight.initializer, weight.dim, stream, array)
                    release(array)
        if self.on_begin is not None and not self._beginning:
            self._beginning = True
            try:
                self.on_begin()
            finally:
                self._beginning = False
            self.on_begin = None

    def weights(self, lowered: Lowered) -> dict[str, NDArray[Any]]:
        """Name to array in .bin order; the arrays are the live ones."""
        self._ensure(lowered)
        return {weight.key: self.engine.store.arrays[weight.key] for weight in lowered.weights}

    def optimizer_state(self, lowered: Lowered) -> dict[str, NDArray[Any]]:
        """Name to live array of every optimizer tensor."""
        self._ensure(lowered)
        return {value.name: self.engine.store.arrays[value.name] for value in lowered.optimizer_state}

    def feed(
        self, mode: Mode, program: Program, inputs: Sequence[NDArray[Any]], labels: Sequence[NDArray[Any]] = ()
    ) -> None:
        """Copy a batch, inputs and labels in the order of the data, into the arena."""
        graph = self.graph(mode)
        _copy("input", graph.inputs, program.inputs, graph.input_order, inputs)
        if mode != "predict":
            _copy("label", graph.labels, program.labels, graph.label_order, labels)


def _copy(
    what: str,
    names: Sequence[str],
    targets: Sequence[NDArray[Any]],
    order: Sequence[int],
    arrays: Sequence[NDArray[Any]],
) -> None:
    if len(arrays) != len(targets):
        raise DataError(f"expected {len(targets)} {what} arrays ({', '.join(names)}), got {len(arrays)}")
    for name, place, array in zip(names, order, arrays, strict=True):
        target = targets[place]
        if array.size != target.size or array.shape[:1] != target.shape[:1]:
            raise DataError(f"{what} {name}: expected an array of {target.shape}, got {array.shape}")
        np.copyto(target, array.reshape(target.shape), casting="same_kind")
