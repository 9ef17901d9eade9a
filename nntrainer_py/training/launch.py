"""Who may compute now: one launch at a time in a process, with the right number of threads, never in a forked child.

Numba's threading layers are not safe against two launches at once (its workqueue aborts the process), nor a fork
(libgomp ends the child). So every part of a step runs under one lock, and a child of a process that has computed in
parallel is refused before the pool is touched; with one thread it may compute, because serial kernels need no pool.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

from nntrainer_py.errors import ForkError

_lock = threading.RLock()
_parallel_used = False
_forked = False


def _after_fork() -> None:
    """In the child: no other thread is left that could hold the lock, and the pool's threads are gone."""
    global _lock, _forked
    _lock = threading.RLock()
    _forked = _forked or _parallel_used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def launch(threads: int, *, numpy_inside: bool = False) -> Iterator[None]:
    """Hold the process for one part of a step that uses ``threads`` threads.

    ``numpy_inside``: a user's NumPy runs in it, so BLAS is held at one thread (two pools that both spin cost
    milliseconds at each change between them). Raises ForkError in a child that must not use the pool.
    """
    global _parallel_used
    with _lock:
        if threads > 1:
            if _forked:
                raise ForkError(
                    "this process was forked from one that had computed with several threads, which do not exist here; "
                    "start worker processes with the 'spawn' method, or use threads = 1"
                )
            before = _pool().set_threads(threads)
            _parallel_used = True
        try:
            with _blas().limit(limits=1, user_api="blas") if numpy_inside else nullcontext():
                yield
        finally:
            if threads > 1 and before != threads:
                _pool().set_threads(before)


@cache
def _pool() -> Any:
    from nntrainer_py.tensor.kernels import threads

    return threads


@cache
def _blas() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
