"""A whole training step as one ONNX graph of standard operators, so that stock ONNX Runtime trains the network.

The graph is a function without memory: it takes inputs, labels, weights, optimizer state and the numbers of the step,
and gives the loss, the predictions and the new weights and state. It is written from the operation records that a step
of ours replays, fused as they are.

Names
    Inputs and labels are ``<layer>:input0`` and ``<layer>:label``; weights and optimizer state have the keys of
    `Model.weights` and of the checkpoint. The new contents of what a step changes are called ``<key>/next``. Beside
    ``loss`` (all losses added, where there is one) there are ``prediction`` (numbered where there are several),
    ``metric:<name>`` and, when asked for, ``<key>:grad``.

Numbers of the step (one element each; only those that the graph reads)
    ``learning_rate``, ``samples`` (of the batch, the divisor of a mean loss), ``loss_scale``: float64. ``iteration``
    (updates done before), ``step`` (of the random draws), ``offset`` (index of the first sample in the logical batch):
    int64. ``iteration/next`` and ``step/next`` are one more.

Metadata
    ``nntrainer_py.version``, ``nntrainer_py.batch`` and ``nntrainer_py.updates``, a JSON object from each input that a
    step changes to the output that holds its new contents.

What a step of ours tests is not tested here: labels that cannot be right, and a loss that is not finite. A caller who
tests the loss still has the old weights.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from nntrainer_py.errors import DescriptionError, Fault, UsageError, quoted
from nntrainer_py.formats.atomic import write_atomically
from nntrainer_py.formats.onnx.builder import GraphBuilder, Term
from nntrainer_py.formats.onnx.contents import Contents
from nntrainer_py.formats.onnx.emission import emit, missing
from nntrainer_py.graph.lower import Lowered, lower
from nntrainer_py.tensor.operations.record import Operation, StepState, Value
from nntrainer_py.version import __version__

if TYPE_CHECKING:
    from onnx import ModelProto

UPDATES = "nntrainer_py.updates"
#: kinds that run a user's NumPy
_USERS = ("opaque", "user_activation", "user_activation_derivative", "user_update")
_NEXT = "/next"


class TrainableModel(Protocol):
    """What is needed of a `Model`."""

    @property
    def compiled(self) -> Any: ...

    @property
    def batch_size(self) -> int: ...

    @property
    def trainable(self) -> bool: ...

    def lowered(self, mode: Any, batch: int | None) -> Lowered: ...

    def learning_rate(self, iteration: int) -> float: ...


def training_graph(
    model: TrainableModel, *, batch_size: int | None = None, gradients: bool = False, weights: bool = True
) -> ModelProto:
    """The training step of a `Model` on a batch of ``batch_size`` (default: the model's).

    With ``weights`` the present weights, optimizer state and step numbers are in the file, as defaults of the inputs of
    those names. ``gradients`` makes the gradients of all trained weights outputs too.

    Raises:
        MissingExtraError: the library ``onnx`` is not installed.
        DescriptionError: layers that no standard operator computes; all of them are named.
        UsageError: the model cannot be trained, or its tensors are more than an ONNX file can hold.
    """
    _require_model("training_graph", model)
    if not model.trainable:
        raise UsageError("a training graph needs a model with a loss and an optimizer")
    compiled, batch = model.compiled, _batch(model, batch_size)
    options = compiled.options
    if gradients or options.accumulate_gradients:  # not the model's own list, in which a step may lack what is wanted
        lowered = lower(
            compiled.graph("train").nodes, batch=batch, training=True, optimizer=compiled.optimizer, seed=options.seed,
            convolution=options.convolution, keep_gradients=gradients, metrics=True,
        )  # fmt: skip
    else:
        lowered = model.lowered("train", batch)
    return _graph_of(model, lowered, gradients, weights)


def evaluation_graph(model: TrainableModel, *, batch_size: int | None = None, weights: bool = True) -> ModelProto:
    """Losses, metrics and predictions of a `Model` as it evaluates; raises what `training_graph` does.

    It needs labels, so a loss, but no optimizer.
    """
    _require_model("evaluation_graph", model)
    lowered = model.lowered("evaluate", _batch(model, batch_size))
    if not lowered.labels:
        raise UsageError("an evaluation graph needs a model with a loss")
    return _graph_of(model, lowered, False, weights)


def _require_model(function: str, given: object) -> None:
    if not hasattr(type(given), "compiled"):
        raise UsageError(f"{function}: expected a model, got {quoted(given)}; Model.from_ini(path) reads one")


def save(model: ModelProto, path: str | os.PathLike[str]) -> None:
    """Write a graph to a file, whole or not at all.

    Raises:
        UsageError: that can be no path.
        WeightFileError: the file cannot be written.
    """
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise UsageError(f"path: expected a str or a path of str, got {path!r}")
    if "\0" in os.fspath(path):
        raise UsageError(f"path: {os.fspath(path)!r} holds a null character")
    write_atomically(Path(path), [model.SerializeToString()])


def step_graph(
    lowered: Lowered, *, defaults: Mapping[str, ArrayLike] | None = None, gradients: bool = False
) -> ModelProto:
    """The graph of an operation list, training or not; raises what `training_graph` does.

    ``defaults`` holds what inputs of these names are when they are not given.
    """
    _check(lowered.operations)
    if any(value.persistent for value in lowered.gradients.values()):
        raise UsageError("gradients that several batches add to cannot be part of one graph")
    given = {name: np.asarray(array) for name, array in (defaults or {}).items()}
    graph = GraphBuilder()
    contents = Contents(graph, given)
    for value in _borders(lowered):
        contents.declare(value)
    for operation in lowered.operations:
        emit(operation, contents)
    updates = _outputs(lowered, contents, gradients)
    metadata = {
        "nntrainer_py.version": __version__,
        "nntrainer_py.batch": str(lowered.batch),
        UPDATES: json.dumps(updates, ensure_ascii=False),
    }
    return graph.model("training" if lowered.training else "evaluation", metadata)


def _batch(model: TrainableModel, batch_size: int | None) -> int:
    if batch_size is None:
        return model.batch_size
    try:
        size = 0 if isinstance(batch_size, bool) else index(batch_size)
    except TypeError:
        size = 0
    if size < 1:
        raise UsageError(f"batch_size: expected a positive integer, got {batch_size!r}")
    return size


def _graph_of(model: TrainableModel, lowered: Lowered, gradients: bool, weights: bool) -> ModelProto:
    _check(lowered.operations)  # before memory is taken for weights
    compiled = model.compiled
    with compiled.lock:
        state: StepState = compiled.state
        iteration = int(state.counters[StepState.ITERATION])
        defaults: dict[str, ArrayLike] = {
            "samples": [lowered.batch],
            "loss_scale": [1.0],
            "offset": [0],
        }
        if weights:
            defaults |= {**compiled.weights(lowered), **compiled.optimizer_state(lowered)}
            defaults |= {
                "learning_rate": [model.learning_rate(iteration)],
                "iteration": [iteration],
                "step": [state.counters[StepState.STEP]],
            }
        return step_graph(lowered, defaults=defaults, gradients=gradients)


def _check(operations: Sequence[Operation]) -> None:
    """DescriptionError that names every layer with an operation that cannot be written."""
    faults = []
    for operation in missing(operations):
        origin, kind = operation.origin, operation.kind.name
        what = "a user's own code" if kind in _USERS else f"operation '{kind}'"
        message = f"{what} cannot be written as standard ONNX"
        faults.append(Fault(getattr(origin, "file", ""), getattr(origin, "line", 0), operation.layer, "", message))
    if faults:
        raise DescriptionError(faults)


def _borders(lowered: Lowered) -> list[Value]:
    """Inputs of the graph in a fixed order: inputs, labels, weights in .bin order, optimizer state."""
    touched: set[Value] = set()
    for operation in lowered.operations:
        touched.update(value.root for value in (*operation.reads.values(), *operation.writes.values()))
    weights = [weight.value for weight in lowered.weights if weight.value in touched]
    state = [value for value in lowered.optimizer_state if value in touched]
    return [*lowered.inputs, *lowered.labels, *(value for value in weights if value is not None), *state]


def _outputs(lowered: Lowered, contents: Contents, gradients: bool) -> dict[str, str]:
    """Declare the outputs; returns the updates, input name to output name."""
    graph = contents.graph
    losses = [contents.read(value) for value in lowered.losses]
    if losses:
        total = losses[0]
        for loss in losses[1:]:
            total = total + loss
        graph.output("loss", total)
    values = lowered.predictions if losses else lowered.outputs
    for place, value in enumerate(values):
        graph.output("prediction" if len(values) == 1 else f"prediction{place}", contents.read(value))
    for name, value in lowered.metrics.items():
        graph.output(f"metric:{name}", contents.read(value))
    if gradients:
        made = {value.root for operation in lowered.operations for value in operation.writes.values()}
        weights = {weight.key: weight.value for weight in lowered.weights}
        for key, value in lowered.gradients.items():
            if value in made:
                gradient = contents.read(value)
            elif weights[key] in made:
                raise UsageError(f"{key}: its gradient is part of its update; lower with keep_gradients")
            else:  # no loss depends on it
                gradient = graph.constant(0, value.dtype).expand(*value.shape)
            graph.output(value.name, gradient)
    updates: dict[str, str] = {}

    def update(name: str, term: Term) -> None:
        updates[name] = f"{name}{_NEXT}"
        graph.output(updates[name], term)

    for value in contents.changed:
        update(value.name, contents.read(value))
    for name, term in contents.counters.items():
        if name != "offset":
            update(name, term + 1)
    return updates
