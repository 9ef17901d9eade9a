"""Scaled dot-product attention over any number of heads, and its derivative."""

from __future__ import annotations

import math

import numpy as np

from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter
from nntrainer_py.formats.onnx.emitters.random import random_bits
from nntrainer_py.tensor.rng import threshold_of


def _heads(e: Emission, name: str) -> Term:
    """[N, 1, T, heads * d] as [N, heads, T, d]."""
    x, heads = e.read(name), int(e.attributes["heads"])
    return x.reshape(x.shape[0], x.shape[2], heads, x.shape[3] // heads).transpose(0, 2, 1, 3)


def _joined(x: Term) -> Term:
    n, heads, steps, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(n, 1, steps, heads * width)


def _turned(x: Term) -> Term:
    return x.transpose(0, 1, 3, 2)


def _weights(e: Emission) -> tuple[Term, Term, Term]:
    """Weights [N, heads, Tq, Tk], the largest score of each row, and one over the sum (0 where all are hidden)."""
    scores = _heads(e, "q") @ _turned(_heads(e, "k")) * float(e.attributes["scale"])
    if e.has("mask"):
        scores = scores + e.read("mask")
    if e.attributes.get("causal"):
        scores = e.graph.constant(np.triu(np.ones(scores.shape[-2:], np.bool_), 1)).where(-math.inf, scores)
    top = scores.reduce("ReduceMax", [3])
    made = (scores - top.equals(-math.inf).where(0.0, top)).apply("Exp")
    total = made.sum([3])
    reciprocal = (total > 0.0).where(1.0 / total, 0.0)
    return made * reciprocal, top, reciprocal


def _dropped(e: Emission, weights: Term) -> Term:
    """As the kind dropout does, draw 0."""
    if "rate" not in e.attributes:
        return weights
    rate, n = float(e.attributes["rate"]), weights.shape[0]
    bits = random_bits(e, n, weights.size // n, 0).reshape(*weights.shape)
    return (bits < threshold_of(rate)).where(0.0, weights * (0.0 if rate >= 1.0 else 1.0 / (1.0 - rate)))


def attention(e: Emission) -> dict[str, Term]:
    weights, top, reciprocal = _weights(e)
    dropped = _dropped(e, weights)
    made = {"out": _joined(dropped @ _heads(e, "v")), "statistics": top.concat(3, reciprocal)}
    if "weights" in e.attributes:
        made["weights"] = weights if e.attributes["weights"] == "before" else dropped
    return made


def attention_derivative(e: Emission) -> dict[str, Term]:
    (weights, _, _), scale = _weights(e), float(e.attributes["scale"])
    g, after = _heads(e, "g"), e.attributes.get("weights") == "after"
    by_dropped = g @ _turned(_heads(e, "v"))
    if e.has("gw") and after:
        by_dropped = by_dropped + e.read("gw")
    by_weights = _dropped(e, by_dropped)
    if e.has("gw") and not after:
        by_weights = by_weights + e.read("gw")
    by_scores = weights * (by_weights - (weights * by_weights).sum([3]))
    made = {
        "dq": _joined(by_scores @ _heads(e, "k") * scale),
        "dk": _joined(_turned(by_scores) @ _heads(e, "q") * scale),
        "dv": _joined(_turned(_dropped(e, weights)) @ g),
    }
    if e.attributes.get("mask_wanted"):
        made["dmask"] = by_scores
    return made


EMITTERS: dict[str, Emitter] = {f.__name__: f for f in (attention, attention_derivative)}
