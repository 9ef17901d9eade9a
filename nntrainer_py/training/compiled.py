"""A graph made ready to run: lowered, planned and bound once per mode and batch size, over one set of weights.

Three modes share weights and one transient block:

* ``train``: batch statistics, dropout, losses, the way back and the updates;
* ``evaluate``: inference behaviour with the losses;
* ``predict``: inference behaviour without labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import DataError
from nntrainer_py.graph.lower import Lowered, lower
from nntrainer_py.graph.order import Graph
from nntrainer_py.memory.plan import MemoryPlan, plan
from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.tensor.initializers import fill
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.tensor.rng import Stream
from nntrainer_py.training.engine import Engine, Program, persistent, transient

Mode = Literal["train", "evaluate", "predict"]


@dataclass(frozen=True, slots=True)
class Options:
    """What decides how a graph is compiled; none of the memory options changes a number."""

    threads: int = 1
    seed: int = 0
    convolution: str = "auto"
    in_place: bool = True
    reuse: bool = True
    accumulate_gradients: bool = False


class Compiled:
    """Programs by mode and batch size, bound over one engine."""

    def __init__(
        self, graph: Callable[[bool], Graph], optimizer: Optimizer | None = None, options: Options | None = None
    ) -> None:
        self._graph = graph  # with or without the losses
        self.optimizer = optimizer
        self.options = options or Options()
        self.engine = Engine(self.options.threads)
        self._graphs: dict[bool, Graph] = {}
        self._lowered: dict[tuple[Mode, int], Lowered] = {}
        self._plans: dict[tuple[Mode, int], MemoryPlan] = {}
        self._programs: dict[tuple[Mode, int], Program] = {}

    @property
    def state(self) -> StepState:
        return self.engine.state

    def graph(self, mode: Mode) -> Graph:
        """The layers of a mode in canonical order, and the order of inputs and labels in the data."""
        with_loss = mode != "predict"
        if with_loss not in self._graphs:
            self._graphs[with_loss] = self._graph(with_loss)
        return self._graphs[with_loss]

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
        return self._lowered[key]

    def plan(self, mode: Mode, batch: int) -> MemoryPlan:
        """The memory plan of a mode; no memory is taken."""
        key = (mode, batch)
        if key not in self._plans:
            lowered = self.lowered(mode, batch)
            external, pinned = transient(lowered)
            self._plans[key] = plan(
                lowered.operations,
                external=external,
                pinned=pinned,
                threads=self.options.threads,
                in_place=self.options.in_place,
                reuse=self.options.reuse,
            )
        return self._plans[key]

    def program(self, mode: Mode, batch: int) -> Program:
        """The bound calls of a mode. Weights that did not exist are created and initialised."""
        key = (mode, batch)
        program = self._programs.get(key)
        if program is None or not self.engine.current(program):
            lowered, made = self.lowered(mode, batch), self.plan(mode, batch)
            self._ensure(lowered)
            program = self._programs[key] = self.engine.program(lowered, made)
        return program

    def _ensure(self, lowered: Lowered) -> None:
        """Persistent memory and initial values, drawn in canonical order from NNTrainer's stream."""
        fresh = set(self.engine.store.ensure(persistent(lowered)))
        stream = Stream(self.options.seed)
        done: set[str] = set()
        for row in lowered.table:
            for weight in row.weights:
                if weight.key in fresh and weight.key not in done:
                    done.add(weight.key)
                    fill(weight.initializer, weight.dim, stream, self.engine.store.arrays[weight.key])

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

    def with_options(self, **changes: Any) -> Compiled:
        """The same graph compiled anew with other options; weights are not shared."""
        return Compiled(self._graph, self.optimizer, replace(self.options, **changes))


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
