"""One run in a folder at a time."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from nntrainer_py.errors import UsageError, quoted

if sys.platform != "win32":  # there, a second run is not noticed
    import fcntl

NAME = ".nntrainer-lock"

#: folders locked by this process: the thread that did it, how often, and the open file
_HELD: dict[str, tuple[int, int, int]] = {}
_GUARD = threading.Lock()


class RunLock:
    """Holds a folder while in the ``with`` block; the same thread may do so again inside.

    The lock belongs to the open file, so that it ends with the process, however that dies; the file itself is no lock.

    Raises:
        UsageError: another process, or another thread, trains in the folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = os.path.realpath(folder)

    def __enter__(self) -> Self:
        me = threading.get_ident()
        with _GUARD:
            held = _HELD.get(self._key)
            if held is not None:
                if held[0] != me:
                    raise UsageError(f"another thread of this process trains in {quoted(str(self.folder))}")
                _HELD[self._key] = (me, held[1] + 1, held[2])
            else:
                _HELD[self._key] = (me, 1, self._lock())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with _GUARD:
            owner, times, handle = _HELD[self._key]
            if times > 1:
                _HELD[self._key] = (owner, times - 1, handle)
                return
            del _HELD[self._key]
            # unlinked while still locked: whoever waits for the name makes a new file
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(self._key, NAME))
            os.close(handle)

    def _lock(self) -> int:
        path = os.path.join(self._key, NAME)
        while True:
            try:
                handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise UsageError(f"{quoted(str(self.folder))} cannot be locked for a run: {error.strerror}") from None
            if sys.platform == "win32":
                return handle
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                owner = _owner(handle)
                os.close(handle)
                where = quoted(str(self.folder))
                raise UsageError(f"another run{owner} is going on in {where}; wait for it or choose another") from None
            if _same_file(handle, path):
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
                return handle
            os.close(handle)  # its owner ended and removed it just now


def _owner(handle: int) -> str:
    text = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
    return f" (process {text})" if text.isdigit() else ""


def _same_file(handle: int, path: str) -> bool:
    try:
        there = os.stat(path)
    except OSError:
        return False
    mine = os.fstat(handle)
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)
