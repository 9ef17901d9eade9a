"""Twins of the kinds that choose by index."""

from __future__ import annotations

import numpy as np


def embedding(reads, attributes, state):
    index = reads["x"].astype(int)[:, 0, 0, :]
    return {"out": reads["table"][0, 0][index][:, None]}


def embedding_gradient(reads, attributes, state):
    index, g = reads["x"].astype(int).reshape(-1), reads["g"]
    out = np.zeros((attributes["rows"], g.shape[3]))
    np.add.at(out, index, g.reshape(index.size, -1))
    return {"out": out}


def _full(reads, attributes, shape):
    shape = list(shape)
    shape[attributes["axis"]] = reads["indices"].shape[attributes["axis"]]
    return np.broadcast_to(reads["indices"].astype(int), shape)


def gather(reads, attributes, state):
    x = reads["x"]
    return {"out": np.take_along_axis(x, _full(reads, attributes, x.shape), attributes["axis"])}


def gather_derivative(reads, attributes, state):
    out, g, axis = np.zeros(attributes["shape"]), reads["g"], attributes["axis"]
    index = _full(reads, attributes, out.shape)
    for place in np.ndindex(*g.shape):
        target = list(place)
        target[axis] = index[place]
        out[tuple(target)] += g[place]
    return {"out": out}


REFERENCE = {f.__name__: f for f in (embedding, embedding_gradient, gather, gather_derivative)}
