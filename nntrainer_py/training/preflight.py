"""What can be known to go wrong with writing before the first step."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from nntrainer_py.errors import WeightFileError
from nntrainer_py.formats.atomic import PREFIX


def check_writable(path: Path, nbytes: int) -> None:
    """WeightFileError, with the cause, unless a file of ``nbytes`` can be put at ``path`` beside what is there."""
    folder = path.parent
    if path.is_dir():
        raise WeightFileError(f"{path}: cannot be written: it is a folder")
    if not folder.is_dir():
        what = "is no folder" if folder.exists() else "does not exist"
        raise WeightFileError(f"{path}: cannot be written: the folder {folder} {what}")
    try:
        handle, probe = tempfile.mkstemp(prefix=PREFIX, dir=folder)
        os.close(handle)
        os.unlink(probe)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise WeightFileError(f"{path}: cannot be written: {error.strerror}") from None
    if free < nbytes:
        raise WeightFileError(f"{path}: {nbytes} bytes are needed, {free} are free on the disk")
