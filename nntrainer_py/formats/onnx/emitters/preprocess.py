"""Scaling, mirroring and shifting of input samples."""

from __future__ import annotations

import numpy as np

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
    bits = random_bits(e, x.shape[0], 4, int(e.attributes["draw"]))
    for word, axis, allowed in ((0, 3, "across"), (1, 2, "down")):
        if e.attributes[allowed]:
            chosen = (bits.slice(1, word, word + 1) < _HALF).reshape(x.shape[0], 1, 1, 1)
            x = chosen.where(x.reversed(axis), x)
    return {"out": x}


def _shifts(e: Emission, word: Term, size: int) -> Term:
    """A matrix for each sample, [N, 1, size, size], that shifts an axis by the share that its random word says."""
    samples = word.shape[0]
    shift = (word.cast("float64") * 2.0**-31 - 1.0) * (float(e.attributes["share"]) * size)
    whole = (-shift).apply("Floor")
    share = (-shift - whole).cast("float32").reshape(samples, 1, 1, 1)
    cells = e.graph.constant(np.arange(size, dtype=np.int64))
    place = whole.cast("int64").reshape(samples, 1, 1, 1) + cells.reshape(size, 1)

    def chosen(index: Term) -> Term:
        """1 where a cell stands at ``index`` of the picture mirrored at its edges."""
        wrapped = index.binary("Mod", 2 * size)
        return (wrapped < size).where(wrapped, 2 * size - 1 - wrapped).equals(cells).cast("float32")

    return chosen(place) * (1.0 - share) + chosen(place + 1) * share


def translate(e: Emission) -> dict[str, Term]:
    x = e.read("x")
    bits = random_bits(e, x.shape[0], 4, int(e.attributes["draw"]))
    right = _shifts(e, bits.slice(1, 0, 1), x.shape[3])
    down = _shifts(e, bits.slice(1, 1, 2), x.shape[2])
    return {"out": down @ (x @ right.transpose(0, 1, 3, 2))}


EMITTERS: dict[str, Emitter] = {
    f.__name__: f for f in (normalize_batch, standardize_sample, unit_length, flip, translate)
}
