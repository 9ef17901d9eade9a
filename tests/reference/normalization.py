"""Twins of the batch normalization kinds."""

from __future__ import annotations

import numpy as np


def _shaped(v, axis):
    shape = [1, 1, 1, 1]
    shape[axis] = -1
    return np.asarray(v).reshape(shape)


def _others(axis):
    return tuple(i for i in range(4) if i != axis)


def batch_statistics(reads, attributes, state):
    others = _others(attributes["axis"])
    return {"mean": reads["x"].mean(others), "variance": reads["x"].var(others)}


def running_update(reads, attributes, state):
    m = attributes["momentum"]
    return {"running": m * reads["running"].reshape(-1) + (1 - m) * reads["batch"].reshape(-1)}


def batch_normalize(reads, attributes, state):
    x, mean, variance, gamma, beta = (
        reads[n] if n == "x" else _shaped(reads[n], attributes["axis"])
        for n in ("x", "mean", "variance", "gamma", "beta")
    )
    return {"out": gamma * (x - mean) / np.sqrt(variance + attributes["epsilon"]) + beta}


def _normal(reads, attributes):
    axis = attributes["axis"]
    return (reads["x"] - _shaped(reads["mean"], axis)) / np.sqrt(
        _shaped(reads["variance"], axis) + attributes["epsilon"]
    )


def batch_normalize_sums(reads, attributes, state):
    others = _others(attributes["axis"])
    return {"dgamma": (reads["g"] * _normal(reads, attributes)).sum(others), "dbeta": reads["g"].sum(others)}


def batch_normalize_derivative(reads, attributes, state):
    # dx = gamma/s * (g - mean(g) - xhat * mean(g * xhat)), from the definition, not from the given sums
    axis = attributes["axis"]
    others, g, normal = _others(axis), reads["g"], _normal(reads, attributes)
    scale = _shaped(reads["gamma"], axis) / np.sqrt(_shaped(reads["variance"], axis) + attributes["epsilon"])
    return {"out": scale * (g - g.mean(others, keepdims=True) - normal * (g * normal).mean(others, keepdims=True))}


REFERENCE = {
    f.__name__: f
    for f in (batch_statistics, running_update, batch_normalize, batch_normalize_sums, batch_normalize_derivative)
}
