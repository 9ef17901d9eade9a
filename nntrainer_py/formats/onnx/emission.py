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
from nntrainer_py.tensor.operations import catalogue
from nntrainer_py.tensor.operations.record import Operation

Emitter = Callable[["Emission"], dict[str, Term]]

#: kinds that run a user's own code, which cannot be written as standard ONNX
OURS_ALONE = ("opaque", "user_activation", "user_activation_derivative", "user_update")
#: file of the folder ``emitters`` -> the kinds that it can write: the families of tensor/operations, all but those
FAMILIES: dict[str, tuple[str, ...]] = {
    family: written
    for family, kinds in catalogue.FAMILIES.items()
    if (written := tuple(kind for kind in kinds if kind not in OURS_ALONE))
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
