"""NNTrainer's order of the layers, which fixes names, initial weights, the weight file, inputs and labels.

Depth first from every layer in the order of the list, the readers of a layer in the order of the list, a layer pushed
when all its readers are; the order is that of the pushes, reversed (graph_core.cpp). So a chain keeps its order, of
independent inputs the one declared last comes first, and of two branches the one declared last runs first. The order in
which a step is executed is not this one but the planner's.
"""

from __future__ import annotations

from dataclasses import dataclass

from nntrainer_py.errors import Faults, did_you_mean
from nntrainer_py.graph.circles import sort
from nntrainer_py.graph.lower import Node
from nntrainer_py.graph.passes import realize
from nntrainer_py.graph.spec import LayerSpec, ModelSpec
from nntrainer_py.tensor.dim import TensorDim


@dataclass(frozen=True, slots=True)
class Graph:
    """The layers in canonical order, and how data is fed.

    ``inputs`` and ``labels`` name what a sample's inputs and labels belong to, in the order of the data: that of
    ``[Model] input_layers`` and ``label_layers``, or else the canonical one. ``input_order[k]`` is the position of the
    k-th of these among the input values in canonical order (`Lowered.inputs`), ``label_order`` likewise for labels.
    ``label_kinds`` says what each label must be (`data.labels.LABEL_KINDS`), in the order of the data.
    A layer with several inputs of its own stands once for each.
    """

    nodes: list[Node]
    inputs: tuple[str, ...]
    input_order: tuple[int, ...]
    labels: tuple[str, ...]
    label_order: tuple[int, ...]
    label_kinds: tuple[str, ...] = ()


def arrange(spec: ModelSpec, training: bool, faults: Faults | None = None) -> Graph:
    """The graph of a spec, with the model's loss when ``training``; `DescriptionError` with all faults.

    With ``faults`` given, what can be found wrong is added there, and the graph is what is left.
    """
    gathered = Faults() if faults is None else faults
    layers = realize(spec, training, gathered)
    ordered: list[LayerSpec] = []
    if not gathered:
        with gathered.gather():
            ordered = sort(layers)
    graph = _graph(spec, ordered, training, gathered)
    if faults is None:
        gathered.raise_if_any()
    return graph


def nodes(spec: ModelSpec, training: bool) -> list[Node]:
    """The layers of a spec in canonical order, as `lower` takes them."""
    return arrange(spec, training).nodes


def _graph(spec: ModelSpec, ordered: list[LayerSpec], training: bool, faults: Faults) -> Graph:
    position = {layer.name: index for index, layer in enumerate(ordered)}
    outputs = [1] * len(ordered)
    made: list[Node] = []
    for layer in ordered:
        connections = [(position[c.name], c.output) for c in layer.inputs or ()]
        for producer, output in connections:
            outputs[producer] = max(outputs[producer], output + 1)
        dims = [TensorDim(*shape) for shape in layer.layer.input_shape or ()]
        made.append(Node(layer.name, layer.layer, connections, dims, origin=layer.origin))
    for node, count in zip(made, outputs, strict=True):
        node.outputs = count
    # as `lower` asks for them: an input value for each shape, a label for each loss
    inputs = [layer.user_name for layer, node in zip(ordered, made, strict=True) for _ in _own_inputs(node)]
    labels = [layer for layer in ordered if _has_label(layer, training)]
    input_order, label_order = tuple(range(len(inputs))), tuple(range(len(labels)))
    if ordered:
        wanted = [connection.name for connection in spec.model.input_layers or ()]
        input_order = _listed(wanted, [[name] for name in inputs], "input_layers", spec, faults)
        if labels:
            wanted = [connection.name for connection in spec.model.label_layers or ()]
            called = [[layer.name, layer.user_name] for layer in labels]
            label_order = _listed(wanted, called, "label_layers", spec, faults)
    return Graph(
        nodes=made,
        inputs=tuple(inputs[index] for index in input_order),
        input_order=input_order,
        labels=tuple(labels[index].name for index in label_order),
        label_order=label_order,
        label_kinds=tuple(labels[index].layer.label_kind() for index in label_order),
    )


def _own_inputs(node: Node) -> list[TensorDim]:
    return [] if node.inputs else node.input_dims


def _has_label(spec: LayerSpec, training: bool) -> bool:
    return spec.layer.is_loss or (training and bool(getattr(spec.layer, "needs_label", False)))


def _listed(wanted: list[str], called: list[list[str]], key: str, spec: ModelSpec, faults: Faults) -> tuple[int, ...]:
    """The order that a key of ``[Model]`` asks for, which must name all and nothing else; unset: as they are."""
    if not wanted:
        return tuple(range(len(called)))
    origin = spec.at(key)
    order: list[int] = []
    for name in wanted:
        places = [index for index, names in enumerate(called) if name in names]
        if not places:
            known = [word for names in called for word in names]
            what = "input of the model" if key == "input_layers" else "layer that takes a label"
            faults.add(f"'{name}' is no {what}{did_you_mean(name, known)}", origin, key)
        elif places[0] in order:
            faults.add(f"'{name}' is named twice", origin, key)
        else:
            order += places
    missing = [names[0] for index, names in enumerate(called) if index not in order]
    if missing and not faults:
        faults.add(f"every one must be named, {', '.join(dict.fromkeys(missing))} is missing", origin, key)
    return tuple(order)
