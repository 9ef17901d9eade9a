"""Writing a file so that at every moment either the old or the new one is whole."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from nntrainer_py.errors import WeightFileError

if sys.platform != "win32":
    import fcntl

#: how the temporary files of an interrupted write can be told
PREFIX = ".nntrainer-partial-"


def write_atomically(
    path: Path,
    parts: Iterable[bytes | memoryview],
    *,
    error: type[Exception] = WeightFileError,
    verify: Callable[[Path], None] | None = None,
) -> None:
    """Temporary file in the same folder, fsync, ``verify`` of it, rename over the target, fsync of the folder.

    Raises ``error`` with the cause (full disk, read-only folder, a folder in the way); the old file then still stands.
    """
    folder = path.parent
    temporary = ""
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "is a folder")
        if path.exists() and not path.is_file():  # a rename would take the place of a device such as /dev/null
            raise OSError(22, "is not a regular file")
        handle, temporary = _temporary(folder)
        with os.fdopen(handle, "wb") as stream:  # open, and so locked, until the file has its name
            for part in parts:
                stream.write(part)
            stream.flush()
            os.fsync(stream.fileno())
            if verify is not None:
                verify(Path(temporary))
            os.chmod(temporary, _mode(path))
            os.replace(temporary, path)
        _sync_folder(folder)
    except OSError as cause:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise error(f"{path}: cannot be written: {cause.strerror or cause}") from None
    except BaseException:
        if temporary:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
        raise


def _mode(path: Path) -> int:
    """Permissions of the file that is replaced, or those of a new file."""
    try:
        return path.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # not a thing on this system
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)


def _temporary(folder: Path) -> tuple[int, str]:
    """A new file that is locked while its writer lives, which tells `remove_stale` that it is in use."""
    while True:
        handle, path = tempfile.mkstemp(prefix=PREFIX, dir=folder)
        if sys.platform == "win32":
            return handle, path
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, path
        os.close(handle)  # it was taken for stale before it was locked


def remove_stale(folder: Path) -> list[Path]:
    """Remove what writers that were killed left behind; returns what was removed. Files in use stay."""
    removed = []
    for path in folder.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            handle = os.open(path, os.O_RDWR)
            try:
                if sys.platform != "win32":
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
                removed.append(path)
            finally:
                os.close(handle)
    return removed
