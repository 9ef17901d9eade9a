"""Opening a user's file: a clear error when it is missing, empty, a folder, unreadable or of quite another format."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from nntrainer_py.errors import DataError, Origin, printable

_MAGIC = {
    b"PK\x03\x04": "a zip or npz archive (type = npz)",
    b"\x93NUMPY": "a NumPy array (type = npy)",
    b"\x1f\x8b": "gzip data; unpack it first (MNIST's idx files may stay packed: type = idx)",
    b"\x89PNG": "a PNG image (type = image_folder takes folders of them)",
    b"\x28\xb5\x2f\xfd": "zstandard data; unpack it first",
    b"BZh": "bzip2 data; unpack it first",
    b"\xfd7zXZ": "xz data; unpack it first",
}


def checked_file(path: str | os.PathLike[str], *, origin: Origin | None = None, key: str = "") -> Path:
    """``path`` when it is a regular file that can be read and is not empty; DataError, which names it, otherwise."""
    file = Path(path)

    def refused(what: str) -> DataError:
        return DataError(f"{printable(str(file))}: {what}", origin=origin, key=key)

    if "\0" in str(file):
        raise refused("a path cannot contain a zero byte")
    try:
        status = os.stat(file)
        if stat.S_ISDIR(status.st_mode):
            raise refused("is a folder, a file was expected")
        if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
            raise refused("is not a regular file")
        with file.open("rb"):
            pass
    except OSError as error:
        raise refused(reason(error)) from None
    if not status.st_size:
        raise refused("the file is empty")
    return file


def checked_folder(path: str | os.PathLike[str], *, origin: Origin | None = None, key: str = "") -> Path:
    """``path`` when it is a folder that can be listed; DataError, which names it, otherwise."""
    folder = Path(path)
    try:
        with os.scandir(folder):
            pass
    except OSError as error:
        raise DataError(f"{printable(str(folder))}: {reason(error)}", origin=origin, key=key) from None
    return folder


def reason(error: OSError) -> str:
    """The system's words without number and path: ``no such file or directory``."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def known_format(file: Path) -> str | None:
    """What ``file`` seems to be, going by its first bytes; None for anything else."""
    with file.open("rb") as stream:
        start = stream.read(8)
    return next((what for magic, what in _MAGIC.items() if start.startswith(magic)), None)
