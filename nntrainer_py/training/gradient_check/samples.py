"""The batch that gradients are checked with: the first samples of the data, or random ones that fit the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.data.arrays import by_name
from nntrainer_py.data.loader import BatchLoader, measure_normalization
from nntrainer_py.data.sources import as_dataset
from nntrainer_py.graph.lower import Lowered, Node
from nntrainer_py.layers.base import Layer
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.training.feeding import open_section
from nntrainer_py.training.gradient_check.places import innermost
from nntrainer_py.training.trainee import Trainee

Array = NDArray[Any]

#: layers that only rearrange, so that indices pass through them
_PASSING = frozenset({"input", "multiout", "identity", "flatten", "reshape", "permute", "transpose", "slice", "split"})


@dataclass(frozen=True, slots=True)
class Samples:
    """Inputs and labels in canonical order (that of `Lowered`), and what is to be told of them."""

    inputs: list[Array]
    labels: list[Array]
    count: int
    note: str = ""


def read(model: Trainee, x: Any, y: Any, count: int) -> Samples:
    """The first ``count`` samples of ``x`` and ``y``, or of the training data of the description; scaled as it says.

    Raises:
        DataError: data that is missing, damaged or does not fit the model.
    """
    section = model.spec.datasets.get("train")
    x, y = _in_order(model, x, y)
    with _unchanged(model):
        if x is not None:
            dataset = as_dataset(x, y, name="data", role="train")
        else:
            assert section is not None
            dataset = open_section(section, "train")
        try:
            labels = model.spec.has_loss
            dataset.normalization = model.normalization
            model.bind(dataset, labels=labels, class_names=model.class_names)
            if x is None and section is not None and model.normalization is None:
                settings = section.settings
                if settings.normalization != "none":
                    made = measure_normalization(dataset, settings.normalization, settings.normalization_scope)
                    dataset.normalization = made
                    model.bind(dataset, labels=labels, class_names=model.class_names)
            loader = BatchLoader(dataset, min(count, dataset.sample_count or count), buffer_size=0)
            try:
                batch = next(iter(loader))
                graph = model.compiled.graph("train" if labels else "predict")
                inputs = _canonical(graph.input_order, batch.inputs, batch.count)
                targets = _canonical(graph.label_order, batch.labels, batch.count) if labels else []
                return Samples(inputs, targets, batch.count)
            finally:
                loader.close()
        finally:
            dataset.close()


def _in_order(model: Trainee, x: Any, y: Any) -> tuple[Any, Any]:
    """Inputs and labels that are given by name as lists in the order of the data."""
    graph = model.compiled.graph("train" if model.spec.has_loss else "predict")
    if isinstance(x, Mapping):
        x = by_name(x, [(name,) for name in graph.inputs], "input")
    if isinstance(y, Mapping):
        y = by_name(y, [(name, name.removesuffix("/loss")) for name in graph.labels], "label")
    return x, y


def _canonical(order: Sequence[int], arrays: Sequence[Array], count: int) -> list[Array]:
    made: list[Array] = [np.empty(0)] * len(arrays)
    for place, array in zip(order, arrays, strict=True):
        made[place] = array[:count].copy()
    return made


@contextmanager
def _unchanged(model: Trainee) -> Iterator[None]:
    """Binding data leaves what it told the model of itself."""
    before = model.normalization, model.class_names, model.feature_names
    try:
        yield
    finally:
        model.normalization, model.class_names, model.feature_names = before


def drawn(nodes: Sequence[Node], lowered: Lowered, rng: np.random.Generator) -> Samples:
    """Random samples: normal values, indices where a table is read by them, labels of the kind that a loss takes."""
    limits = _limits(nodes, lowered)
    inputs = []
    for value in lowered.inputs:
        limit = limits.get(value.name.rpartition(":input")[0])
        drawn_values = rng.standard_normal(value.shape) if limit is None else rng.integers(0, limit, value.shape)
        inputs.append(drawn_values.astype(np.float32))
    takers = [node for node in nodes if node.layer.is_loss or node.layer.needs_label]
    rows = {row.name: row for row in lowered.table}
    labels = [
        label_of(node.layer, rows[node.name].outputs[0], value.shape, rng)
        for node, value in zip(takers, lowered.labels, strict=True)
    ]
    return Samples(inputs, labels, lowered.batch, "random samples: there is no training data")


def label_of(layer: Layer, output: TensorDim, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Random labels of ``shape`` that a layer can mean."""
    kind = layer.label_kind()
    if getattr(layer, "integer_labels", False):
        return rng.integers(0, output.width, shape).astype(np.float32)
    if kind == "distribution" or layer.needs_label:
        return np.eye(shape[3], dtype=np.float32)[rng.integers(0, shape[3], shape[:3])]
    if kind == "probability":
        return rng.uniform(0.05, 0.95, shape).astype(np.float32)
    return rng.standard_normal(shape).astype(np.float32)


def _limits(nodes: Sequence[Node], lowered: Lowered) -> dict[str, int]:
    """Input layers whose values are indices, and the first number that is none."""
    found: dict[str, int] = {}
    for node, row in zip(nodes, lowered.table, strict=True):
        inner: Any = innermost(node.layer)
        readers: list[tuple[int, int]] = []
        if inner.keyword == "embedding":
            readers = [(0, inner.in_dim)]
        elif inner.keyword == "gather":
            readers = [(1, row.inputs[0].axis(inner.axis))]
        for place, limit in readers:
            name = _source(nodes, node, place)
            if name is not None:
                found[name] = min(limit, found.get(name, limit))
    return found


def _source(nodes: Sequence[Node], node: Node, place: int) -> str | None:
    """The input layer from which an input comes as it was fed; None when something computes it."""
    if not node.inputs:
        return node.name
    while node.inputs:
        node = nodes[node.inputs[place][0]]
        place = 0
        if node.layer.keyword not in _PASSING:
            return None
    return node.name
