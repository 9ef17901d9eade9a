"""Arrays in files: mapped, and read without leaving the pages of the file in the memory of the process.

Pages of a map that were touched count as resident memory until the system takes them back, so that a pass over a large
file would look as if all of it had been loaded. Rows of batches are therefore read with ``preadv``, and whoever walks
through the map itself lets go of the pages behind.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from nntrainer_py.data.files import reason
from nntrainer_py.errors import DataError, printable

AnyArray = npt.NDArray[Any]

FAULT_BYTES = 1 << 19  # Linux may bring in so much around a page that is touched: blocks of its cache, not single pages
_CAN_READ = hasattr(os, "preadv")


class FileMap(np.memmap[Any, Any]):
    """A read-only map that this package made: nobody's changes are lost with its pages."""

    file: OpenFile | None = None


class OpenFile:
    """A file that stays open for as long as somebody holds this.

    Args:
        path: for messages.
        descriptor: closed with the object.
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def __del__(self) -> None:
        os.close(self._descriptor)

    def read(self, buffers: Sequence[memoryview], start: int, size: int) -> None:
        """Fill ``buffers`` of bytes, ``size`` together, from byte ``start`` on; DataError when the file is shorter."""
        try:
            done = os.preadv(self._descriptor, buffers, start)
            if done != size:
                self._read_rest(list(buffers), start, done)
        except OSError as error:
            raise DataError(f"{printable(str(self._path))}: {reason(error)}") from None

    def read_rows(self, targets: Sequence[memoryview], sizes: Sequence[int], starts: Iterable[int]) -> None:
        """Fill, for each byte of ``starts``, the next ``sizes`` bytes of ``targets``, one target after the other."""
        preadv, descriptor, whole = os.preadv, self._descriptor, sum(sizes)
        places = [0] * len(sizes)
        try:
            for start in starts:
                pieces = [target[at : at + size] for target, at, size in zip(targets, places, sizes, strict=True)]
                done = preadv(descriptor, pieces, start)
                if done != whole:
                    self._read_rest(pieces, start, done)
                places = [at + size for at, size in zip(places, sizes, strict=True)]
        except OSError as error:
            raise DataError(f"{printable(str(self._path))}: {reason(error)}") from None

    def _read_rest(self, buffers: list[memoryview], start: int, done: int) -> None:
        """Go on after a read that gave less than asked for: the system caps one at 2 GiB."""
        position = start + done
        for buffer in buffers:
            rest = buffer[min(done, len(buffer)) :]
            done -= len(buffer) - len(rest)
            while len(rest):
                count = os.preadv(self._descriptor, [rest], position)
                if not count:
                    raise DataError(f"{printable(str(self._path))}: the file became shorter while it was in use")
                position += count
                rest = rest[count:]


def map_file(
    path: Path, dtype: npt.DTypeLike, offset: int, shape: tuple[int, ...], order: Literal["C", "F"] = "C"
) -> AnyArray:
    """The array of ``shape`` at byte ``offset`` of a file, read only; OSError or ValueError when that cannot be."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    file = OpenFile(path, descriptor)
    with os.fdopen(os.dup(descriptor), "rb") as stream:
        mapped = FileMap(stream, dtype=dtype, mode="r", offset=offset, shape=shape, order=order)
    mapped.file = file
    return np.asarray(mapped)


def map_of(array: AnyArray) -> FileMap | None:
    """The map of ours that an array is, or is part of."""
    base: Any = array
    while base is not None and not isinstance(base, FileMap):
        base = getattr(base, "base", None)
    return base


def release(array: AnyArray) -> None:
    """Let go of the pages that reading an array brought in, where it lies in a map of ours."""
    found = map_of(array)
    pages: mmap.mmap | None = None if found is None else getattr(found, "_mmap", None)
    if pages is not None and hasattr(mmap, "MADV_DONTNEED"):
        pages.madvise(mmap.MADV_DONTNEED)


class StoredRows:
    """The rows of an array (samples, ...) in a file, C-contiguous, read from it and not through the map."""

    def __init__(self, file: OpenFile, start: int, row_bytes: int) -> None:
        self._file = file
        self._start = start
        self._row_bytes = row_bytes

    @classmethod
    def of(cls, array: AnyArray) -> StoredRows | None:
        """None for an array that lies elsewhere, or in another order."""
        mapped = map_of(array)
        if mapped is None or mapped.file is None or not _CAN_READ or not array.flags.c_contiguous or not len(array):
            return None
        start = int(mapped.offset) + _address(array) - _address(mapped)
        return cls(mapped.file, start, array.nbytes // len(array))

    def read_run(self, first: int, target: memoryview) -> None:
        """Fill ``target``, bytes, with the rows from ``first`` on."""
        self._file.read([target], self._start + first * self._row_bytes, len(target))

    def read_each(self, rows: list[int], targets: Sequence[memoryview], sizes: Sequence[int], skip: int = 0) -> None:
        """Fill each target, bytes, with its ``sizes`` bytes of every row; they follow each other from ``skip`` on."""
        first, step = self._start + skip, self._row_bytes
        self._file.read_rows(targets, sizes, (first + row * step for row in rows))


def _address(array: AnyArray) -> int:
    return int(array.__array_interface__["data"][0])
