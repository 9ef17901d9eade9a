"""Twins of layer normalization and rms normalization, each from its definition."""

from __future__ import annotations

import numpy as np


def _statistics(x, axes, epsilon):
    return x.mean(axes, keepdims=True), 1.0 / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def layer_statistics(reads, attributes, state):
    mean, inverse = _statistics(reads["x"], attributes["axes"], attributes["epsilon"])
    return {"mean": mean, "inverse": inverse}


def _normal(reads):
    return (reads["x"] - reads["mean"]) * reads["inverse"]


def layer_normalize(reads, attributes, state):
    return {"out": reads["gamma"] * _normal(reads) + reads["beta"]}


def layer_normalize_sums(reads, attributes, state):
    others = tuple(axis for axis in range(4) if axis not in attributes["axes"])
    g = reads["g"]
    return {"dgamma": (g * _normal(reads)).sum(others, keepdims=True), "dbeta": g.sum(others, keepdims=True)}


def layer_normalize_derivative(reads, attributes, state):
    axes, normal, h = attributes["axes"], _normal(reads), reads["g"] * reads["gamma"]
    return {
        "out": reads["inverse"] * (h - h.mean(axes, keepdims=True) - normal * (h * normal).mean(axes, keepdims=True))
    }


def rms_statistics(reads, attributes, state):
    return {"inverse": 1.0 / np.sqrt((reads["x"] ** 2).mean(3, keepdims=True) + attributes["epsilon"])}


def rms_normalize(reads, attributes, state):
    return {"out": reads["x"] * reads["inverse"] * reads["gamma"]}


def rms_normalize_gradient(reads, attributes, state):
    return {"out": (reads["g"] * reads["x"] * reads["inverse"]).sum((0, 1, 2))}


def rms_normalize_derivative(reads, attributes, state):
    h, r, x = reads["g"] * reads["gamma"], reads["inverse"], reads["x"]
    return {"out": h * r - x * r**3 * (h * x).mean(3, keepdims=True)}


REFERENCE = {
    f.__name__: f
    for f in (
        layer_statistics, layer_normalize, layer_normalize_sums, layer_normalize_derivative,
        rms_statistics, rms_normalize, rms_normalize_gradient, rms_normalize_derivative,
    )
}  # fmt: skip
