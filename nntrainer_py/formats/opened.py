"""A weight file that is open for reading."""

from __future__ import annotations

import os
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Self

from nntrainer_py.errors import WeightFileError, printable


class OpenedFile:
    """To be used in a ``with`` statement. ``size`` are its bytes.

    Raises:
        WeightFileError: not a file, or one that cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._stream = self._open()
        self.size = os.fstat(self._stream.fileno()).st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back the file."""
        self._stream.close()

    def error(self, message: str) -> WeightFileError:
        """An error that names the file."""
        return WeightFileError(f"{printable(str(self.path))}: {message}")

    def _open(self) -> BufferedReader:
        try:
            if not self.path.is_file():
                raise self.error("not a file" if self.path.exists() else "no such file")
            return open(self.path, "rb")
        except OSError as error:
            raise self.error(f"cannot be read: {error.strerror}") from None
        except ValueError:  # a path with a zero byte
            raise self.error("no such file") from None
