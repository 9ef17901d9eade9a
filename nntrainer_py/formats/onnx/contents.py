"""Which ONNX value holds the present contents of each value of a plan.

An operation may add to what a value holds, or change it in place, or write a part of it; an ONNX value is made once. So
every write gives a new ONNX value, and later reads are of that one. This is the one place that knows.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.formats.onnx.builder import GraphBuilder, Term
from nntrainer_py.tensor.operations.record import Role, StepState, Value

#: names of the numbers and counters of the step state, as inputs of the graph, by their place
NUMBERS = {
    StepState.LEARNING_RATE: "learning_rate",
    StepState.SAMPLES: "samples",
    StepState.LOSS_SCALE: "loss_scale",
}
COUNTERS = {
    StepState.ITERATION: "iteration",
    StepState.STEP: "step",
    StepState.OFFSET: "offset",
}


class Contents:
    """Present contents of values and step state.

    ``defaults`` holds what inputs are when nobody gives them, by name: arrays of persistent values, or numbers of the
    step state.
    """

    def __init__(self, graph: GraphBuilder, defaults: Mapping[str, NDArray[np.generic]]) -> None:
        self.graph = graph
        self.defaults = defaults
        self._of: dict[Value, Term] = {}
        self._views: dict[tuple[str, int, tuple[int, ...]], Term] = {}
        self._state: dict[str, Term] = {}
        #: persistent values that some operation changed, in the order of their first change
        self.changed: dict[Value, None] = {}

    def number(self, place: int) -> Term:
        """A number of the step state: float64, shape (1,)."""
        return self._step(NUMBERS[place], "float64")

    def counter(self, place: int) -> Term:
        """A counter of the step state: int64, shape (1,)."""
        return self._step(COUNTERS[place], "int64")

    def _step(self, name: str, dtype: str) -> Term:
        if name not in self._state:
            self._state[name] = self.graph.input(name, (1,), dtype, self.defaults.get(name))
        return self._state[name]

    @property
    def counters(self) -> dict[str, Term]:
        """The counters that the graph reads, by name."""
        return {name: self._state[name] for name in COUNTERS.values() if name in self._state}

    def declare(self, value: Value) -> None:
        """Make an input of the graph of a value that no operation makes."""
        self._of[value] = self.graph.input(value.name, value.shape, value.dtype, self.defaults.get(value.name))

    def read(self, value: Value) -> Term:
        """The present contents, in the value's shape."""
        root = value.root
        whole = self._whole(root)
        if value is root:
            return whole
        key = (whole.name, value.root_offset, value.shape)
        if key not in self._views:
            start = value.root_offset
            part = whole if value.size == root.size else whole.reshape(root.size).slice(0, start, start + value.size)
            self._views[key] = part.reshape(*value.shape)
        return self._views[key]

    def _whole(self, root: Value) -> Term:
        if root not in self._of:
            if root.role is Role.CONSTANT:
                self.graph.check_room(root.nbytes)
                self._of[root] = self.graph.constant(root.filled())
            elif root.role in (Role.INPUT, Role.LABEL) or root.persistent:
                self.declare(root)
            else:
                raise ValueError(f"{root.name} is read before it is made")
        return self._of[root]

    def write(self, value: Value, term: Term) -> None:
        """New contents: of all, or of the part that a view shows."""
        root = value.root
        if term.dtype != value.dtype:
            raise ValueError(f"{value.name}: expected {value.dtype}, got {term.dtype}")
        if value.size == root.size:
            self._of[root] = term.reshape(*root.shape)
        else:
            start, stop = value.root_offset, value.root_offset + value.size
            before = self._before(root).reshape(root.size)
            parts = [term.reshape(value.size)]
            if start:
                parts.insert(0, before.slice(0, 0, start))
            if stop < root.size:
                parts.append(before.slice(0, stop, root.size))
            self._of[root] = parts[0].concat(0, *parts[1:]).reshape(*root.shape)
        if root.persistent:
            self.changed[root] = None

    def _before(self, root: Value) -> Term:
        """What a value held that is now written in part; zeros where nothing was."""
        if root not in self._of and not root.persistent:
            self._of[root] = self.graph.constant(np.zeros(root.shape, root.dtype))
        return self._whole(root)
