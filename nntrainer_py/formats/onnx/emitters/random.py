"""dropout, with the very mask that our kernels draw: Philox4x32-10 in unsigned 64-bit arithmetic.

The formula stands in nntrainer_py/tensor/rng.py. All its words are below 2^32 and kept in uint64, so that a product of
two is whole; ONNX has multiplication, shifts and bit-wise operators for that type.
"""

from __future__ import annotations

import numpy as np

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.tensor.rng import threshold_of

_WORD = 0xFFFFFFFF
_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_ROUNDS = 10


def _low(term: Term) -> Term:
    return term.binary("BitwiseAnd", _WORD)


def _high(term: Term) -> Term:
    return term.binary("BitShift", 32, direction="RIGHT")


def philox(words: tuple[Term, Term, Term, Term], key: int) -> tuple[Term, Term, Term, Term]:
    """Four random words (uint64, below 2^32) of four counter words that broadcast against each other."""
    c0, c1, c2, c3 = words
    k0, k1 = key & _WORD, key >> 32 & _WORD
    for _ in range(_ROUNDS):
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c1 = _high(p1).binary("BitwiseXor", c1).binary("BitwiseXor", k0), _low(p1)
        c2, c3 = _high(p0).binary("BitwiseXor", c3).binary("BitwiseXor", k1), _low(p0)
        k0, k1 = (k0 + _W0) & _WORD, (k1 + _W1) & _WORD
    return c0, c1, c2, c3


def random_bits(e: Emission, samples: int, count: int, draw: int) -> Term:
    """32 random bits for each of ``count`` elements of each sample, by the key of ``e``: uint64 [samples, count]."""
    graph, groups = e.graph, -(-count // 4)
    element = graph.constant(np.arange(groups, dtype=np.uint64).reshape(1, groups))
    offset = e.counter(StepState.OFFSET).reshape(1, 1)
    sample = _low((offset + graph.constant(np.arange(samples, dtype=np.int64).reshape(samples, 1))).cast("uint64"))
    step = _low(e.counter(StepState.STEP).reshape(1, 1).cast("uint64"))
    number = graph.constant([[draw & _WORD]], "uint64")
    words = philox((element, sample, step, number), int(e.attributes["key"]))
    first, *others = (word.expand(samples, groups).reshape(samples, groups, 1) for word in words)
    return first.concat(2, *others).reshape(samples, 4 * groups).slice(1, 0, count)


def dropout(e: Emission) -> dict[str, Term]:
    x, rate = e.read("x"), float(e.attributes["rate"])
    scale = 0.0 if rate >= 1.0 else 1.0 / (1.0 - rate)
    bits = random_bits(e, x.shape[0], x.size // x.shape[0], int(e.attributes["draw"])).reshape(*x.shape)
    return {"out": (bits < threshold_of(rate)).where(0.0, x * scale)}


EMITTERS: dict[str, Emitter] = {"dropout": dropout}
