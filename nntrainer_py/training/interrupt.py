"""Ctrl-C and termination requests: the step that is going on is finished, then the run saves and ends."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

from nntrainer_py.errors import InterruptedRun

#: a second signal within this time is the same key pressed twice
_SAME_PRESS = 1.0


class InterruptGuard:
    """Holds back SIGINT and SIGTERM while a run is going on. ``signal`` says which came, 0 for none.

    A second one, later than a second, ends the run at once (`InterruptedRun`), for data that never comes or a step that
    takes minutes; but not while a file is being saved: files are always finished or left as they were. Handlers can
    only be set in the main thread; in another the guard does nothing.

    ``tell`` is called with the number of the first one, from the signal handler: between any two lines of the run.
    """

    def __init__(self, tell: Callable[[int], None] | None = None) -> None:
        self._tell = tell
        self.signal = 0
        self._first = 0.0
        self._saving = 0
        self._at_once = ""
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not set by Python
        self._before.clear()

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Signals that come in this block are noted and never raise."""
        self._saving += 1
        try:
            yield
        finally:
            self._saving -= 1

    @contextmanager
    def at_once(self, message: str) -> Iterator[None]:
        """In this block, where nothing can be lost yet, the first signal ends the run with ``message``."""
        self._at_once = message
        try:
            yield
        finally:
            self._at_once = ""

    def check(self, message: str) -> None:
        """Raise `InterruptedRun` with ``message`` when a signal came."""
        if self.signal:
            raise InterruptedRun(message, signal=self.signal)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._at_once and not self._saving:
            self.signal = self.signal or number
            raise InterruptedRun(self._at_once, signal=number)
        if not self.signal:
            self.signal, self._first = number, now
            if self._tell is not None:
                self._tell(number)
        elif not self._saving and now - self._first > _SAME_PRESS:
            raise InterruptedRun("interrupted twice; the step that was going on is lost", signal=number)
