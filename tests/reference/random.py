"""Twin of dropout, on the NumPy Philox of tensor/rng.py (which is tested against published vectors)."""

from __future__ import annotations

import numpy as np

from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.tensor.rng import random_bits, threshold_of


def dropout(reads, attributes, state):
    x, rate = reads["x"], attributes["rate"]
    samples = np.arange(x.shape[0]) + state.counters[StepState.OFFSET]
    bits = random_bits(attributes["key"], int(state.counters[StepState.STEP]), samples, attributes["draw"], x[0].size)
    keep = (bits >= threshold_of(rate)).reshape(x.shape)
    return {"out": np.where(keep, x / (1.0 - rate) if rate < 1 else 0.0, 0.0)}


REFERENCE = {"dropout": dropout}
