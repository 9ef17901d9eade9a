"""Layers made to compute one number, forward and back, again and again from the same state.

A probe lowers copies of the layers into an engine of its own, with memory of its own for every value: the model is only
read. One layer becomes a model by adding up its outputs with weights that are drawn once; the sum stands for the loss.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import UsageError
from nntrainer_py.graph.lower import Node, lower
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.context import RunContext
from nntrainer_py.layers.input import Input
from nntrainer_py.layers.negative import Negative
from nntrainer_py.memory.plan import plan
from nntrainer_py.memory.recompute import candidates, recompute
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import StepState, Value
from nntrainer_py.training.engine import Engine, Program, persistent, transient

Array = NDArray[Any]


class WeightedSum(Layer):
    """The sum of what comes in, each element times that of the label: a loss whose derivative is the label."""

    keyword = "weighted_sum"
    is_loss = True

    def forward(self, ctx: RunContext) -> float:
        ctx.outputs[0][...] = ctx.inputs[0]
        return float(np.sum(ctx.inputs[0].astype(np.float64) * ctx.labels[0]))

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = ctx.labels[0]


def alone(node: Node, inputs: Sequence[TensorDim], outputs: int, *, computed: bool = False) -> list[Node]:
    """A graph of the layer of a node by itself: inputs before it and, unless it is a loss, a sum for each output.

    ``computed``: between each input and the layer stand two negations, which could be done again.
    """
    nodes = [Node(f"{node.name}/input{i}", Input(), [], [dim]) for i, dim in enumerate(inputs)]
    own = [(i, 0) for i in range(len(inputs))]
    if computed:
        for turn in ("there", "back"):
            nodes += [Node(f"{node.name}/{turn}{i}", Negative(), [place]) for i, place in enumerate(own)]
            own = [(len(nodes) - len(inputs) + i, 0) for i in range(len(inputs))]
    position = len(nodes)
    nodes.append(Node(node.name, node.layer, own, [], node.outputs, node.origin))
    if not node.layer.is_loss:
        nodes += [Node(f"{node.name}/sum{k}", WeightedSum(), [(position, k)]) for k in range(outputs)]
    return nodes


class Probe:
    """Nodes ready to run.

    Args:
        nodes: copied before anything is done with them.
        batch: samples.
        weights: values by key; copied. Those that are not among them are zeros.
        state: counters and numbers of the model; copied, so that random draws are those of its next step.
        derivatives: those by the inputs are wanted.
        forward_only: nothing but the forward pass, and every layer's outputs kept.
        hostile: memory as where it is short: what can be computed again is, and what is no longer used is overwritten
            with NaN. A layer that keeps views of its arrays shows.
        options: of `lower`: seed, convolution.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        batch: int,
        weights: Mapping[str, Array],
        state: StepState | None = None,
        *,
        threads: int = 1,
        derivatives: bool = False,
        forward_only: bool = False,
        hostile: bool = False,
        **options: Any,
    ) -> None:
        self.nodes = copied(nodes)
        self.lowered = lower(
            self.nodes,
            batch=batch,
            training=True,
            input_derivatives=derivatives,
            keep_gradients=not forward_only,
            fusion=not forward_only,  # a value inside fused operations is never in memory
            **options,
        )
        if forward_only:
            self.lowered.operations = self.lowered.operations[: self.lowered.forward_end]
        if hostile:
            operations = self.lowered.operations
            self.lowered.operations = recompute(operations, candidates(operations))
        self._engine = Engine(threads, poison=hostile)
        self._engine.store.ensure(persistent(self.lowered))
        self._base = {name: np.array(weights[name]) for name in self._engine.store.arrays if name in weights}
        if state is not None:
            np.copyto(self._engine.state.counters, state.counters)
        self._engine.state.counters[StepState.OFFSET] = 0
        self._engine.state.numbers[StepState.SAMPLES] = batch
        self.program = self._bound()
        penalties = {
            value
            for operation in self.lowered.operations
            if operation.kind.name == "l2_loss"
            for value in operation.writes.values()
        }
        # the way back leaves regularizers to the update
        self._losses = [
            array for array, value in zip(self.program.losses, self.lowered.losses, strict=True)
            if value not in penalties
        ]  # fmt: skip
        self._changed: list[str] | None = None  # weights and state that are not as they were; None: any
        self._feeds: dict[str, Array] = {}
        self._again: Callable[[], None] | None = None

    def _bound(self) -> Program:
        lowered = self.lowered
        external, pinned = transient(lowered)
        kept = [*lowered.gradients.values(), *(one for made in lowered.derivatives.values() for one in made)]
        pinned |= {value: len(lowered.operations) for value in kept if value is not None}
        made = plan(
            lowered.operations, external=external, pinned=pinned, threads=self._engine.threads,
            in_place=False, reuse=False,
        )  # fmt: skip
        return self._engine.program(lowered, made)

    def feed(self, values: Sequence[Value], arrays: Sequence[Array]) -> None:
        """What inputs and labels hold from now on."""
        for value, array in zip(values, arrays, strict=True):
            self._feeds[value.name] = np.array(array, np.float32).reshape(value.shape)

    def fed(self, value: Value) -> Array:
        """What was fed, or the weight's values."""
        return self._feeds[value.name] if value.name in self._feeds else self._base[value.name]

    def value(self, changed: Value | None = None, to: Array | None = None) -> float:
        """The forward pass, with other values for one input or weight; float64."""
        self.begin_again()
        for name in self._base if self._changed is None else self._changed:
            if name in self._base:
                np.copyto(self._engine.store.arrays[name], self._base[name])
        for given in (*self.lowered.inputs, *self.lowered.labels):
            np.copyto(self.program.array(given), self._feeds[given.name])
        self._changed = []
        if changed is not None and to is not None:
            np.copyto(self.program.array(changed), to)
            self._changed = [changed.name]
        self._engine.forward(self.program)
        return float(sum(float(array[0]) for array in self._losses))

    def function(self, value: Value) -> Callable[[Array], float]:
        """The forward pass as a function of one input or weight."""
        return lambda array: self.value(value, array)

    def back(self) -> None:
        """The way back, after `value`."""
        self._changed = None  # statistics move
        self._engine.backward(self.program)

    def array(self, value: Value) -> Array:
        """A copy of what a value holds."""
        return self.program.array(value).copy()

    def written(self, value: Value) -> bool:
        """Whether any operation makes it."""
        return value.root in self.program.plan.where and any(
            value.root in (made.root for made in operation.writes.values()) for operation in self.lowered.operations
        )

    def repeatable(self) -> bool:
        """Whether two runs give the same.

        Where they do not, every run from now on begins with the layers' attributes and NumPy's and Python's global
        generators as they are now; whether that is enough is what this returns then.
        """
        start = _Start(self.nodes)
        if self._same():
            return True
        self._again = start.put_back
        return self._same()

    @property
    def restarts(self) -> bool:
        """Whether every run begins with the attributes and generators of the first, because it must."""
        return self._again is not None

    def begin_again(self) -> None:
        """Attributes and generators as at the beginning of a run, where that matters."""
        if self._again is not None:
            self._again()

    def _same(self) -> bool:
        first, outputs = self.value(), self._outputs()
        second = self.value()
        same = all(a.tobytes() == b.tobytes() for a, b in zip(outputs, self._outputs(), strict=True))
        return same and np.float64(first).tobytes() == np.float64(second).tobytes()

    def _outputs(self) -> list[Array]:
        return [self.array(value) for value in self.lowered.predictions]


class _Start:
    """The attributes of layers and the state of the global generators, to begin with again."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._layers = [node.layer for node in nodes if not node.layer.emits]
        self._attributes = [copy.deepcopy(vars(layer)) for layer in self._layers]
        self._numpy, self._python = np.random.get_state(), random.getstate()

    def put_back(self) -> None:
        for layer, attributes in zip(self._layers, self._attributes, strict=True):
            vars(layer).clear()
            vars(layer).update(copy.deepcopy(attributes))
        np.random.set_state(self._numpy)
        random.setstate(self._python)


def copied(nodes: Sequence[Node]) -> list[Node]:
    """The nodes with layers of their own; one layer of several nodes stays one.

    Raises:
        UsageError: a user's layer holds what cannot be copied.
    """
    made: dict[int, Any] = {}
    for node in nodes:
        try:
            copy.deepcopy(node.layer, made)
        except Exception as error:  # whatever an attribute's own way of copying raises
            raise UsageError(
                f"[{node.name}] cannot be copied, so that checking it would change it: {type(error).__name__}: {error}"
            ) from error
    return copy.deepcopy(list(nodes), made)
