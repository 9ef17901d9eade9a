"""Distances to class means, and the means as they move."""

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
