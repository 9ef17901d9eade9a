"""Bilinear enlargement of planes and its transpose."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel

Array = npt.NDArray[Any]
f4 = np.float32


@kernel()
def bilinear(
    x: Array, low: Array, high: Array, share: Array, left: Array, right: Array, part: Array, out: Array
) -> None:
    """``out[p, i, j]`` between rows ``low[i]``, ``high[i]`` and columns ``left[j]``, ``right[j]`` of ``x[p]``.

    ``share`` and ``part`` are the weights of ``high`` and ``right``.
    """
    for p in range(x.shape[0]):
        for i in range(out.shape[1]):
            upper, lower, v = x[p, low[i]], x[p, high[i]], share[i]
            target = out[p, i]
            for j in range(target.size):
                a, b, u = left[j], right[j], part[j]
                first = upper[a] + u * (upper[b] - upper[a])
                second = lower[a] + u * (lower[b] - lower[a])
                target[j] = first + v * (second - first)


@kernel()
def bilinear_derivative(
    g: Array, low: Array, high: Array, share: Array, left: Array, right: Array, part: Array, out: Array
) -> None:
    """Every ``g`` to the four cells that `bilinear` read, by their weights."""
    for p in range(out.shape[0]):
        plane = out[p]
        for i in range(plane.shape[0]):
            for j in range(plane.shape[1]):
                plane[i, j] = f4(0.0)
        for i in range(g.shape[1]):
            upper, lower, v = plane[low[i]], plane[high[i]], share[i]
            for j in range(g.shape[2]):
                a, b, u, d = left[j], right[j], part[j], g[p, i, j]
                upper[a] += (f4(1.0) - v) * (f4(1.0) - u) * d
                upper[b] += (f4(1.0) - v) * u * d
                lower[a] += v * (f4(1.0) - u) * d
                lower[b] += v * u * d
