"""Fused kinds, in the steps that they fuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Reads = Mapping[str, Any]


def _line(array: Any, reads: Reads, attributes: Mapping[str, Any]) -> Any:
    """A parameter in the shape that broadcasts against x."""
    shape = [1] * reads["x"].ndim
    shape[attributes["axis"]] = -1
    return array.reshape(shape)


def _affine(reads: Reads, attributes: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Normalized input, what goes into the relu, and 1 / standard deviation."""
    mean, variance, gamma, beta = (_line(reads[n], reads, attributes) for n in ("mean", "variance", "gamma", "beta"))
    inverse = 1.0 / np.sqrt(variance + attributes["epsilon"])
    normal = (reads["x"] - mean) * inverse
    return normal, gamma * normal + beta, inverse


def _batch_normalize_relu(reads: Reads, attributes: Mapping[str, Any], state: Any) -> dict[str, Any]:
    _, value, _ = _affine(reads, attributes)
    if "addend" in reads:
        value = value + reads["addend"]
    return {"out": np.where(value <= 0.0, 0.0, value)}


def _through(reads: Reads, attributes: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    normal, value, inverse = _affine(reads, attributes)
    return normal, np.where(value <= 0.0, 0.0, reads["g"]), inverse


def _batch_normalize_relu_sums(reads: Reads, attributes: Mapping[str, Any], state: Any) -> dict[str, Any]:
    normal, g, _ = _through(reads, attributes)
    axes = tuple(axis for axis in range(g.ndim) if axis != attributes["axis"])
    return {"dgamma": np.sum(g * normal, axis=axes, keepdims=True), "dbeta": np.sum(g, axis=axes, keepdims=True)}


def _batch_normalize_relu_derivative(reads: Reads, attributes: Mapping[str, Any], state: Any) -> dict[str, Any]:
    normal, g, inverse = _through(reads, attributes)
    count = g.size // g.shape[attributes["axis"]]
    gamma, dgamma, dbeta = (_line(reads[name], reads, attributes) for name in ("gamma", "dgamma", "dbeta"))
    return {"out": gamma * inverse * (g - dbeta / count - normal * dgamma / count)}


def _matmul_descent(reads: Reads, attributes: Mapping[str, Any], state: Any) -> dict[str, Any]:
    x, g, weight = reads["x"], reads["g"], reads["weight"]
    gradient = np.einsum("rk,rn->kn", x.reshape(-1, x.shape[-1]), g.reshape(-1, g.shape[-1]))
    return {"weight": weight - state.numbers[state.LEARNING_RATE] * gradient.reshape(weight.shape)}


REFERENCE = {
    "batch_normalize_relu": _batch_normalize_relu,
    "batch_normalize_relu_sums": _batch_normalize_relu_sums,
    "batch_normalize_relu_derivative": _batch_normalize_relu_derivative,
    "matmul_descent": _matmul_descent,
}
