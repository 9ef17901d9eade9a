"""A graph made ready to run: lowered, planned and bound once per mode and batch size, over one set of weights.

Three modes share weights and one transient block:

* ``train``: batch statistics, dropout, losses, the way back and the updates;
* ``evaluate``: inference behaviour with the losses;
* ``predict``: inference behaviour without labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from threading import RLock
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import DataError, Origin, PlanError, UsageError
from nntrainer_py.graph.lower import Lowered, lower
from nntrainer_py.graph.order import Graph
from nntrainer_py.memory.outcome import CompiledMemory, DataMemory, Refusal
from nntrainer_py.memory.plan import MemoryPlan
from nntrainer_py.memory.swap_file import SwapFile, release
from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.tensor.initializers import fill
from nntrainer_py.tensor.kernels.precompile import missing, precompile
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.tensor.rng import Stream
from nntrainer_py.training.copies import Copies
from nntrainer_py.training.engine import Engine, MeasuredCost, Program, persistent
from nntrainer_py.training.options import Options
from nntrainer_py.training.planning import Planning
from nntrainer_py.training.whole_batch import why_whole

_PLANS_KEPT = 64  # modes and batch sizes

Mode = Literal["train", "evaluate", "predict"]
T = TypeVar("T")


def _locked(method: Callable[[Compiled, Mode, int], T]) -> Callable[[Compiled, Mode, int], T]:
    """Two threads that ask for the same thing get the same thing."""

    @wraps(method)
    def locked(self: Compiled, mode: Mode, batch: int) -> T:
        with self.lock:
            return method(self, mode, batch)

    return locked


class Compiled:
    """Programs by mode and batch size, bound over one engine.

    Args:
        graph: makes the layers, with or without the losses.
        optimizer: of the training.
        options: see `Options`.
        batch: samples of a full batch. Smaller ones follow its plans and never need more memory; a budget is kept
            for it in all modes, or refused.
    """

    def __init__(
        self,
        graph: Callable[[bool], Graph],
        optimizer: Optimizer | None = None,
        options: Options | None = None,
        batch: int | None = None,
    ) -> None:
        self._graph = graph  # with or without the losses
        self.optimizer = optimizer
        self.options = options or Options()
        #: samples of a full batch, for which the plans are made; None: those of the first one
        self.batch = batch if batch is None else min(batch, self.options.micro_batch or batch)
        self.engine = Engine(self.options.threads, poison=self.options.poison)
        self.planning = self._new_planning()
        #: held from the feeding of a batch until its results are read: all programs share one block of memory
        self.lock = RLock()
        self._graphs: dict[bool, Graph] = {}
        self._lowered: dict[tuple[Mode, int], Lowered] = {}
        self._plans: dict[tuple[Mode, int], CompiledMemory] = {}
        self._programs: dict[tuple[Mode, int], Program] = {}
        self._kept: set[tuple[Mode, int]] = set()  # plans that others follow
        self._held: dict[str, int] = {}  # bytes of what was in memory when the first plans were made, by name
        self._first: Mode | None = None  # the mode for which these were asked, None: all
        #: this compilation as it would be for another budget, all that was promised planned; None: by the same options
        self.remake: Callable[[int], Compiled] | None = None
        #: what the budget counts for data while nobody reads any; None: so many batches as the options say
        self.usual_data: DataMemory | None = None
        #: where the budget stands, for messages
        self.place: tuple[Origin | None, str] = (None, "memory_budget")

    @property
    def state(self) -> StepState:
        return self.engine.state

    def graph(self, mode: Mode) -> Graph:
        """The layers of a mode in canonical order, and the order of inputs and labels in the data."""
        with_loss = mode != "predict"
        if with_loss not in self._graphs:
            self._graphs[with_loss] = self._graph(with_loss)
        return self._graphs[with_loss]

    @_locked
    def lowered(self, mode: Mode, batch: int) -> Lowered:
        """The operation list of a mode; no memory is taken."""
        key = (mode, batch)
        if key not in self._lowered:
            options = self.options
            self._lowered[key] = lower(
                self.graph(mode).nodes,
                batch=batch,
                training=mode == "train",
                labels=mode != "predict",
                metrics=mode != "predict",
                optimizer=self.optimizer if mode == "train" else None,
                accumulate_gradients=options.accumulate_gradients and mode == "train",
                seed=options.seed,
                convolution=options.convolution,
            )
            if options.micro_batch is not None and (reason := why_whole(self._lowered[key])):
                del self._lowered[key]
                raise UsageError(f"micro_batch: batches cannot be computed in pieces: {reason}")
        return self._lowered[key]

    def promise(self) -> None:
        """Plan every mode for a full batch; after that no mode and no smaller batch can be refused. Takes no memory.

        Raises:
            PlanError: they cannot all meet the memory budget.
        """
        with self.lock, self._located():
            if self.planning.undecided and self.batch is not None:
                self._plan_together(self._modes(self.batch), self.batch)

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Refusals name the place of the budget, whoever asked for what does not fit."""
        try:
            yield
        except PlanError as error:
            raise error.located(*self.place) from None

    @property
    def planned(self) -> bool:
        """Whether there are plans or weights."""
        return bool(self._plans) or self.begun

    @property
    def begun(self) -> bool:
        """Whether there are weights, so that planning goes on from what is there."""
        return bool(self.engine.store.arrays)

    def hold_data(self, data: DataMemory | None, uses: Sequence[tuple[Mode, int]] = ()) -> None:
        """Count ``data`` from now on: what reading takes; None: two batches, as at the beginning.

        Plans stay where the budget holds with it, else all modes are planned anew; before there are weights, from the
        start. ``uses`` are the modes and batch sizes that the data is for, planned as well where they are larger.

        Raises:
            PlanError: nothing fits; all is as it was. It names a budget with which every call up to this one works.
        """
        with self.lock, self._located():
            before, begun = self.planning.data, self.begun
            try:
                self._count(data, begun, uses)
            except Refusal as error:
                self.planning.data = before
                raise self._workable(error, lambda other: other._count(data, begun, uses)) from None

    def _count(self, data: DataMemory | None, begun: bool, uses: Sequence[tuple[Mode, int]]) -> None:
        if self.options.data_buffers == 0:
            return
        budget = self.options.memory_budget
        self.planning.data = data or self.usual_data
        if data is None or budget is None or self.planning.undecided:
            return
        if any(made.report.total - made.report.data + data.total > budget for made in self._plans.values()):
            self._plan_anew(begun)
        for mode, batch in uses:
            size = min(batch, self.options.micro_batch or batch)
            if size > (self.batch or size) and (mode, size) not in self._plans:
                self._plans[mode, size] = self._alone(mode, size)

    def _plan_anew(self, begun: bool) -> None:
        """All modes planned so far, around the weights that are there."""
        modes = [mode for mode in self._modes(self.batch or 1) if (mode, self.batch) in self._plans]
        old, plans = self.planning, self._plans
        if not begun:
            self.planning = self._new_planning(old.data)
            self.planning.splits = old.splits
        self._plans = {}
        try:
            self._plan_together(modes, self.batch or 1)
        except PlanError:
            self.planning, self._plans = old, plans
            raise
        self._programs.clear()

    def _workable(self, error: Refusal, asked: Callable[[Compiled], object]) -> Refusal:
        """The refusal with a budget for which all that was planned before is granted, and what was ``asked`` as well.

        More room changes what the first plans put on file, hence what is left for those that come later.
        """
        budget = error.smallest
        while True:
            try:
                asked((self.remake or self._remade)(budget))
            except PlanError as more:
                if more.smallest <= budget:
                    raise
                budget = more.smallest
            else:
                return error.with_smallest(budget)

    def _remade(self, budget: int) -> Compiled:
        made = self.with_options(memory_budget=budget)
        made._graphs, made._lowered = self._graphs, self._lowered
        made._held, made._first = self._held, self._first
        if self.batch is not None:
            if self._first is None:
                made.promise()
            else:
                made.memory(self._first, self.batch)
        return made

    def _new_planning(self, data: DataMemory | None = None) -> Planning:
        options = self.options
        return Planning(options.memory(), folder=options.swap_folder, data_buffers=options.data_buffers, data=data)

    @_locked
    def memory(self, mode: Mode, batch: int) -> CompiledMemory:
        """The memory plan of a mode and how it came about; no memory is taken.

        Raises:
            PlanError: it cannot meet the memory budget.
        """
        key = (mode, batch)
        with self._located():
            if key not in self._plans and self.planning.undecided:
                self._decide(mode, max(batch, self.batch or 0))
            if key not in self._plans:
                self._plans[key] = self._planned(mode, batch)
        return self._plans[key]

    def _modes(self, batch: int) -> list[Mode]:
        """What the model can do: training needs labels and, where there are weights, an optimizer."""
        found: list[Mode] = ["predict"]
        if self.lowered("evaluate", batch).labels:
            found.insert(0, "evaluate")
            if self.options.training:
                made = self.lowered("train", batch)
                if self.optimizer is not None or not made.gradients:
                    found.insert(0, "train")
        return found

    def _decide(self, mode: Mode, batch: int) -> None:
        """The first plans: of all modes, or where a budget is too small for training, of the others."""
        modes = self._modes(batch)
        self._first = mode
        if mode not in modes:
            modes.insert(0, mode)
        try:
            self._plan_together(modes, batch)
        except PlanError:
            if mode == "train" or "train" not in modes:
                raise
            self._plan_together([other for other in modes if other != "train"], batch)

    def _plan_together(self, modes: Sequence[Mode], batch: int) -> None:
        keys = [(mode, batch) for mode in modes]
        if batch > 1 and self.options.memory_budget is not None:
            # a single sample may be computed by other operations: an axis of size 1 is one that can be repeated
            keys += [(m, 1) for m in modes if not Planning.follows(self.lowered(m, 1), self.lowered(m, batch))]
        what = {"train": "", "evaluate": "evaluating", "predict": "predicting"}
        held = {name: array.nbytes for name, array in self.engine.store.arrays.items()} or self._held
        if self.planning.undecided:
            self._held = held
        made = self.planning.together([self.lowered(*key) for key in keys], [what[mode] for mode, _ in keys], held)
        self.batch = batch
        self._plans.update(zip(keys, made, strict=True))
        self._kept.update(keys)

    def _planned(self, mode: Mode, batch: int) -> CompiledMemory:
        """A plan beside those that were made first."""
        full, lowered = self.batch, self.lowered(mode, batch)
        if full is not None and batch < full:
            self._kept.add((mode, full))
            made = self.planning.smaller(lowered, self.memory(mode, full))
            if made is not None:
                return made
        if full is None or batch <= full:
            return self.planning.together([lowered])[0]
        try:
            return self._alone(mode, batch)
        except Refusal as error:
            data, begun, use = self.planning.data, self.begun, (mode, batch)
            raise self._workable(error, lambda other: other._count(data, begun, [use])) from None

    def _alone(self, mode: Mode, batch: int) -> CompiledMemory:
        """The plan of a batch larger than those for which the budget was promised, from what is left."""
        try:
            return self.planning.together([self.lowered(mode, batch)])[0]
        except Refusal as error:
            raise error.advised(
                f". The budget was kept for batches of up to {self.batch}, this one has {batch}"
            ) from None

    def plan(self, mode: Mode, batch: int) -> MemoryPlan:
        """The memory plan of a mode; no memory is taken."""
        return self.memory(mode, batch).plan

    def require_swap_file(self) -> None:
        """UsageError when the swap file that the plans so far ask for cannot be made; nothing stays behind."""
        if self.planning.file is not None:
            self.planning.file.require(max(made.file_bytes for made in self._plans.values()))

    def measured_cost(self, mode: Mode, batch: int) -> MeasuredCost | None:
        """What one of the first steps took, recomputation and swapping apart; None before it, or without both."""
        program = self._programs.get((mode, batch))
        return None if program is None else program.measured

    @_locked
    def program(self, mode: Mode, batch: int) -> Program:
        """The bound calls of a mode. Weights that did not exist are created and initialised."""
        key = (mode, batch)
        program = self._programs.get(key)
        if program is None or not self.engine.current(program):
            lowered, memory = self.lowered(mode, batch), self.memory(mode, batch)
            self._forget_oldest(key)
            self._ensure(lowered)
            if memory.plan.arena > self.engine.arena.size:
                self._programs.clear()  # they hold the smaller block
            file = self.planning.file if memory.swaps else None
            if file is not None:
                file.reserve(memory.file_bytes)
                file.forget()  # weights may have been read and written
            program = self.engine.program(lowered, memory.plan, file)
            precompile(missing(program.calls))
            self._programs[key] = program
        return program

    def _forget_oldest(self, key: tuple[Mode, int]) -> None:
        """Plans are small, but ever new batch sizes must not add up without end. The first ones stay."""
        others = [old for old in self._lowered if old != key and old not in self._kept]
        for old in others[: max(0, len(self._lowered) - _PLANS_KEPT)]:
            for kept in (self._lowered, self._plans, self._programs):
                kept.pop(old, None)

    def _ensure(self, lowered: Lowered) -> None:
        """Persistent memory and initial values, drawn in canonical order from NNTrainer's stream."""
        if self.planning.undecided:
            mode, batch = next(key for key, made in self._lowered.items() if made is lowered)
            self.memory(mode, batch)
        on_file = self.planning.on_file(lowered)
        fresh = set(self.engine.store.ensure(persistent(lowered), on_file, self.planning.file))
        stream = Stream(self.options.seed)
        done: set[str] = set()
        for row in lowered.table:
            for weight in row.weights:
                if weight.key in fresh and weight.key not in done:
                    done.add(weight.key)
                    array = self.engine.store.arrays[weight.key]
                    fill(weight.initializer, weight.dim, stream, array)
                    release(array)

    def weights(self, lowered: Lowered) -> dict[str, NDArray[Any]]:
        """Name to array in .bin order; the arrays are the live ones."""
        self._ensure(lowered)
        return {weight.key: self.engine.store.arrays[weight.key] for weight in lowered.weights}

    def optimizer_state(self, lowered: Lowered) -> dict[str, NDArray[Any]]:
        """Name to live array of every optimizer tensor."""
        self._ensure(lowered)
        return {value.name: self.engine.store.arrays[value.name] for value in lowered.optimizer_state}

    def copies(self, arrays: Mapping[str, NDArray[Any]]) -> Copies:
        """Copies of arrays; not in memory but in a file in the swap folder where the memory is limited.

        Raises:
            UsageError: the file cannot be made.
        """
        limited = self.options.memory_budget is not None or self.options.swap
        return Copies(arrays, SwapFile(self.options.swap_folder) if limited else None)

    def feed(
        self, mode: Mode, program: Program, inputs: Sequence[NDArray[Any]], labels: Sequence[NDArray[Any]] = ()
    ) -> None:
        """Copy a batch, inputs and labels in the order of the data, into the arena."""
        graph = self.graph(mode)
        _copy("input", graph.inputs, program.inputs, graph.input_order, inputs)
        if mode != "predict":
            _copy("label", graph.labels, program.labels, graph.label_order, labels)

    def with_options(self, **changes: Any) -> Compiled:
        """The same graph compiled anew with other options; weights are not shared."""
        made = Compiled(self._graph, self.optimizer, replace(self.options, **changes), self.batch)
        made.place = self.place
        return made


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
