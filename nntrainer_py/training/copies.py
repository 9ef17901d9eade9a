"""Copies of weights beside the live ones: of the best epoch, or from before a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.memory.swap_file import PAGE, Slot, SwapFile, pieces
from nntrainer_py.training.trainee import Trainee


class Copies:
    """Room for a copy of each of some arrays, in memory or over a ``file`` of their own; `take` makes the copies.

    Attributes:
        arrays: the room by name; what it holds before the first copy is of no use.

    Raises:
        UsageError: the file cannot be made as large as it must be.
    """

    def __init__(self, live: Mapping[str, NDArray[Any]], file: SwapFile | None = None) -> None:
        self._live = dict(live)
        self.arrays = {name: np.empty_like(a) for name, a in live.items()} if file is None else _over(file, self._live)

    def take(self) -> None:
        """Copy what the live arrays hold now."""
        for name, array in self._live.items():
            _copy(array, self.arrays[name])

    def put_back(self) -> None:
        """Give the live arrays what the copies hold."""
        for name, array in self._live.items():
            _copy(self.arrays[name], array)


def copies_of(model: Trainee, arrays: Mapping[str, NDArray[Any]]) -> Copies:
    """Room for copies of arrays of a model; not in memory but in a file in the swap folder where its memory is limited.

    Raises:
        UsageError: the file cannot be made, at the place of ``fsu_path``.
    """
    if not model.compiled.limited:
        return Copies(arrays)
    model.require_swap_file("train", copies=sum(_room(array) for array in arrays.values()))
    return Copies(arrays, model.compiled.plans.new_file())


def _room(array: NDArray[Any]) -> int:
    """Bytes in the file."""
    return -(-max(array.nbytes, 1) // PAGE) * PAGE


def _over(file: SwapFile, live: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    slots, size = {}, 0
    for name, array in live.items():
        slots[name] = Slot(array.nbytes, name, size)
        size += _room(array)
    file.reserve(size)
    return {name: file.array(slots[name], array.shape, array.dtype.str) for name, array in live.items()}


def _copy(source: NDArray[Any], target: NDArray[Any]) -> None:
    for read, written in zip(pieces(source), pieces(target), strict=True):
        np.copyto(written, read)
