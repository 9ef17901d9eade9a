"""dropout, with the very mask that our kernels draw: Philox4x32-10 in signed 64-bit arithmetic.

The formula stands in nntrainer_py/tensor/rng.py. Words below 2^32 are kept in int64, the one wide integer that every
runtime multiplies and compares. A product of two words is made from the halves of one, so that nothing overflows.
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


def _low(term: Term, bits: int = 32) -> Term:
    return term.binary("BitwiseAnd", (1 << bits) - 1)


def _high_half(term: Term) -> Term:
    """Without the lowest 16 bits."""
    return term.binary("Div", 1 << 16)


def _product(word: Term, factor: int) -> tuple[Term, Term]:
    """The upper and the lower 32 bits of a word times a constant below 2^32."""
    lower = _low(word, 16) * factor
    upper = _high_half(word) * factor + _high_half(lower)  # below 2^49
    return _high_half(upper), _low(upper, 16) * (1 << 16) + _low(lower, 16)


def philox(words: tuple[Term, Term, Term, Term], key: int) -> tuple[Term, Term, Term, Term]:
    """Four random words (int64, below 2^32) of four counter words that broadcast against each other."""
    c0, c1, c2, c3 = words
    k0, k1 = key & _WORD, key >> 32 & _WORD
    for _ in range(_ROUNDS):
        (high0, low0), (high1, low1) = _product(c0, _M0), _product(c2, _M1)
        c0, c1 = high1.binary("BitwiseXor", c1).binary("BitwiseXor", k0), low1
        c2, c3 = high0.binary("BitwiseXor", c3).binary("BitwiseXor", k1), low0
        k0, k1 = (k0 + _W0) & _WORD, (k1 + _W1) & _WORD
    return c0, c1, c2, c3


def random_bits(e: Emission, samples: int, count: int, draw: int) -> Term:
    """32 random bits for each of ``count`` elements of each sample, by the key of ``e``: int64 [samples, count]."""
    graph, groups = e.graph, -(-count // 4)
    element = graph.constant(np.arange(groups, dtype=np.int64).reshape(1, groups))
    offset = e.counter(StepState.OFFSET).reshape(1, 1)
    sample = _low(offset + graph.constant(np.arange(samples, dtype=np.int64).reshape(samples, 1)))
    step = _low(e.counter(StepState.STEP).reshape(1, 1))
    number = graph.constant([[draw & _WORD]], "int64")
    words = philox((element, sample, step, number), int(e.attributes["key"]))
    first, *others = (word.expand(samples, groups).reshape(samples, groups, 1) for word in words)
    return first.concat(2, *others).reshape(samples, 4 * groups).slice(1, 0, count)


def dropout(e: Emission) -> dict[str, Term]:
    x, rate = e.read("x"), float(e.attributes["rate"])
    scale = 0.0 if rate >= 1.0 else 1.0 / (1.0 - rate)
    bits = random_bits(e, x.shape[0], x.size // x.shape[0], int(e.attributes["draw"])).reshape(*x.shape)
    return {"out": (bits < threshold_of(rate)).where(0.0, x * scale)}


EMITTERS: dict[str, Emitter] = {"dropout": dropout}
