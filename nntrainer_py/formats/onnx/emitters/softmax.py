"""softmax over the width, and its derivative."""

from __future__ import annotations

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter


def softmax(e: Emission) -> dict[str, Term]:
    return {"out": e.read("x").apply("Softmax", axis=-1)}


def softmax_derivative(e: Emission) -> dict[str, Term]:
    y, g = e.read("y"), e.read("g")
    return {"out": y * (g - (g * y).sum([3]))}


EMITTERS: dict[str, Emitter] = {f.__name__: f for f in (softmax, softmax_derivative)}
