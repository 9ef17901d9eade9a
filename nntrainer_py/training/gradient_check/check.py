"""Compare what layers give on the way back with differences of their own forward pass."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import UsageError, did_you_mean, quoted
from nntrainer_py.graph.lower import Node, finalize
from nntrainer_py.layers.base import Layer
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.initializers import fill
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.tensor.rng import Stream
from nntrainer_py.training.gradient_check.differences import Effort
from nntrainer_py.training.gradient_check.prepared import Single
from nntrainer_py.training.gradient_check.probe import Probe, copied
from nntrainer_py.training.gradient_check.report import GradientReport, TensorCheck, Verdict
from nntrainer_py.training.gradient_check.samples import drawn, label_of, read
from nntrainer_py.training.gradient_check.single import BY_DEFINITION, NOT_REPEATABLE, check_layer
from nntrainer_py.training.gradient_check.together import WHOLE, check_together
from nntrainer_py.training.trainee import Trainee

Array = NDArray[Any]
Progress = Callable[[int, int, str], None]

#: how far a weight is moved whose elements are all alike, relative to them, or from 0
_MOVED = 0.25


def check_gradients(
    subject: Trainee | Layer,
    x: Any = None,
    y: Any = None,
    *,
    layers: Iterable[str] | str = (),
    samples: int = 3,
    tolerance: float = 1e-3,
    directions: int = 4,
    elements: int = 8,
    seed: int = 0,
    progress: Progress | None = None,
) -> GradientReport:
    """Compare every derivative by an input and every gradient of a weight with central differences.

    Each layer is looked at by itself, with the inputs that reach it in the model: its outputs are added up with random
    factors, and the sum is differentiated by its own two backward methods and by moving each tensor a little. If all
    pass, the gradients of the whole model's loss are compared in the same way. Training behaviour throughout; random
    draws are those of the model's next step. The model is only read: weights, counters and statistics stay.

    A weight whose elements are all alike, as fresh ones are, is moved a little in the check: a factor of 1 would hide
    that it was forgotten.

    Args:
        subject: a model, or one layer.
        x, y: data, as `Model.train` takes it. Default for a model: the training data of its description, or where it
            has none random values. For a layer: arrays (batch first), one for each input, in ``x``; without them it
            needs ``input_shape`` and gets random values.
        layers: names of the layers to look at (one alone may be a text), and not at the whole model; default: all.
        samples: of the batch, the first of the data. With 1 some mistakes cannot be seen.
        tolerance: of the relative error, beside the uncertainty of the differences.
        directions, elements: how many are tried for each tensor.
        seed: of everything that is drawn here.
        progress: called before each layer of a model, and before the whole of it, with how many were done, how many
            there are, and the name.

    Raises:
        UsageError: what is neither model nor layer, a layer that is not there, numbers that make no check, a layer
            without shapes.
        DataError: data that is missing, damaged or does not fit.
    """
    if samples < 1 or directions < 2 or elements < 0 or not tolerance > 0.0:
        raise UsageError(
            "check_gradients: expected samples >= 1, directions >= 2, elements >= 0 and a positive tolerance, got "
            f"{samples}, {directions}, {elements} and {tolerance}"
        )
    if not isinstance(subject, Layer) and not hasattr(type(subject), "compiled"):
        raise UsageError(
            f"check_gradients: expected a model or a layer, got {quoted(subject)}; Model.from_ini(path) reads a model"
        )
    names = (layers,) if isinstance(layers, str) else tuple(layers)
    effort = Effort(directions=directions, elements=elements, tolerance=tolerance)
    rng = np.random.default_rng(seed)
    generators = np.random.get_state(), random.getstate()
    try:
        if isinstance(subject, Layer):
            return _of_layer(subject, x, y, samples, effort, rng)
        return _of_model(subject, x, y, names, samples, effort, rng, progress or (lambda *told: None))
    finally:  # layers may draw from them
        np.random.set_state(generators[0])
        random.setstate(generators[1])


def _of_layer(layer: Layer, x: Any, y: Any, samples: int, effort: Effort, rng: np.random.Generator) -> GradientReport:
    inputs = _given_inputs(layer, x, samples, rng)
    shapes = [TensorDim.from_shape(array.shape) for array in inputs]
    name = layer.keyword or type(layer).__name__.lower()
    (node,) = copied([Node(name, layer, [], shapes)])
    (row,) = finalize([node], shapes[0].batch, True)
    stream = Stream(0)
    weights = {weight.key: np.zeros(weight.dim.shape, np.dtype(weight.dtype)) for weight in row.weights}
    for weight in row.weights:
        fill(weight.initializer, weight.dim, stream, weights[weight.key])
    _spread(weights, {weight.key for weight in row.weights if weight.trainable}, rng)
    label: Array | None = None
    if layer.is_loss or layer.needs_label:
        make = getattr(layer, "label_dim", None)
        shape = (row.outputs[0] if make is None else make(row.outputs[0])).shape
        label = label_of(layer, row.outputs[0], shape, rng) if y is None else np.asarray(y, np.float32).reshape(shape)
    single = Single(node, row, inputs, label, weights, None, wanted=(False,) * len(inputs))
    rows = check_layer(single, effort, rng)
    return GradientReport(tuple(rows), shapes[0].batch, effort.tolerance)


def _given_inputs(layer: Layer, x: Any, samples: int, rng: np.random.Generator) -> list[Array]:
    if x is None:
        if not layer.input_shape:
            raise UsageError(
                "check_gradients: a layer by itself needs arrays in x, one for each input, or its input_shape"
            )
        return [rng.standard_normal((samples, *shape[-3:])).astype(np.float32) for shape in layer.input_shape]
    arrays = [np.asarray(array, np.float32) for array in (x if isinstance(x, (list, tuple)) else [x])]
    for array in arrays:
        if not 2 <= array.ndim <= 4 or len(array) != len(arrays[0]):
            raise UsageError(f"check_gradients: expected arrays of the same batch with 2 to 4 axes, got {array.shape}")
    return [array.reshape(len(array), *(1,) * (4 - array.ndim), *array.shape[1:]) for array in arrays]


def _of_model(
    model: Trainee,
    x: Any,
    y: Any,
    names: Sequence[str],
    samples: int,
    effort: Effort,
    rng: np.random.Generator,
    progress: Progress,
) -> GradientReport:
    compiled = model.compiled
    graph = compiled.graph("train" if model.spec.has_loss else "predict")
    known = [node.name for node in graph.nodes]
    for name in names:
        if name not in known:
            raise UsageError(f"check_gradients: there is no layer '{name}'{did_you_mean(name, known)}")
    options: dict[str, Any] = {"seed": compiled.options.seed, "convolution": compiled.options.convolution}
    with compiled.lock:
        made = compiled.lowered("train" if model.spec.has_loss else "predict", model.batch_size)
        weights = {key: np.array(array) for key, array in compiled.weights(made).items()}
    _spread(weights, {weight.key for weight in made.weights if weight.trainable}, rng)
    batch = read(model, x, y, samples) if x is not None or _has_data(model) else None
    whole = Probe(
        graph.nodes,
        samples if batch is None else batch.count,
        weights,
        compiled.state,
        threads=compiled.options.threads,
        forward_only=True,
        **options,
    )
    if batch is None:
        batch = drawn(whole.nodes, whole.lowered, rng)
    whole.feed(whole.lowered.inputs, batch.inputs)
    whole.feed(whole.lowered.labels, batch.labels)
    whole.value()
    rows: list[TensorCheck] = []
    for done, single in enumerate(_singles(graph.nodes, whole, weights, compiled.state)):
        if not names or single.node.name in names:
            progress(done, len(known), single.node.name)
            rows += check_layer(replace(single, options=options), effort, rng)
    notes = [batch.note] if batch.note else []
    if not names:
        reason = _not_together(model, rows)
        if reason:
            notes.append(f"the whole model was not checked: {reason}")
        else:
            progress(len(known), len(known), WHOLE)
            doubtful = list(dict.fromkeys(row.layer for row in rows if row.verdict is Verdict.UNCLEAR))
            rows += check_together(graph.nodes, batch, weights, compiled.state, effort, rng, options, doubtful)
    return GradientReport(tuple(rows), batch.count, effort.tolerance, tuple(notes))


def _has_data(model: Trainee) -> bool:
    """Whether the description names training data that is there; what is wrong with it then shows as it is read."""
    section = model.spec.datasets.get("train")
    return section is not None and all(os.path.lexists(path) for path in section.paths.values())


def _spread(weights: dict[str, Array], trainable: set[str], rng: np.random.Generator) -> None:
    """Move the weights whose elements are all alike: what was forgotten shows only where it is neither 0 nor 1."""
    for key, array in weights.items():
        if key in trainable and array.size and (array == array.flat[0]).all():
            size = abs(float(array.flat[0])) or 1.0
            array += (_MOVED * size * rng.uniform(-1.0, 1.0, array.shape)).astype(array.dtype)


def _singles(nodes: Sequence[Node], whole: Probe, weights: dict[str, Array], state: StepState) -> Iterator[Single]:
    """Each layer with the inputs, and the label, that reach it."""
    requires: list[bool] = []
    labels = iter(whole.lowered.labels)
    fed = {value.name.rpartition(":input")[0]: whole.array(value) for value in whole.lowered.inputs}
    for node, row in zip(nodes, whole.lowered.table, strict=True):
        own = row.trainable and any(weight.trainable for weight in row.weights)
        requires.append(own or any(requires[producer] for producer, _ in node.inputs))
        takes_label = node.layer.is_loss or node.layer.needs_label
        label = whole.array(next(labels)) if takes_label and whole.lowered.labels else None
        if node.inputs:
            sources = [(nodes[producer].name, index) for producer, index in node.inputs]
            inputs = [whole.array(whole.lowered.node_outputs[name][index]) for name, index in sources]
        else:
            inputs = [fed[node.name]] if node.name in fed else []
        wanted = tuple(requires[producer] for producer, _ in node.inputs)
        yield Single(node, row, inputs, label, weights, state, wanted)


def _not_together(model: Trainee, rows: Sequence[TensorCheck]) -> str:
    """Why the gradients of the whole model cannot be compared, or need not be."""
    if not model.spec.has_loss:
        return "it has no loss"
    if any(row.verdict is Verdict.FAILED for row in rows):
        return "it cannot be right while a layer is wrong"
    unsteady = next((row.layer for row in rows if row.reason == NOT_REPEATABLE), None)
    if unsteady is not None:
        return f"{unsteady} gives something else each time"
    other = next((row.layer for row in rows if row.reason in BY_DEFINITION.values()), None)
    if other is not None:
        return f"what passes back through {other} is no derivative, by its definition"
    return ""
