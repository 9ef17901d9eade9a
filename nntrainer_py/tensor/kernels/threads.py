"""The thread pool of parallel kernels.  Thread counts never change a result, only who computes it."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numba

# Numba types these parts differently from version to version.
config: Any = importlib.import_module("numba.core.config")
launcher: Any = importlib.import_module("numba.np.ufunc.parallel")

_SPINS = "3000"  # about 75 microseconds, longer than the pause between two parallel kernels of a step


def start_threads() -> None:
    """Start the pool of parallel kernels, once per process.

    Prefers the layer with the cheapest fork and join (3 against 55 us), unless the user decided.
    """
    if launcher._is_initialized:
        return
    if "NUMBA_THREADING_LAYER" not in os.environ and "NUMBA_THREADING_LAYER_PRIORITY" not in os.environ:
        config.THREADING_LAYER_PRIORITY = ["omp", "tbb", "workqueue"]
    with _short_spin():
        launcher._launch_threads()


@contextmanager
def _short_spin() -> Iterator[None]:
    """While libgomp is loaded, let it read how long a waiting thread spins, unless the user decided.

    By default it spins for milliseconds: on a busy machine the spinning thread keeps the working one from the
    processor, and a step on two threads takes up to ten times as long as on one. The variable is gone again
    afterwards, so that other programs started from here keep their own defaults.
    """
    if "GOMP_SPINCOUNT" in os.environ or "OMP_WAIT_POLICY" in os.environ:
        yield
        return
    os.environ["GOMP_SPINCOUNT"] = _SPINS
    try:
        yield
    finally:
        del os.environ["GOMP_SPINCOUNT"]


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
