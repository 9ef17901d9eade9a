"""What the emitter of an operation kind is given, and the table that finds it.

An emitter is a function from an `Emission` to the terms that the operation writes, by the names of the record::

    def negative(e: Emission) -> dict[str, Term]:
        return {"out": -e.read("x")}

Adding to a target, changing state in place, views and shapes are none of its business: it makes what the operation
makes when it writes, in any shape of the right size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from nntrainer_py.formats.onnx.builder import GraphBuilder, Term
from nntrainer_py.formats.onnx.contents import Contents
from nntrainer_py.tensor.operations.record import Operation

Emitter = Callable[["Emission"], dict[str, Term]]

#: file of the folder ``emitters`` -> the kinds that it can write; named as in tensor/operations
FAMILIES: dict[str, tuple[str, ...]] = {
    "elementwise": ("activation", "activation_derivative", "add_n", "zeros", "copy"),
    "reduction": ("bias_gradient",),
    "softmax": ("softmax", "softmax_derivative"),
    "matmul": ("matmul", "matmul_gradient"),
    "convolution": ("conv2d", "conv2d_derivative", "conv2d_gradient"),
    "movement": ("concat", "slice", "slice_derivative", "permute"),
    "normalization": (
        "batch_statistics",
        "running_update",
        "batch_normalize",
        "batch_normalize_sums",
        "batch_normalize_derivative",
    ),
    "fused_normalization": (
        "batch_normalize_relu",
        "batch_normalize_relu_sums",
        "batch_normalize_relu_derivative",
    ),
    "fused_update": ("matmul_descent",),
    "random": ("dropout",),
    "preprocess": ("normalize_batch", "standardize_sample", "unit_length", "flip", "translate"),
    "pooling": (
        "max_pool",
        "max_pool_derivative",
        "average_pool",
        "average_pool_derivative",
        "global_max",
        "global_max_derivative",
    ),
    "layer_normalization": (
        "layer_statistics",
        "layer_normalize",
        "layer_normalize_sums",
        "layer_normalize_derivative",
        "rms_statistics",
        "rms_normalize",
        "rms_normalize_gradient",
        "rms_normalize_derivative",
    ),
    "embedding": ("embedding", "embedding_gradient", "gather", "gather_derivative"),
    "reduce": ("reduce_sum", "broadcast"),
    "arithmetic": ("binary",),
    "unary": ("unary", "unary_derivative", "round_to"),
    "loss": (
        "mse",
        "mse_derivative",
        "mae",
        "mae_derivative",
        "huber",
        "huber_derivative",
        "hinge",
        "hinge_derivative",
        "kld",
        "kld_derivative",
        "cosine_distance",
        "cosine_distance_derivative",
        "cross_softmax",
        "cross_softmax_derivative",
        "cross_sigmoid",
        "cross_sigmoid_derivative",
        "focal",
        "focal_derivative",
        "constant_loss",
        "constant_derivative",
        "l2_loss",
        "count_correct",
        "regression_sums",
    ),
    "update": ("sgd", "momentum", "adam", "rmsprop", "adagrad", "lion", "lamb", "global_norm", "clip_scale"),
    "resample": ("bilinear", "bilinear_derivative"),
    "neighbours": ("centroid_distance", "centroid_update", "neighbour_votes", "neighbour_store"),
    "recurrent": ("rnn", "rnn_derivative", "lstm", "lstm_derivative", "gru", "gru_derivative"),
    "recurrent_gradient": ("recurrent_gradient",),
    "attention": ("attention", "attention_derivative"),
    "mol_attention": ("mol_scores", "mol_scores_derivative"),
    "zoneout": ("zoneout", "zoneout_derivative"),
    "opaque": ("accumulate",),
}
_FILES = {kind: file for file, kinds in FAMILIES.items() for kind in kinds}


@dataclass(frozen=True, slots=True)
class Emission:
    """One operation, and the graph in which it is to be computed."""

    operation: Operation
    contents: Contents

    @property
    def graph(self) -> GraphBuilder:
        return self.contents.graph

    @property
    def attributes(self) -> dict[str, Any]:
        return self.operation.attributes

    def has(self, name: str) -> bool:
        """Whether there is such an operand."""
        return name in self.operation.reads

    def read(self, name: str) -> Term:
        """An operand, or the old contents of state that the operation changes, in the shape of the record."""
        operation = self.operation
        if name not in operation.reads and name in operation.kind.modifies:
            return self.contents.read(operation.writes[name])
        return self.contents.read(operation.reads[name])

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of what the operation writes under a name."""
        return self.operation.writes[name].shape

    def number(self, place: int) -> Term:
        """A number of the step state: float64, shape (1,)."""
        return self.contents.number(place)

    def counter(self, place: int) -> Term:
        """A counter of the step state: int64, shape (1,)."""
        return self.contents.counter(place)


def emitter(kind: str) -> Emitter | None:
    """The emitter of a kind; None where that kind cannot leave the house."""
    if kind not in _FILES:
        return None
    module = import_module(f"nntrainer_py.formats.onnx.emitters.{_FILES[kind]}")
    found: Emitter = module.EMITTERS[kind]
    return found


def missing(operations: Iterable[Operation]) -> list[Operation]:
    """The operations whose kinds have no emitter, one of each layer and kind."""
    found = {(op.layer, op.kind.name): op for op in operations if op.kind.name not in _FILES}
    return list(found.values())


def emit(operation: Operation, contents: Contents) -> None:
    """Add the nodes of one operation to the graph."""
    found = emitter(operation.kind.name)
    if found is None:
        raise ValueError(f"operation kind {operation.kind.name!r} has no ONNX emitter")
    made = found(Emission(operation, contents))
    if set(made) != set(operation.writes):
        raise ValueError(f"the emitter of {operation.kind.name} makes {sorted(made)}")
    for name, value in operation.writes.items():
        term = made[name].reshape(*value.shape)
        if operation.accumulate:
            term = contents.read(value) + term
        contents.write(value, term)
