"""zoneout: keep some elements of a state as they were before a step."""

from __future__ import annotations

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter
from nntrainer_py.formats.onnx.emitters.random import random_bits
from nntrainer_py.tensor.rng import threshold_of


def _new_share(e: Emission, like: Term) -> Term:
    """How much of the new state each element takes: drawn as dropout draws, or given."""
    if e.has("mask"):
        return e.read("mask").reshape(*like.shape)
    bits = random_bits(e, like.shape[0], like.size // like.shape[0], int(e.attributes["draw"]))
    return (bits.reshape(*like.shape) >= threshold_of(float(e.attributes["rate"]))).cast("float32")


def zoneout(e: Emission) -> dict[str, Term]:
    new, old = e.read("new"), e.read("old")
    share = _new_share(e, new)
    return {"out": share * new + (1.0 - share) * old}


def zoneout_derivative(e: Emission) -> dict[str, Term]:
    g = e.read("g")
    share = _new_share(e, g)
    return {"dnew": share * g, "dold": (1.0 - share) * g}


EMITTERS: dict[str, Emitter] = {f.__name__: f for f in (zoneout, zoneout_derivative)}
