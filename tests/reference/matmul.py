"""Twins of the matrix products: NumPy in float64."""

from __future__ import annotations

import numpy as np


def matmul(reads, attributes, state):
    a, b = reads["a"], reads["b"]
    if attributes.get("transpose_a"):
        a = a.swapaxes(-1, -2)
    if attributes.get("transpose_b"):
        b = b.swapaxes(-1, -2)
    out = a @ b
    if "bias" in reads:
        out = out + reads["bias"].reshape(-1)
    if attributes.get("activation") == "relu":
        out = np.maximum(out, 0.0)
    return {"out": out}


def matmul_gradient(reads, attributes, state):
    x, g = reads["x"], reads["g"]
    return {"out": x.reshape(-1, x.shape[-1]).T @ g.reshape(-1, g.shape[-1])}


REFERENCE = {"matmul": matmul, "matmul_gradient": matmul_gradient}
