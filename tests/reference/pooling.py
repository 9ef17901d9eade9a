"""Twins of the pooling kinds: every window cut out of the plane and looked at."""

from __future__ import annotations

import numpy as np


def _windows(size, attributes, count):
    """Output cell and the slices of the input cells of its window that exist."""
    (kh, kw), (sh, sw) = attributes["kernel"], attributes["stride"]
    top, _, left, _ = attributes["padding"]
    for i in range(count[0]):
        for j in range(count[1]):
            r, c = i * sh - top, j * sw - left
            yield (i, j), (slice(max(r, 0), min(r + kh, size[0])), slice(max(c, 0), min(c + kw, size[1]))), (r, c)


def _count(size, attributes):
    top, bottom, left, right = attributes["padding"]
    (kh, kw), (sh, sw) = attributes["kernel"], attributes["stride"]
    return (size[0] + top + bottom - kh) // sh + 1, (size[1] + left + right - kw) // sw + 1


def max_pool(reads, attributes, state):
    x = reads["x"]
    count = _count(x.shape[2:], attributes)
    out, places = np.zeros((*x.shape[:2], *count)), np.zeros((*x.shape[:2], *count), np.int64)
    for (i, j), (rows, columns), (r, c) in _windows(x.shape[2:], attributes, count):
        for n in range(x.shape[0]):
            for k in range(x.shape[1]):
                window = x[n, k, rows, columns]
                a, b = np.unravel_index(np.argmax(window), window.shape)
                out[n, k, i, j] = window[a, b]
                places[n, k, i, j] = (a + rows.start - r) * attributes["kernel"][1] + b + columns.start - c
    return {"out": out, "places": places} if attributes["keep"] else {"out": out}


def max_pool_derivative(reads, attributes, state):
    g, places = reads["g"], reads["places"]
    out = np.zeros((*g.shape[:2], *attributes["size"]))
    for (i, j), _, (r, c) in _windows(attributes["size"], attributes, g.shape[2:]):
        a, b = np.divmod(places[:, :, i, j].astype(int), attributes["kernel"][1])
        for n in range(g.shape[0]):
            for k in range(g.shape[1]):
                out[n, k, r + a[n, k], c + b[n, k]] += g[n, k, i, j]
    return {"out": out}


def average_pool(reads, attributes, state):
    x = reads["x"]
    count = _count(x.shape[2:], attributes)
    out = np.zeros((*x.shape[:2], *count))
    for (i, j), (rows, columns), _ in _windows(x.shape[2:], attributes, count):
        out[:, :, i, j] = x[:, :, rows, columns].mean((2, 3))
    return {"out": out}


def average_pool_derivative(reads, attributes, state):
    g = reads["g"]
    out = np.zeros((*g.shape[:2], *attributes["size"]))
    for (i, j), (rows, columns), _ in _windows(attributes["size"], attributes, g.shape[2:]):
        cells = (rows.stop - rows.start) * (columns.stop - columns.start)
        out[:, :, rows, columns] += g[:, :, i, j, None, None] / cells
    return {"out": out}


def global_max(reads, attributes, state):
    return {"out": reads["x"].max((2, 3), keepdims=True)}


def global_max_derivative(reads, attributes, state):
    ties = reads["x"] == reads["x"].max((2, 3), keepdims=True)
    return {"out": reads["g"] * ties / ties.sum((2, 3), keepdims=True)}


REFERENCE = {
    f.__name__: f
    for f in (max_pool, max_pool_derivative, average_pool, average_pool_derivative, global_max, global_max_derivative)
}
