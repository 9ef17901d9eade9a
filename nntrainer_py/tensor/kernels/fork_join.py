"""An empty parallel kernel: starts the pool and measures a fork and join."""

from __future__ import annotations

from numba import prange

from nntrainer_py.tensor.kernels.compile import kernel


@kernel(parallel=True)
def touch(parts: int) -> int:
    """Fork and join once over ``parts`` empty parts; returns their number."""
    count = 0
    for _ in prange(parts):
        count += 1
    return count
