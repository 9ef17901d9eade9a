"""Twins of the preprocessing kinds, one sample at a time; random numbers from the NumPy Philox of tensor/rng.py."""

from __future__ import annotations

import numpy as np

from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.tensor.rng import random_bits


def normalize_batch(reads, attributes, state):
    x = reads["x"]
    span = x.max() - x.min()
    return {"out": (x - x.min()) / span if span else np.zeros_like(x)}


def standardize_sample(reads, attributes, state):
    out = np.zeros_like(reads["x"])
    for n, x in enumerate(reads["x"]):
        centred = x - x.mean()
        length = np.sqrt((centred**2).sum())
        out[n] = centred * x.size / length if length > 1e-12 * abs(x).max() else 0.0
    return {"out": out}


def unit_length(reads, attributes, state):
    return {"out": np.stack([x / (np.linalg.norm(x) + attributes["epsilon"]) for x in reads["x"]])}


def _two_words(attributes, state, sample):
    place = np.array([sample + state.counters[StepState.OFFSET]])
    return (
        random_bits(attributes["key"], int(state.counters[StepState.STEP]), place, attributes["draw"], 4)[0][:2]
        / 2.0**32
    )


def flip(reads, attributes, state):
    out = reads["x"].copy()
    for n, x in enumerate(reads["x"]):
        first, second = _two_words(attributes, state, n)
        if attributes["across"] and first < 0.5:
            x = x[:, :, ::-1]
        if attributes["down"] and second < 0.5:
            x = x[:, ::-1]
        out[n] = x
    return {"out": out}


def translate(reads, attributes, state):
    out = np.zeros_like(reads["x"])
    height, width = out.shape[2:]
    for n, x in enumerate(reads["x"]):
        right, down = (
            (2 * u - 1) * attributes["share"] * size
            for u, size in zip(_two_words(attributes, state, n), (width, height), strict=True)
        )
        # mirrored copies all around, then plain bilinear interpolation
        wide = np.pad(x, ((0, 0), (3 * height, 3 * height), (3 * width, 3 * width)), mode="symmetric")
        i, j = np.meshgrid(np.arange(height) - down + 3 * height, np.arange(width) - right + 3 * width, indexing="ij")
        i0, j0 = np.floor(i).astype(int), np.floor(j).astype(int)
        v, u = i - i0, j - j0
        out[n] = (
            (1 - v) * (1 - u) * wide[:, i0, j0] + (1 - v) * u * wide[:, i0, j0 + 1]
            + v * (1 - u) * wide[:, i0 + 1, j0] + v * u * wide[:, i0 + 1, j0 + 1]
        )  # fmt: skip
    return {"out": out}


REFERENCE = {f.__name__: f for f in (normalize_batch, standardize_sample, unit_length, flip, translate)}
