"""Arithmetic of two tensors with broadcasting."""

from __future__ import annotations

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter

OPERATORS = {"add": "Add", "subtract": "Sub", "multiply": "Mul", "divide": "Div"}


def binary(e: Emission) -> dict[str, Term]:
    return {"out": e.read("a").binary(OPERATORS[e.attributes["function"]], e.read("b"))}


EMITTERS: dict[str, Emitter] = {"binary": binary}
