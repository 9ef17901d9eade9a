"""Distances to class means, and the means as they move; votes of the nearest samples, and their store."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel

Array = npt.NDArray[Any]
f4 = np.float32
SMALLEST = f4(1.17549435e-38)  # the smallest normal float32, NNTrainer's mark of a class without samples


@kernel()
def centroid_distance(x: Array, means: Array, counts: Array, out: Array) -> None:
    """``out[n, k] = -||x[n] - means[k]||``, or SMALLEST where ``counts[k]`` is 0."""
    for n in range(x.shape[0]):
        for k in range(means.shape[0]):
            squares = 0.0
            for i in range(x.shape[1]):
                d = np.float64(x[n, i]) - np.float64(means[k, i])
                squares += d * d
            out[n, k] = SMALLEST if counts[k] == f4(0.0) else f4(-math.sqrt(squares))


@kernel()
def centroid_update(x: Array, label: Array, means: Array, counts: Array) -> None:
    """For every sample ``mean = (mean * n + x) / (n + 1)`` of the class where its label is largest; n grows by one."""
    for n in range(x.shape[0]):
        k = 0
        for j in range(label.shape[1]):
            k = j if label[n, j] > label[n, k] else k
        count = np.float64(counts[k])
        for i in range(x.shape[1]):
            means[k, i] = f4((np.float64(means[k, i]) * count + np.float64(x[n, i])) / (count + 1.0))
        counts[k] = f4(count + 1.0)


@kernel()
def neighbour_votes(
    x: Array, samples: Array, classes: Array, stored: Array, neighbours: int, scratch: Array, out: Array
) -> None:
    """Shares of the classes among the nearest stored samples; ``scratch`` is (2, capacity): distances, and taken."""
    count = min(int(stored[0]), samples.shape[0])
    voters = min(neighbours, count)
    distances, taken = scratch[0], scratch[1]
    for n in range(x.shape[0]):
        for s in range(count):
            squares = 0.0
            for i in range(x.shape[1]):
                d = np.float64(x[n, i]) - np.float64(samples[s, i])
                squares += d * d
            distances[s] = squares
            taken[s] = 0.0
        for k in range(out.shape[1]):
            out[n, k] = f4(0.0)
        for _ in range(voters):
            nearest = -1
            for s in range(count):
                if taken[s] == 0.0 and (nearest < 0 or distances[s] < distances[nearest]):
                    nearest = s
            taken[nearest] = 1.0
            out[n, int(classes[nearest])] += f4(1.0)
        for k in range(out.shape[1]):
            if voters > 0:
                out[n, k] /= f4(voters)


@kernel()
def neighbour_store(x: Array, label: Array, samples: Array, classes: Array, stored: Array) -> None:
    """Append what is new; ``stored`` counts on when the store is full and the oldest sample is overwritten."""
    capacity = samples.shape[0]
    for n in range(x.shape[0]):
        k = 0
        for j in range(label.shape[1]):
            k = j if label[n, j] > label[n, k] else k
        count = int(stored[0])
        known = False
        for s in range(min(count, capacity)):
            same = int(classes[s]) == k
            for i in range(x.shape[1]):
                if not same:
                    break
                same = samples[s, i] == x[n, i]
            known = known or same
        if not known:
            place = count % capacity
            for i in range(x.shape[1]):
                samples[place, i] = x[n, i]
            classes[place] = f4(k)
            # counts round the store, so that a float32 holds them exactly
            stored[0] = f4(count + 1 if count + 1 < 2 * capacity else capacity)
