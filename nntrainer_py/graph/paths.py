"""Which file a path in a description means.

The INI on the command line is the user's own and may name any path. What a file that it names in turn (a backbone)
names must lie inside the folder of that first INI, because such files are downloaded from others.
"""

from __future__ import annotations

import os
from pathlib import Path

from nntrainer_py.errors import UsageError, quoted


def folder_of(path: str | os.PathLike[str]) -> Path:
    """The folder of a file, links followed, as NNTrainer takes it."""
    return Path(os.path.realpath(path)).parent


def find(text: str | os.PathLike[str], folder: Path) -> Path:
    """A file to be read: an absolute path as it is, a relative one from ``folder``, or else from the working folder.

    Where there is neither, the path in ``folder``, for the message that will say so.
    """
    inside = folder / text
    if not inside.exists():
        outside = Path.cwd() / text
        if outside.exists():
            return outside
    return inside


def place(text: str | os.PathLike[str], folder: Path) -> Path:
    """A file to be written: an absolute path as it is, a relative one from ``folder``."""
    return folder / text


def inside(text: str, folder: Path) -> Path:
    """A file that a backbone names: relative, without ``..``, and not leaving ``folder`` through links either.

    `UsageError` when it does.
    """
    wanted = Path(text)
    if wanted.is_absolute() or ".." in wanted.parts:
        raise UsageError(f"a backbone may name relative paths without '..' only, got {quoted(text)}")
    path = folder / wanted
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
        raise UsageError(f"a backbone may name files inside the model's folder only, {quoted(text)} lies outside it")
    return path
