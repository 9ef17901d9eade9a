"""What is not a user's own code: handing a value to a gradient target."""

from __future__ import annotations

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter


def accumulate(e: Emission) -> dict[str, Term]:
    return {"out": e.read("x")}


EMITTERS: dict[str, Emitter] = {"accumulate": accumulate}
