"""Sums of a 4-D array over any of its axes, formed in float64 in a fixed order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel

Array = npt.NDArray[Any]
Steps = tuple[int, int, int, int]
f4 = np.float32


@kernel()
def reduce_sum(x: Array, steps: Steps, factor: float, sums: Array, out: Array, accumulate: bool) -> None:
    """``out[k] (+)= factor *`` the sum of all ``x[n, c, h, w]`` with ``k = n*s0 + c*s1 + h*s2 + w*s3``.

    ``steps`` are 0 for the axes that are summed over; ``sums`` is float64 work space like the flat ``out``.
    """
    s0, s1, s2, s3 = steps
    for k in range(out.size):
        sums[k] = 0.0
    for n in range(x.shape[0]):
        for c in range(x.shape[1]):
            for h in range(x.shape[2]):
                row, base = x[n, c, h], n * s0 + c * s1 + h * s2
                if s3 == 0:
                    total = 0.0
                    for w in range(row.size):
                        total += np.float64(row[w])
                    sums[base] += total
                else:
                    for w in range(row.size):
                        sums[base + w] += np.float64(row[w])
    for k in range(out.size):
        value = f4(sums[k] * factor)
        out[k] = out[k] + value if accumulate else value
