"""Matrix products, and the gradient of the weight of one."""

from __future__ import annotations

import math

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter


def _operand(term: Term, transposed: bool) -> Term:
    count = len(term.shape)
    return term.transpose(*range(count - 2), count - 1, count - 2) if transposed else term


def matmul(e: Emission) -> dict[str, Term]:
    a = _operand(e.read("a"), bool(e.attributes.get("transpose_a")))
    b = _operand(e.read("b"), bool(e.attributes.get("transpose_b")))
    if b.size == math.prod(b.shape[-2:]):  # one matrix for all
        b = b.reshape(*b.shape[-2:])
    else:
        a, b = (term.reshape(term.size // math.prod(term.shape[-2:]), *term.shape[-2:]) for term in (a, b))
    out = a @ b
    if e.has("bias"):
        bias = e.read("bias")
        out = out + bias.reshape(bias.size)
    return {"out": out.apply("Relu") if e.attributes.get("activation") == "relu" else out}


def weight_gradient(e: Emission) -> Term:
    """``sum over all rows of x^T g``, K by N."""
    x, g = e.read("x"), e.read("g")
    x, g = x.reshape(x.size // x.shape[-1], x.shape[-1]), g.reshape(g.size // g.shape[-1], g.shape[-1])
    return x.transpose(1, 0) @ g


def matmul_gradient(e: Emission) -> dict[str, Term]:
    return {"out": weight_gradient(e)}


EMITTERS: dict[str, Emitter] = {f.__name__: f for f in (matmul, matmul_gradient)}
