"""Texts of many samples, each text kept once."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

_PIECE = 1 << 14  # samples


class Series:
    """Numbers that come one after the other, at most ``capacity`` of them.

    Memory is taken as they come (what is not written to yet is only promised), and never moved: growing by copying
    would take it twice.
    """

    def __init__(self, typecode: str, capacity: int) -> None:
        self.recent: array[Any] = array(typecode)  # appended to by the owner, who says `keep` now and then
        self._all = np.empty(capacity, dtype=np.dtype(typecode))
        self._count = 0

    def __len__(self) -> int:
        return self._count + len(self.recent)

    def keep(self, least: int = _PIECE) -> None:
        """Put away the recent numbers, when there are ``least`` of them."""
        if len(self.recent) < least:
            return
        end = self._count + len(self.recent)
        self._all[self._count : end] = np.frombuffer(self.recent, dtype=self._all.dtype)
        self._count = end
        del self.recent[:]

    def all(self) -> npt.NDArray[Any]:
        """All of them."""
        self.keep(1)
        return self._all[: self._count]


class Texts(Sequence[str]):
    """One text a sample.

    Args:
        known: the different texts, in the order of their first sample.
        codes: int32, the place of the text of each sample in ``known``.
    """

    def __init__(self, known: Sequence[str], codes: npt.NDArray[np.int32]) -> None:
        self.known = tuple(known)
        self.codes = codes

    @classmethod
    def of(cls, values: npt.NDArray[Any]) -> Texts:
        """Of an array of text."""
        flat = values.reshape(-1)
        index: dict[str, int] = {}
        codes = np.empty(len(flat), dtype=np.int32)
        for start in range(0, len(flat), _PIECE):
            piece = flat[start : start + _PIECE]
            different, first, place = np.unique(piece.astype(str, copy=False), return_index=True, return_inverse=True)
            known = np.empty(len(different), dtype=np.int32)
            for k in np.argsort(first).tolist():
                known[k] = index.setdefault(str(different[k]), len(index))
            codes[start : start + _PIECE] = known[place.reshape(-1)]
        return cls(tuple(index), codes)

    @property
    def nbytes(self) -> int:
        """Memory that they take."""
        return int(self.codes.nbytes) + sys.getsizeof(self.known) + sum(map(sys.getsizeof, self.known))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, sample: Any) -> Any:
        if isinstance(sample, slice):
            return [self.known[code] for code in self.codes[sample].tolist()]
        return self.known[int(self.codes[sample])]

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self.codes), _PIECE):
            yield from self[start : start + _PIECE]

    def first(self, place: int) -> int:
        """The first sample with the text ``known[place]``."""
        return int(np.argmax(self.codes == place))
