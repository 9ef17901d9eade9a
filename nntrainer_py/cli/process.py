"""What the system says about this process: its memory and when it began."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence

#: seconds that the start of Python takes at most, with the imports of a command
_PYTHON_START = 1.0


def resident_memory() -> int | None:
    """Bytes of this process in memory now; None where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


def peak_memory() -> int | None:
    """The most that it ever was, in bytes."""
    try:
        # getrusage would include what the program was that started us
        with open("/proc/self/status", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        import resource
    except ImportError:
        return None
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024


class _Clock:
    """When the command that this process is running began."""

    began = time.perf_counter()
    before = 0.0


def command_begins(words: Sequence[str]) -> None:
    """Count the seconds from here on; where these words are those of the process, with the start of Python before.

    The system knows when the process was made, not when it became ours: a shell may have done quite other things in it
    before. So of the time until now only that of the processor counts, and little of it, for it may be the shell's too.
    """
    own = bool(words) and sys.argv[-len(words) :] == list(words)
    _Clock.began = time.perf_counter()
    _Clock.before = min(time.process_time(), _PYTHON_START) if own else 0.0


def time_of_start() -> str:
    """When that was, on the clock of the wall, so that `seconds_since_start` later it is now."""
    return time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(time.time() - seconds_since_start()))


def seconds_since_start() -> float:
    """Seconds since the command began, the start of Python included where the command is a process of its own."""
    return _Clock.before + time.perf_counter() - _Clock.began
