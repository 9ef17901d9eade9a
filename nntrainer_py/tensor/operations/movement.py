"""Kinds that only move elements: concat, slice and its transpose, permute.

NumPy copies between views made at bind time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register


def numbered(reads: Mapping[str, Any], stem: str = "x") -> list[Any]:
    """The operands x0, x1, ... in order."""
    found: list[Any] = []
    while f"{stem}{len(found)}" in reads:
        found.append(reads[f"{stem}{len(found)}"])
    return found


def copy_pairs(pairs: Sequence[tuple[Array, Array]]) -> None:
    """Copy every source to its target."""
    for target, source in pairs:
        np.copyto(target, source)


def _cut(array: Array, axis: int, start: int, stop: int) -> Array:
    index: list[slice] = [slice(None)] * array.ndim
    index[axis] = slice(start, stop)
    return array[tuple(index)]


class Concat(OperationKind):
    """Operands x0, x1, ... side by side along ``axis``."""

    name = "concat"
    elementwise = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        axis, shapes = attributes["axis"], [value.shape for value in numbered(reads)]
        for shape in shapes[1:]:
            if len(shape) != len(shapes[0]) or any(
                a != b for i, (a, b) in enumerate(zip(shape, shapes[0], strict=True)) if i != axis
            ):
                raise ValueError(f"concat along axis {axis}: shapes {shapes} differ on another axis")
        joined = list(shapes[0])
        joined[axis] = sum(shape[axis] for shape in shapes)
        return {"out": Spec(tuple(joined), next(iter(reads.values())).dtype)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        axis, out, pairs, start = operation.attributes["axis"], arrays["out"], [], 0
        for x in numbered(arrays):
            pairs.append((_cut(out, axis, start, start + x.shape[axis]), x))
            start += x.shape[axis]
        return copy_pairs, (pairs,)


class Slice(OperationKind):
    """Elements ``start`` to ``stop`` (exclusive, from 0) along ``axis``."""

    name = "slice"
    elementwise = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        axis, start, stop = attributes["axis"], attributes["start"], attributes["stop"]
        shape = list(reads["x"].shape)
        if not 0 <= start < stop <= shape[axis]:
            raise ValueError(f"slice {start}..{stop} of axis {axis}, which has {shape[axis]}")
        shape[axis] = stop - start
        return {"out": Spec(tuple(shape), reads["x"].dtype)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        a = operation.attributes
        return np.copyto, (arrays["out"], _cut(arrays["x"], a["axis"], a["start"], a["stop"]))


def _embed(out: Array, target: Array, source: Array) -> None:
    out.fill(0)
    np.copyto(target, source)


class SliceDerivative(OperationKind):
    """Zeros of ``shape`` with ``g`` at ``start`` along ``axis``: the transpose of slice."""

    name = "slice_derivative"
    elementwise = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(tuple(attributes["shape"]))}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        axis, start = operation.attributes["axis"], operation.attributes["start"]
        g, out = arrays["g"], arrays["out"]
        return _embed, (out, _cut(out, axis, start, start + g.shape[axis]), g)


class Permute(OperationKind):
    """Output axis i is input axis ``direction[i]``; the batch stays."""

    name = "permute"
    elementwise = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        shape = reads["x"].shape
        return {"out": Spec((shape[0], *(shape[axis] for axis in attributes["direction"])), reads["x"].dtype)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        return np.copyto, (arrays["out"], arrays["x"].transpose(0, *operation.attributes["direction"]))


for _kind in (Concat(), Slice(), SliceDerivative(), Permute()):
    register(_kind)
