"""Folders of compiled kernels that no installed version uses any more: found, weighed, removed.

Only what this package made is touched: folders ``kernels-<fingerprint>`` of this user, real ones and no links, that
hold nothing but Numba's index and data files. One that a running process may still read from stays: compiled code is
loaded when it is first called, long after the start of a process.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_NAME = re.compile(r"kernels-[0-9a-f]{20}")
_CACHED = re.compile(r"[^/]+\.nb[ic](\.tmp\.[0-9a-f]+)?")  # an interrupted write leaves the longer name
_DAY = 86_400.0  # a system may note only the first reading of a day
_UNWATCHED = 7 * _DAY  # folders last used before that are free where running processes cannot be asked


@dataclass(frozen=True, slots=True)
class OldFolder:
    """A folder of another version: ``size`` in bytes, ``used`` when last (seconds since 1970); why it stays, if so."""

    path: Path
    size: int
    used: float
    reason: str = ""


def old_folders(bases: Sequence[Path], current: str) -> list[OldFolder]:
    """The folders of other versions in ``bases``; ``current`` is the name of the folder of this one."""
    begun = _begun()
    found: list[OldFolder] = []
    for base in dict.fromkeys(bases):
        try:
            names = sorted(name for name in os.listdir(base) if _NAME.fullmatch(name))
        except OSError:
            continue
        found += [_look(base / name, begun) for name in names if name != current]
    return found


def remove(folder: OldFolder) -> str:
    """Remove the files and then the folder; what went wrong, or nothing. No link is followed at any moment."""
    try:
        handle = os.open(folder.path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0))
    except OSError as error:
        return str(error.strerror)
    try:
        names = os.listdir(handle)
        foreign = [name for name in names if not _CACHED.fullmatch(name)]
        if foreign:
            return f"holds '{foreign[0]}', which is no compiled kernel"
        for name in names:
            os.unlink(name, dir_fd=handle)  # of a link the link
        os.rmdir(folder.path)
    except OSError as error:
        return str(error.strerror)
    finally:
        os.close(handle)
    return ""


def _look(path: Path, begun: float | None) -> OldFolder:
    try:
        here = path.lstat()
        if not stat.S_ISDIR(here.st_mode):
            return OldFolder(path, 0, here.st_mtime, "is no folder of its own")
        if hasattr(os, "geteuid") and here.st_uid != os.geteuid():
            return OldFolder(path, 0, here.st_mtime, "belongs to another user")
        size, used = 0, here.st_mtime
        with os.scandir(path) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for entry in entries:
            one = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(one.st_mode) or not _CACHED.fullmatch(entry.name):
                return OldFolder(path, size, used, f"holds '{entry.name}', which is no compiled kernel")
            size, used = size + one.st_size, max(used, one.st_mtime, one.st_atime)
        unnoted = hasattr(os, "statvfs") and bool(os.statvfs(path).f_flag & getattr(os, "ST_NOATIME", 0))
    except OSError as error:
        return OldFolder(path, 0, 0.0, str(error.strerror))
    if begun is None:
        busy = used > time.time() - _UNWATCHED
    else:
        busy = begun < float("inf") and (unnoted or used > begun - _DAY)
    return OldFolder(path, size, used, "may be in use by a running process" if busy else "")


def _begun() -> float | None:
    """When the first of the other processes that run compiled kernels began; infinity without one, None: unknown."""
    try:
        lines = Path("/proc/stat").read_text(encoding="ascii").splitlines()
        boot = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
        ticks = os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, StopIteration, AttributeError):
        return None
    return min((boot + start / ticks for start in _starts()), default=float("inf"))


def _starts() -> Iterator[int]:
    """Clock ticks from the start of the system to that of each process that has loaded LLVM, as far as we may look."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            after = (folder / "stat").read_text(encoding="utf-8", errors="replace")
            name, _, rest = after.partition("(")[2].rpartition(")")
            try:
                loaded = "llvmlite" in (folder / "maps").read_text(encoding="utf-8", errors="replace")
            except PermissionError:  # of another user: any Python may be one
                loaded = name.startswith("python")
            if loaded:
                yield int(rest.split()[19])
        except (OSError, ValueError, IndexError):
            continue  # it has ended
