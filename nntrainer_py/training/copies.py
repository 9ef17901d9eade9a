"""Copies of weights beside the live ones: of the best epoch, or from before a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.memory.swap_file import PAGE, Slot, SwapFile, pieces


class Copies:
    """A copy of each of some arrays, taken now; in memory, or over a ``file`` of their own.

    Attributes:
        arrays: the copies by name.

    Raises:
        UsageError: the file cannot be made as large as it must be.
    """

    def __init__(self, live: Mapping[str, NDArray[Any]], file: SwapFile | None = None) -> None:
        self._live = dict(live)
        self.arrays = {name: np.empty_like(a) for name, a in live.items()} if file is None else _over(file, self._live)
        self.take()

    def take(self) -> None:
        """Copy what the live arrays hold now."""
        for name, array in self._live.items():
            _copy(array, self.arrays[name])

    def put_back(self) -> None:
        """Give the live arrays what the copies hold."""
        for name, array in self._live.items():
            _copy(self.arrays[name], array)


def _over(file: SwapFile, live: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    slots, size = {}, 0
    for name, array in live.items():
        slots[name] = Slot(array.nbytes, name, size)
        size += -(-max(array.nbytes, 1) // PAGE) * PAGE
    file.reserve(size)
    return {name: file.array(slots[name], array.shape, array.dtype.str) for name, array in live.items()}


def _copy(source: NDArray[Any], target: NDArray[Any]) -> None:
    for read, written in zip(pieces(source), pieces(target), strict=True):
        np.copyto(written, read)
