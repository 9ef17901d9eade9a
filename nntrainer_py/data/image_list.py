"""The pictures of a data set: their names, classes and places, in a few bytes each."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_CHUNK = 4096  # pictures


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture: its file, the name of its class ("" for none), and the line of the list file, 0 for a folder."""

    path: Path
    label: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Names one after the other, and for each where it ends, its class, and its line."""

    names: bytes
    numbers: npt.NDArray[np.int32]  # (3, pictures)


class PictureList(Sequence[Picture]):
    """Pictures, appended one after the other.

    Args:
        folder: that names are relative to.
        by_class: whether each lies in the folder of its class.
    """

    def __init__(self, folder: Path, *, by_class: bool) -> None:
        self._folder = folder
        self._by_class = by_class
        self._codes: dict[str, int] = {}
        self._labels: list[str] = []
        self._chunks: list[_Chunk] = []
        self._names = bytearray()
        self._numbers: tuple[array[Any], ...] = (array("i"), array("i"), array("i"))

    @property
    def labels(self) -> list[str]:
        """The different classes, in the order of their first picture."""
        return list(self._labels)

    @property
    def nbytes(self) -> int:
        """Memory that the list takes."""
        kept = sum(len(chunk.names) + chunk.numbers.nbytes for chunk in self._chunks)
        return kept + len(self._names) + sum(4 * len(numbers) for numbers in self._numbers)

    def append(self, name: str, label: str, line: int = 0) -> Picture:
        """Add a picture by its name, relative to the folder or to that of its class; the picture."""
        self._names += os.fsencode(name)
        code = self._codes.setdefault(label, len(self._codes))
        if code == len(self._labels):
            self._labels.append(label)
        for numbers, number in zip(self._numbers, (len(self._names), code, line), strict=True):
            numbers.append(number)
        if len(self._numbers[0]) == _CHUNK:
            self._chunks.append(_Chunk(bytes(self._names), np.array(self._numbers, dtype=np.int32)))
            self._names.clear()
            for numbers in self._numbers:
                del numbers[:]
        return self._picture(name, label, line)

    def first(self, label: str) -> int:
        """The first picture of a class."""
        code = self._codes[label]
        for number, chunk in enumerate(self._chunks):
            found = np.flatnonzero(chunk.numbers[1] == code)
            if len(found):
                return number * _CHUNK + int(found[0])
        return len(self._chunks) * _CHUNK + self._numbers[1].index(code)

    def __len__(self) -> int:
        return len(self._chunks) * _CHUNK + len(self._numbers[0])

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[k] for k in range(*number.indices(len(self)))]
        if not 0 <= number < len(self):
            raise IndexError(f"there are {len(self)} pictures, got the number {number}")
        place, row = divmod(number, _CHUNK)
        names: bytes | bytearray = self._names
        ends, codes, lines = self._numbers
        if place < len(self._chunks):
            names, (ends, codes, lines) = self._chunks[place].names, self._chunks[place].numbers
        begin = int(ends[row - 1]) if row else 0
        label = self._labels[int(codes[row])]
        return self._picture(os.fsdecode(bytes(names[begin : int(ends[row])])), label, int(lines[row]))

    def __iter__(self) -> Iterator[Picture]:
        return (self[k] for k in range(len(self)))

    def _picture(self, name: str, label: str, line: int) -> Picture:
        folder = self._folder / label if self._by_class else self._folder
        return Picture(folder / name, label, line)
