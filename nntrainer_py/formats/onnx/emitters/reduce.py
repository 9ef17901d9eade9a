"""Sums over axes, and one value repeated along axes."""

from __future__ import annotations

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter


def _scaled(e: Emission, x: Term) -> Term:
    factor = float(e.attributes.get("factor", 1.0))
    return x if factor == 1.0 else x * factor


def reduce_sum(e: Emission) -> dict[str, Term]:
    return {"out": _scaled(e, e.read("x").sum(e.attributes["axes"]))}


def broadcast(e: Emission) -> dict[str, Term]:
    return {"out": _scaled(e, e.read("x")).expand(*e.shape("out"))}


EMITTERS: dict[str, Emitter] = {f.__name__: f for f in (reduce_sum, broadcast)}
