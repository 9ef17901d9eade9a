"""Twins of bilinear enlargement: each axis as a matrix, so that the way back is its transpose."""

from __future__ import annotations

import numpy as np


def _matrix(size, scale):
    """Rows of the enlarged axis as weights of the old cells."""
    made = np.zeros((size * scale, size))
    for i in range(size * scale):
        place = max((i + 0.5) / scale - 0.5, 0.0)
        low = min(int(place), size - 1)
        made[i, low] += 1 - (place - low)
        made[i, min(low + 1, size - 1)] += place - low
    return made


def bilinear(reads, attributes, state):
    x, (down, right) = reads["x"], attributes["scale"]
    return {"out": _matrix(x.shape[2], down) @ x @ _matrix(x.shape[3], right).T}


def bilinear_derivative(reads, attributes, state):
    g, (down, right) = reads["g"], attributes["scale"]
    return {"out": _matrix(g.shape[2] // down, down).T @ g @ _matrix(g.shape[3] // right, right)}


REFERENCE = {"bilinear": bilinear, "bilinear_derivative": bilinear_derivative}
