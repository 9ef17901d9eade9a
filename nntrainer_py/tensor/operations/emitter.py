"""Builds the list of operations: deduplicates, names values, assigns accumulation, drops what nobody reads."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.catalogue import kind
from nntrainer_py.tensor.operations.record import Fill, Operation, OperationKind, Phase, Role, Spec, Value


def _freeze(value: Any) -> Hashable:
    if isinstance(value, (list, tuple)):
        return tuple(_freeze(item) for item in value)
    if isinstance(value, dict):
        return tuple(sorted((key, _freeze(item)) for key, item in value.items()))
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes())
    return value if isinstance(value, Hashable) else id(value)


class Target:
    """Where gradients of one weight are collected: the first operation writes, later ones add."""

    __slots__ = ("started", "value")

    def __init__(self, value: Value, started: bool = False) -> None:
        self.value = value
        self.started = started


class Emitter:
    """Collects operations in the order of emission."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.phase = Phase.FORWARD
        self.layer = ""
        self.origin: Any = None
        self._seen: dict[Hashable, dict[str, Value]] = {}
        self._versions: dict[Value, int] = {}
        self._names: dict[str, int] = {}
        self._constants: dict[tuple[str, tuple[int, ...], str, Fill], Value] = {}
        self._later: list[tuple[str, Any, str, dict[str, Any]]] = []

    def scope(self, layer: str, phase: Phase, origin: Any = None) -> None:
        """Operations emitted from here on belong to this layer and phase."""
        self.layer, self.phase, self.origin = layer, phase, origin

    def name(self, stem: str) -> str:
        """``stem``, with a running number from its second use on."""
        count = self._names.get(stem, 0)
        self._names[stem] = count + 1
        return stem if count == 0 else f"{stem}.{count}"

    def value(self, stem: str, shape: Iterable[int], role: Role, dtype: str = "float32") -> Value:
        """A value that no operation makes: an input, a label, a weight, state."""
        return Value(self.name(stem), tuple(shape), role, dtype)

    def constant(self, stem: str, shape: Iterable[int], fill: Fill, dtype: str = "float32") -> Value:
        """A table that ``fill`` writes when a plan is bound, not here; one value for all that ask for the same.

        Plans share its memory when name, shape and type are the same and the two ``fill`` compare equal.
        """
        key = (stem, tuple(shape), dtype, fill)
        if key not in self._constants:
            self._constants[key] = Value(self.name(stem), key[1], Role.CONSTANT, dtype, fill=fill)
        return self._constants[key]

    def view(self, base: Value, shape: Iterable[int], offset: int = 0) -> Value:
        """Contiguous elements of ``base`` under another shape; no operation, no memory."""
        shape = tuple(shape)
        if shape == base.shape and offset == 0:
            return base
        value = Value(self.name(f"{base.name}/view"), shape, base.role, base.dtype, base, offset)
        if offset < 0 or offset + value.size > base.size:
            raise ValueError(f"a view of {shape} at {offset} does not fit in {base.shape}")
        value.persistent = base.persistent
        return value

    def run(self, kind_name: str, *, out: Target | Value | None = None, stem: str = "", **operands: Any) -> Any:
        """Emit one operation and return the value it makes (a tuple when there are several, in declared order).

        Operands that are values become reads under their keyword, None is left out, everything else is an attribute.
        ``out`` names the target of an accumulating kind, or the state that the kind writes as ``out``.
        """
        declared = kind(kind_name)
        reads = {name: operand for name, operand in operands.items() if isinstance(operand, Value)}
        attributes = {
            name: operand
            for name, operand in operands.items()
            if operand is not None and not isinstance(operand, Value)
        }
        declared = declared.variant(attributes)
        specs = declared.outputs(reads, attributes)
        accumulate = False
        if isinstance(out, Target):
            if not declared.accumulates:
                raise ValueError(f"operation kind {kind_name!r} cannot add to a target")
            accumulate, out.started = out.started, True
            writes = {"out": out.value}
            expected = specs["out"].shape
            if math.prod(expected) != out.value.size:
                raise ValueError(f"{kind_name}: makes {expected}, the target is {out.value.shape}")
        else:
            key = self._key(declared, reads, attributes) if declared.pure and out is None else None
            if key is not None and key in self._seen:
                made = self._seen[key]
                return next(iter(made.values())) if len(made) == 1 else tuple(made.values())
            writes = self._make(declared, specs, reads, out, stem or kind_name)
            if key is not None:
                self._seen[key] = writes
        operation = Operation(declared, reads, writes, attributes, self.phase, self.layer, accumulate, self.origin)
        self.operations.append(operation)
        for value in operation.writes.values():
            root = value.root
            self._versions[root] = self._versions.get(root, 0) + 1
        return next(iter(writes.values())) if len(writes) == 1 else tuple(writes.values())

    def postpone(self, kind_name: str, **operands: Any) -> None:
        """An operation for `run_postponed`, which emits it for the layer of now in the phase of then."""
        self._later.append((self.layer, self.origin, kind_name, operands))

    def run_postponed(self, phase: Phase) -> None:
        """Emit what was postponed, in the order in which that happened."""
        for layer, origin, kind_name, operands in self._later:
            self.scope(layer, phase, origin)
            self.run(kind_name, **operands)
        self._later.clear()

    def _make(
        self, declared: OperationKind, specs: dict[str, Spec], reads: dict[str, Value], out: Value | None, stem: str
    ) -> dict[str, Value]:
        writes: dict[str, Value] = {}
        default = Role.ACTIVATION if self.phase is Phase.FORWARD else Role.DERIVATIVE
        for name, spec in specs.items():
            if name in declared.modifies and name in reads:
                writes[name] = reads.pop(name)
            elif name == "out" and out is not None:
                writes[name] = out
            else:
                suffix = "" if name == "out" else f":{name}"
                label = self.name(f"{self.layer}/{stem}{suffix}" if self.layer else f"{stem}{suffix}")
                writes[name] = Value(label, spec.shape, spec.role or default, spec.dtype)
        return writes

    def _key(self, declared: OperationKind, reads: dict[str, Value], attributes: dict[str, Any]) -> Hashable:
        operands = tuple((name, id(value), self._versions.get(value.root, 0)) for name, value in sorted(reads.items()))
        return (declared.name, operands, _freeze(attributes))


def drop_dead(operations: list[Operation], wanted: Iterable[Value]) -> list[Operation]:
    """Without the pure operations whose outputs nobody reads."""
    alive = {value.root for value in wanted}
    kept: list[Operation] = []
    for operation in reversed(operations):
        writes = [value.root for value in operation.writes.values()]
        effect = not operation.kind.pure or any(value.persistent for value in writes)
        if effect or any(value in alive for value in writes):
            kept.append(operation)
            alive.update(value.root for value in operation.reads.values())
    return kept[::-1]
