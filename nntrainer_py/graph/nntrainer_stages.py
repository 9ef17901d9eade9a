"""The layers of a graph as NNTrainer's memory manager sees them: which run in place, how long they want their tensors.

Only for figures beside ours; see `memory.nntrainer_lifetimes`.
"""

from __future__ import annotations

from collections.abc import Sequence

from nntrainer_py.graph.lower import LayerShape, Node, finalize
from nntrainer_py.layers.base import Layer
from nntrainer_py.memory.nntrainer_lifetimes import InPlace, Span, Stage

_FLOAT = 4

#: layers whose output may lie where their input lay
_MODIFYING = frozenset({"input", "batch_normalization", "layer_normalization"})
_MODIFYING_BY_DEFAULT = frozenset({"add", "subtract"})
_MODIFYING_ON_REQUEST = frozenset({"multiply", "divide", "pow", "sqrt", "sin", "cos", "tan", "negative", "matmul"})
#: layers whose output is their input under another shape or name
_VIEWING = frozenset({"reshape", "flatten", "identity", "multiout"})
#: activations that read their input on the way back
_OUT_OF_PLACE = frozenset({"swish", "gelu", "tanh_gelu", "sigmoid_gelu"})

_INPUT_FORWARD = frozenset({"activation", "multiout", "batch_normalization", "layer_normalization"})
_INPUT_DERIVATIVE = frozenset({"mse", "cross_softmax", "cross_sigmoid"})
_CELLS = frozenset({"rnncell", "lstmcell", "grucell", "zoneout_lstmcell"})


def stages(nodes: Sequence[Node], batch: int, training: bool = True) -> list[Stage]:
    """The stages of a graph in canonical order; `DescriptionError` with all faults of its shapes."""
    table = finalize(nodes, batch, training)
    return [_stage(node, row) for node, row in zip(nodes, table, strict=True)]


def _stage(node: Node, row: LayerShape) -> Stage:
    layer, word = node.layer, node.layer.keyword
    outputs = tuple(_FLOAT * dim.size for dim in row.outputs)
    right = getattr(layer, "inplace_direction", None) == "right"
    return Stage(
        name=node.name,
        inputs=tuple(node.inputs),
        outputs=outputs,
        weights=tuple((weight.name, _FLOAT * weight.dim.size, weight.trainable) for weight in row.weights),
        trainable=bool(layer.trainable),
        group=row.weights[0].owner if row.weights else "",
        in_place=_in_place(layer),
        in_place_input=1 if right else 0,
        copies_back=word == "multiout",
        input_span=_input_span(layer),
        output_span=_output_span(layer),
        derivative_with_gradient=word == "grucell",
        label=layer.is_loss or layer.needs_label,
        delayed_update=(layer.clip_grad_by_norm or 0.0) > 1e-6,
    )


def _in_place(layer: Layer) -> InPlace:
    word, wish = layer.keyword, getattr(layer, "inplace", None)
    if word in _VIEWING:
        return "view"
    modifying = (
        word in _MODIFYING
        or (word == "activation" and layer.activation not in _OUT_OF_PLACE)
        or (word in _MODIFYING_BY_DEFAULT and wish is not False)
        or (word in _MODIFYING_ON_REQUEST and wish is True)
    )
    return "modifying" if modifying and not layer.distribute else "no"


def _input_span(layer: Layer) -> Span:
    if layer.keyword in _INPUT_FORWARD:
        return "forward"
    return "forward and derivative" if layer.keyword in _INPUT_DERIVATIVE else "forward and gradient"


def _output_span(layer: Layer) -> Span:
    if layer.keyword == "activation":
        return "forward and derivative"
    return "forward and gradient" if layer.keyword in _CELLS else "forward"
