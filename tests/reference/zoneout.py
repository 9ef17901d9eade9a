"""Twins of zoneout."""

from __future__ import annotations

import numpy as np

from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.tensor.rng import random_bits, threshold_of


def _mask(reads, like, attributes, state):
    if "mask" in reads:
        return reads["mask"].reshape(like.shape)
    samples = np.arange(like.shape[0]) + state.counters[StepState.OFFSET]
    step = int(state.counters[StepState.STEP])
    bits = random_bits(attributes["key"], step, samples, attributes["draw"], like[0].size)
    return np.where(bits >= threshold_of(attributes["rate"]), 1.0, 0.0).reshape(like.shape)


def zoneout(reads, attributes, state):
    m = _mask(reads, reads["new"], attributes, state)
    return {"out": m * reads["new"] + (1 - m) * reads["old"]}


def zoneout_derivative(reads, attributes, state):
    m = _mask(reads, reads["g"], attributes, state)
    return {"dnew": m * reads["g"], "dold": (1 - m) * reads["g"]}


REFERENCE = {"zoneout": zoneout, "zoneout_derivative": zoneout_derivative}
