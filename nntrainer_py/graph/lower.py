"""Layers to operations: shapes first, then the forward list, then the way back, canonical order throughout.

The order of emission is NNTrainer's: forward in canonical order; backward from the last layer to the first, per layer
gradient, derivative, update. An update is emitted as soon as the gradient of its weight is complete (the last user in
backward order), or at the end when clipping or gradient accumulation needs all gradients first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from nntrainer_py.errors import DescriptionError, Fault, UsageError, counted
from nntrainer_py.graph import figures
from nntrainer_py.graph.fusion import fuse
from nntrainer_py.graph.limits import require_addressable, require_addressable_values
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter, Weight
from nntrainer_py.memory.listing import forward_end
from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.plugins import users_code
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.emitter import Emitter, Target, drop_dead
from nntrainer_py.tensor.operations.record import Operation, Phase, Role, Value


@dataclass(slots=True)
class Node:
    """One layer of the realised graph, in canonical order; connections are (producer's position, output index)."""

    name: str
    layer: Layer
    inputs: list[tuple[int, int]]
    input_dims: list[TensorDim] = field(default_factory=list)  # of model inputs; batch ignored
    outputs: int = 1  # outputs that have consumers, at least 1
    origin: Any = None


@dataclass(slots=True)
class LayerShape:
    """A row of the layer table."""

    name: str
    keyword: str
    inputs: tuple[TensorDim, ...]
    outputs: tuple[TensorDim, ...]
    weights: list[Weight]
    trainable: bool


@dataclass(slots=True)
class Lowered:
    """Everything later stages need: one flat list and the values at its borders."""

    operations: list[Operation]
    inputs: list[Value]
    labels: list[Value]
    outputs: list[Value]  # of the layers nobody consumes, in canonical order; of a loss layer: what it passes on
    predictions: list[Value]  # what each loss compares with its label (or the outputs, without a loss)
    losses: list[Value]
    weights: list[Weight]  # .bin order; a shared one at its train-mode position
    table: list[LayerShape]
    batch: int
    training: bool
    node_outputs: dict[str, list[Value]] = field(default_factory=dict)
    gradients: dict[str, Value] = field(default_factory=dict)  # by weight key
    derivatives: dict[str, list[Value | None]] = field(default_factory=dict)  # by node: derivative by each input
    optimizer_state: list[Value] = field(default_factory=list)
    metrics: dict[str, Value] = field(default_factory=dict)  # correct: a count; regression: sums (see graph/figures.py)

    @property
    def forward_end(self) -> int:
        """Position of the first operation of the backward pass."""
        return forward_end(self.operations)


def finalize(nodes: Sequence[Node], batch: int, training: bool) -> list[LayerShape]:
    """Shapes and weights of every node. Raises DescriptionError with all faults that can be told apart."""
    table: list[LayerShape] = []
    shared: dict[str, list[Weight]] = {}
    faults: list[Fault] = []
    broken: set[int] = set()
    for position, node in enumerate(nodes):
        if any(producer in broken for producer, _ in node.inputs):
            broken.add(position)
            table.append(LayerShape(node.name, node.layer.keyword, (), (), [], False))
            continue
        try:
            table.append(_finalize_node(node, table, batch, training, shared))
        except (ValueError, UsageError) as error:
            faults.append(_fault(node, str(error)))
            broken.add(position)
            table.append(LayerShape(node.name, node.layer.keyword, (), (), [], False))
    if faults:
        raise DescriptionError(faults)
    return table


def _finalize_node(
    node: Node, table: list[LayerShape], batch: int, training: bool, shared: dict[str, list[Weight]]
) -> LayerShape:
    dims: list[TensorDim] = []
    for producer, index in node.inputs:
        made = table[producer].outputs
        if index >= len(made):
            raise ValueError(f"{table[producer].name} has {counted(len(made), 'output')}, output {index} is asked for")
        dims.append(made[index])
    if not node.inputs:
        dims = [dim.replace(batch=batch) for dim in node.input_dims]
    elif node.input_dims and [d.replace(batch=1) for d in node.input_dims] != [d.replace(batch=1) for d in dims]:
        given, computed = ", ".join(map(str, node.input_dims)), ", ".join(map(str, dims))
        raise ValueError(f"input_shape is {given}, but the layers before it give {computed}")
    group = node.layer.shared_from or node.name
    context = FinalizeContext(node.layer, tuple(dims), training, node.outputs, shared=shared.get(group))
    with nullcontext() if node.layer.emits else users_code(f"[{node.name}] finalize"):
        node.layer.finalize(context)
    require_addressable((*dims, *context.outputs, *(weight.dim for weight in context.weights)))
    if group not in shared:
        shared[group] = context.weights
        for weight in context.weights:
            weight.owner = group
    elif len(context.weights) != len(shared[group]):
        raise ValueError(f"shared_from: {group} has {len(shared[group])} weights, this layer {len(context.weights)}")
    node.layer.weights = context.weights
    return LayerShape(
        node.name, node.layer.keyword, tuple(dims), tuple(context.outputs), context.weights, bool(node.layer.trainable)
    )


class Lowering:
    """One lowering of a graph at one batch size."""

    def __init__(
        self,
        nodes: Sequence[Node],
        *,
        batch: int,
        training: bool,
        optimizer: Optimizer | None = None,
        accumulate_gradients: bool = False,
        seed: int = 0,
        input_derivatives: bool = False,
        keep_gradients: bool = False,
        convolution: str = "auto",
        labels: bool = True,
        metrics: bool = False,
        fusion: bool = True,
    ) -> None:
        self.nodes = list(nodes)
        self.batch = batch
        self.training = training
        self.optimizer = optimizer
        self.accumulate_gradients = accumulate_gradients
        self.seed = seed
        self.input_derivatives = input_derivatives
        self.keep_gradients = keep_gradients
        self.convolution = convolution
        self.with_labels = labels
        self.with_metrics = metrics
        self.fusion = fusion
        self.emitter = Emitter()
        self.contexts: list[LayerEmitter] = []
        self.inputs: list[Value] = []
        self.labels: list[Value] = []
        self.losses: list[Value] = []
        self.predictions: list[Value] = []
        self.targets: dict[str, Target] = {}
        self.optimizer_state: list[Value] = []
        self.derivatives: dict[str, list[Value | None]] = {}
        self.metrics: dict[str, Value] = {}
        self.faults: list[Fault] = []  # of the way back

    def run(self) -> Lowered:
        """Finalize, emit, drop what is dead."""
        self.table = finalize(self.nodes, self.batch, self.training)
        self.weights = self._weights()
        self._forward()
        self.emitter.run_postponed(Phase.STATE)
        if self.training and self.losses:
            self._backward()
        if self.faults and not self.keep_gradients:
            raise DescriptionError(self.faults)
        outputs = self._outputs()
        wanted = [*outputs, *self.losses, *self.predictions, *self.metrics.values()]
        if self.keep_gradients:
            wanted += [target.value for target in self.targets.values()]
            wanted += [value for values in self.derivatives.values() for value in values if value is not None]
        operations = drop_dead(self.emitter.operations, wanted)
        require_addressable_values(operations)
        return Lowered(
            operations=fuse(operations, wanted) if self.fusion else operations,
            inputs=self.inputs,
            labels=self.labels,
            outputs=outputs,
            predictions=self.predictions or outputs,
            losses=self.losses,
            weights=self.weights,
            table=self.table,
            batch=self.batch,
            training=self.training,
            node_outputs={node.name: list(ctx.outputs) for node, ctx in zip(self.nodes, self.contexts, strict=True)},
            gradients={key: target.value for key, target in self.targets.items()},
            derivatives=self.derivatives,
            optimizer_state=self.optimizer_state,
            metrics=self.metrics,
        )

    def _weights(self) -> list[Weight]:
        """Distinct weights in .bin order: a trainable shared one at its last user, state at its first."""
        users: dict[int, list[int]] = {}
        for position, row in enumerate(self.table):
            for weight in row.weights:
                users.setdefault(id(weight), []).append(position)
        ordered: list[Weight] = []
        for position, row in enumerate(self.table):
            for weight in row.weights:
                place = users[id(weight)]
                if position == (place[-1] if weight.trainable else place[0]) and weight not in ordered:
                    ordered.append(weight)
        for weight in ordered:
            role = Role.WEIGHT if weight.trainable else Role.STATE
            weight.value = Value(weight.key, weight.dim.shape, role, weight.dtype)
        return ordered

    def _forward(self) -> None:
        for node, row in zip(self.nodes, self.table, strict=True):
            self.emitter.scope(node.name, Phase.FORWARD, node.origin)
            if node.inputs:
                values = [self.contexts[producer].outputs[index] for producer, index in node.inputs]
            else:
                values = [
                    self.emitter.value(f"{node.name}:input{i}", dim.shape, Role.INPUT)
                    for i, dim in enumerate(row.inputs)
                ]
                self.inputs.extend(values)
            labels: list[Value] = []
            if self.with_labels and (node.layer.is_loss or node.layer.needs_label):
                label_dim = getattr(node.layer, "label_dim", None)
                dim = label_dim(row.outputs[0]) if label_dim is not None else row.outputs[0]
                labels = [self.emitter.value(f"{node.name}:label", dim.shape, Role.LABEL)]
                self.labels.extend(labels)
            context = LayerEmitter(
                self.emitter, node.layer, values, training=self.training, labels=labels, seed=self.seed,
                output_dims=row.outputs, convolution=self.convolution,
            )  # fmt: skip
            node.layer.weights = row.weights
            self.contexts.append(context)
            if self.with_metrics and node.layer.is_loss and labels and not self.metrics:
                # before the loss, which may overwrite the prediction
                before = self.nodes[node.inputs[0][0]].layer if node.inputs else None
                self.metrics = figures.emit(self.emitter, node.layer, before, values[0], labels[0])
            _methods(node.layer).forward(context)
            if node.layer.is_loss:
                self.predictions.append(values[0])
            elif self.with_metrics and labels and not self.metrics:
                self.metrics = figures.emit_choice(self.emitter, context.outputs[0], labels[0])
            self.losses.extend(context.losses)
        if self.losses:
            self._regularization()

    def _regularization(self) -> None:
        for weight in self.weights:
            if weight.regularizer > 0.0 and self._trained(weight):
                self.emitter.scope(weight.owner, Phase.FORWARD)
                self.losses.append(self.emitter.run("l2_loss", x=weight.value, constant=weight.regularizer))

    def _trained(self, weight: Weight) -> bool:
        return weight.trainable and any(row.trainable and weight in row.weights for row in self.table)

    def _backward(self) -> None:
        requires = self._requires()
        trained = [weight for weight in self.weights if self._trained(weight)]
        for weight in trained:
            value = Value(f"{weight.key}:grad", weight.dim.shape, Role.GRADIENT)
            value.persistent = self.accumulate_gradients
            self.targets[weight.key] = Target(value, started=self.accumulate_gradients)
        delayed = self.accumulate_gradients or any(weight.clip > 1e-6 for weight in trained)
        remaining = {
            weight.key: sum(row.trainable and weight in row.weights for row in self.table) for weight in trained
        }
        incoming: list[dict[int, list[Value]]] = [{} for _ in self.nodes]
        for position in range(len(self.nodes) - 1, -1, -1):
            node, row, context = self.nodes[position], self.table[position], self.contexts[position]
            self.emitter.scope(node.name, Phase.DERIVATIVE, node.origin)
            context.incoming = [context.sum(incoming[position].get(k, [])) for k in range(len(context.outputs))]
            reached = bool(context.losses) or any(value is not None for value in context.incoming)
            mine = [weight for weight in row.weights if row.trainable and weight.key in self.targets]
            node.layer.weights = row.weights
            if reached:
                self._node_backward(position, mine, requires, incoming)
            if not delayed:
                self._updates(mine, remaining)
        if delayed and self.optimizer is not None:
            self._delayed_updates(trained)

    def _requires(self) -> list[bool]:
        """Whether anything trainable stands at or before each node."""
        requires: list[bool] = []
        for row, node in zip(self.table, self.nodes, strict=True):
            own = row.trainable and any(weight.trainable for weight in row.weights)
            requires.append(own or any(requires[producer] for producer, _ in node.inputs) or self.input_derivatives)
        return requires

    def _node_backward(
        self, position: int, mine: list[Weight], requires: list[bool], incoming: list[dict[int, list[Value]]]
    ) -> None:
        node, context = self.nodes[position], self.contexts[position]
        methods = _methods(node.layer)
        if mine:
            context.targets = {weight.key: self.targets[weight.key] for weight in mine}
            self.emitter.scope(node.name, Phase.GRADIENT, node.origin)
            self._users(node, methods.calc_gradient, context)
        if node.inputs:
            context.derivative_wanted = tuple(requires[producer] for producer, _ in node.inputs)
        else:
            context.derivative_wanted = (self.input_derivatives,) * len(context.inputs)
        if not any(context.derivative_wanted):
            return
        if not node.layer.supports_derivative:
            if self.input_derivatives:
                return
            message = "passes no derivative back, so nothing before it can be trained; set trainable = false there"
            raise DescriptionError(_fault(node, message))
        self.emitter.scope(node.name, Phase.DERIVATIVE, node.origin)
        self._users(node, methods.calc_derivative, context)
        self.derivatives[node.name] = [context.derivatives.get(i) for i in range(len(context.inputs))]
        for index, (producer, output) in enumerate(node.inputs):
            value = context.derivatives.get(index)
            if value is not None and requires[producer]:
                incoming[producer].setdefault(output, []).append(value)

    def _users(self, node: Node, method: Callable[[LayerEmitter], None], context: LayerEmitter) -> None:
        """Emit a way back; that a user's class has none is kept, so that all of them are told together.

        Where gradients are kept to be looked at (a check of gradients), they count as zeros instead.
        """
        try:
            method(context)
        except UsageError as error:
            self.faults.append(_fault(node, str(error)))

    def _updates(self, mine: list[Weight], remaining: dict[str, int]) -> None:
        for weight in mine:
            remaining[weight.key] -= 1
            if remaining[weight.key] == 0 and self.optimizer is not None and self.targets[weight.key].started:
                self._update(weight, None)

    def _update(self, weight: Weight, scale: Value | None) -> None:
        assert self.optimizer is not None
        self.emitter.scope(weight.owner, Phase.UPDATE)
        gradient = self.targets[weight.key].value
        self.optimizer_state.extend(self.optimizer.emit_update(self.emitter, weight, gradient, scale))

    def _delayed_updates(self, trained: list[Weight]) -> None:
        """After the whole backward pass; weights with a limit share one global norm (training.md 6)."""
        started = [weight for weight in trained if self.targets[weight.key].started]
        clipped = [weight for weight in started if weight.clip > 1e-6]
        self.emitter.scope("clip", Phase.UPDATE)
        norm: Value | None = None
        if clipped:
            gradients: dict[str, Any] = {f"x{i}": self.targets[weight.key].value for i, weight in enumerate(started)}
            norm = self.emitter.run("global_norm", **gradients)
        for weight in started:
            scale = None
            if norm is not None and weight.clip > 1e-6:
                self.emitter.scope("clip", Phase.UPDATE)
                scale = self.emitter.run("clip_scale", norm=norm, limit=weight.clip)
            self._update(weight, scale)

    def _outputs(self) -> list[Value]:
        consumed = {producer for node in self.nodes for producer, _ in node.inputs}
        return [
            value
            for position, context in enumerate(self.contexts)
            if position not in consumed  # an output that nobody reads beside one that is read is none of the model
            for value in context.outputs
        ]


def _fault(node: Node, message: str) -> Fault:
    """A fault of a layer, at its section."""
    origin = node.origin
    return Fault(getattr(origin, "file", ""), getattr(origin, "line", 0), node.name, node.layer.keyword, message)


def _methods(layer: Layer) -> Any:
    """The layer itself, or for a user's NumPy layer the adapter that turns its methods into opaque operations."""
    if layer.emits:
        return layer
    from nntrainer_py.layers.opaque import OpaqueAdapter

    return OpaqueAdapter(layer)


def lower(nodes: Sequence[Node], **options: Any) -> Lowered:
    """Lower ``nodes``; options as in :class:`Lowering`."""
    return Lowering(nodes, **options).run()
