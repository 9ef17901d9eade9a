"""The thread pool of parallel kernels.  Thread counts never change a result, only who computes it."""

from __future__ import annotations

import os

import numba

from nntrainer_py.tensor.kernels.compile import config, launcher, start_threads


def limit() -> int:
    """Largest number of threads that can be asked for: fixed by Numba when the process starts."""
    return int(config.NUMBA_NUM_THREADS)


def available() -> int:
    """Processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def set_threads(count: int) -> int:
    """Let parallel kernels called from this thread use ``count`` threads; returns what was in force before.

    Raises:
        ValueError: for a count below 1 or above ``limit()``.
    """
    if not 1 <= count <= limit():
        raise ValueError(f"threads: expected an integer from 1 to {limit()}, got {count}")
    start_threads()
    before = int(numba.get_num_threads())
    if before != count:
        numba.set_num_threads(count)
    return before


def layer() -> str:
    """Name of the threading layer in use: ``omp``, ``tbb`` or ``workqueue``."""
    start_threads()
    return str(launcher.threading_layer())
