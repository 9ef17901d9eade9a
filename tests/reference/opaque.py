"""Twins of the opaque kinds: the user's own function on float64 arrays."""

from __future__ import annotations

import numpy as np


def opaque(reads, attributes, state):
    arrays = {name: np.asarray(array, np.float64) for name, array in reads.items()}
    made = {name: np.zeros(spec.shape) for name, spec in attributes["specs"].items()}
    arrays.update(made)
    attributes["function"](arrays, state)
    return made


def accumulate(reads, attributes, state):
    return {"out": reads["x"]}


REFERENCE = {"opaque": opaque, "accumulate": accumulate}
