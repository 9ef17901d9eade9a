"""The thread pool of parallel kernels.  Thread counts never change a result, only who computes it."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numba

config: Any = importlib.import_module("numba.core.config")  # typed in some versions of Numba only
_PREFERENCE = ("omp", "tbb", "workqueue")


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
    _prefer_openmp()
    before = int(numba.get_num_threads())
    numba.set_num_threads(count)
    return before


def layer() -> str:
    """Name of the threading layer in use: ``omp``, ``tbb`` or ``workqueue``."""
    from nntrainer_py.tensor.kernels.fork_join import touch

    _prefer_openmp()
    touch.function(1)
    return str(importlib.import_module("numba.np.ufunc.parallel").threading_layer())


def _prefer_openmp() -> None:
    """Prefer the layer with the cheapest fork and join (3 against 55 us), unless the user or a running pool decided."""
    launcher: Any = importlib.import_module("numba.np.ufunc.parallel")
    decided = launcher._is_initialized or "NUMBA_THREADING_LAYER" in os.environ
    if not decided and "NUMBA_THREADING_LAYER_PRIORITY" not in os.environ:
        config.THREADING_LAYER_PRIORITY = list(_PREFERENCE)
