"""Kinds that only move elements."""

from __future__ import annotations

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter
from nntrainer_py.tensor.operations.movement import numbered


def concat(e: Emission) -> dict[str, Term]:
    first, *others = (e.read(f"x{i}") for i in range(len(numbered(e.operation.reads))))
    return {"out": first.concat(e.attributes["axis"], *others)}


def slice_(e: Emission) -> dict[str, Term]:
    a = e.attributes
    return {"out": e.read("x").slice(a["axis"], a["start"], a["stop"])}


def slice_derivative(e: Emission) -> dict[str, Term]:
    g, axis, start = e.read("g"), e.attributes["axis"], e.attributes["start"]
    before, after = [0] * len(g.shape), [0] * len(g.shape)
    before[axis], after[axis] = start, e.shape("out")[axis] - start - g.shape[axis]
    return {"out": g.pad(before, after)}


def permute(e: Emission) -> dict[str, Term]:
    return {"out": e.read("x").transpose(0, *e.attributes["direction"])}


EMITTERS: dict[str, Emitter] = {
    "concat": concat,
    "slice": slice_,
    "slice_derivative": slice_derivative,
    "permute": permute,
}
