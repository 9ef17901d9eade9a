"""The gradient of a broadcast bias."""

from __future__ import annotations

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter


def bias_gradient(e: Emission) -> dict[str, Term]:
    g = e.read("g")
    return {"out": g.sum(axis for axis in range(len(g.shape)) if axis != e.attributes["axis"])}


EMITTERS: dict[str, Emitter] = {"bias_gradient": bias_gradient}
