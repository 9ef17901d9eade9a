"""Scaling and mirroring of input samples."""

from __future__ import annotations

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter
from nntrainer_py.formats.onnx.emitters.random import random_bits

_HALF = 1 << 31


def normalize_batch(e: Emission) -> dict[str, Term]:
    x = e.read("x")
    least = x.reduce("ReduceMin")
    span = x.reduce("ReduceMax") - least
    return {"out": span.equals(0.0).where(0.0, (x - least) / span)}


def _sample_axes(x: Term) -> range:
    return range(1, len(x.shape))


def standardize_sample(e: Emission) -> dict[str, Term]:
    x = e.read("x")
    axes, features = _sample_axes(x), x.size // x.shape[0]
    wide = x.cast("float64")
    centred = wide - wide.mean(axes)
    length = (centred * centred).sum(axes).apply("Sqrt")
    constant = x.reduce("ReduceMax", axes).equals(x.reduce("ReduceMin", axes))
    return {"out": constant.where(0.0, centred * (features / length)).cast("float32")}


def unit_length(e: Emission) -> dict[str, Term]:
    x = e.read("x")
    length = (x * x).sum(_sample_axes(x)).apply("Sqrt")
    return {"out": x / (length + float(e.attributes["epsilon"]))}


def flip(e: Emission) -> dict[str, Term]:
    x = e.read("x")
    bits = random_bits(e, x.shape[0], 4)
    for word, axis, allowed in ((0, 3, "across"), (1, 2, "down")):
        if e.attributes[allowed]:
            chosen = (bits.slice(1, word, word + 1) < _HALF).reshape(x.shape[0], 1, 1, 1)
            x = chosen.where(x.reversed(axis), x)
    return {"out": x}


EMITTERS: dict[str, Emitter] = {f.__name__: f for f in (normalize_batch, standardize_sample, unit_length, flip)}
