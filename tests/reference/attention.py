"""Twins of attention: the whole matrix of weights, and the Jacobian of its softmax."""

from __future__ import annotations

import numpy as np

from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.tensor.rng import random_bits, threshold_of


def _heads(x, heads):
    """[N, 1, T, heads * d] as [N, heads, T, d]."""
    n, _, steps, width = x.shape
    return x.reshape(n, steps, heads, width // heads).swapaxes(1, 2)


def _joined(x):
    n, heads, steps, width = x.shape
    return x.swapaxes(1, 2).reshape(n, 1, steps, heads * width)


def _weights(reads, attributes):
    heads = attributes["heads"]
    scores = _heads(reads["q"], heads) @ _heads(reads["k"], heads).swapaxes(-1, -2) * attributes["scale"]
    if "mask" in reads:
        scores = scores + reads["mask"]
    if attributes.get("causal"):
        hidden = np.triu(np.ones(scores.shape[-2:], bool), 1)
        scores = np.where(hidden, -np.inf, scores)
    top = scores.max(-1, keepdims=True)
    made = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = made.sum(-1, keepdims=True)
    return np.divide(made, total, out=np.zeros_like(made), where=total > 0), top, total


def _dropout(shape, attributes, state):
    if "rate" not in attributes:
        return np.ones(shape)
    rate, samples = attributes["rate"], np.arange(shape[0]) + state.counters[StepState.OFFSET]
    step = int(state.counters[StepState.STEP])
    bits = random_bits(attributes["key"], step, samples, 0, int(np.prod(shape[1:])))
    return np.where(bits.reshape(shape) >= threshold_of(rate), 1 / (1 - rate) if rate < 1 else 0.0, 0.0)


def attention(reads, attributes, state):
    weights, top, total = _weights(reads, attributes)
    dropped = weights * _dropout(weights.shape, attributes, state)
    reciprocal = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
    made = {
        "out": _joined(dropped @ _heads(reads["v"], attributes["heads"])),
        "statistics": np.concatenate([top, reciprocal], axis=-1),
    }
    if "weights" in attributes:
        made["weights"] = weights if attributes["weights"] == "before" else dropped
    return made


def attention_derivative(reads, attributes, state):
    heads, (p, _, _) = attributes["heads"], _weights(reads, attributes)
    q, k, v, g = (_heads(reads[name], heads) for name in ("q", "k", "v", "g"))
    mask, after = _dropout(p.shape, attributes, state), attributes.get("weights") == "after"
    by_dropped = g @ v.swapaxes(-1, -2) + (reads["gw"] if "gw" in reads and after else 0)
    by_p = by_dropped * mask + (reads["gw"] if "gw" in reads and not after else 0)
    jacobian = np.einsum("...i,ij->...ij", p, np.eye(p.shape[-1])) - p[..., :, None] * p[..., None, :]
    by_scores = np.einsum("...ij,...j->...i", jacobian, by_p)
    made = {
        "dq": _joined(by_scores @ k * attributes["scale"]),
        "dk": _joined(by_scores.swapaxes(-1, -2) @ q * attributes["scale"]),
        "dv": _joined((p * mask).swapaxes(-1, -2) @ g),
    }
    if attributes.get("mask_wanted"):
        made["dmask"] = by_scores
    return made


REFERENCE = {"attention": attention, "attention_derivative": attention_derivative}
