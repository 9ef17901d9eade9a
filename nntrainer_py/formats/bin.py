"""NNTrainer's weight file (``.bin``): no header, no names; the order is everything.

Layout, little endian: every weight in canonical layer order (a shared one at its train-mode place), raw; then, when
the optimizer is adam and its moments exist, the four bytes ``adam`` and for each trained weight its first and second
moment; then two unsigned 32-bit counters, epoch and iteration.
Source: NNTrainer's ``neuralnet.cpp``; see docs/differences.md.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import WeightFileError, counted
from nntrainer_py.formats.atomic import write_atomically
from nntrainer_py.formats.opened import OpenedFile
from nntrainer_py.memory.swap_file import pieces

ADAM = b"adam"
_MOST_SUMS = 1 << 28  # larger models are read with exactly their own moments or none
Arrays = Mapping[str, NDArray[Any]]


def layout(weights: Arrays, trained: Sequence[str]) -> str:
    """What a file of this model looks like, for messages."""
    size = sum(array.nbytes for array in weights.values())
    moments = 2 * sum(weights[name].nbytes for name in trained)
    return (
        f"{size} bytes of weights ({counted(len(weights), 'tensor')}); "
        f"or {size + 8} with the counters; with Adam's mark {size + 12}, and with Adam's moments {size + 12 + moments}"
    )


def save(
    path: str | os.PathLike[str],
    weights: Arrays,
    *,
    adam: bool = False,
    moments: Mapping[str, tuple[NDArray[Any], NDArray[Any]]] | None = None,
    epoch: int | None = None,
    iteration: int | None = None,
) -> None:
    """Write atomically. ``adam`` writes the mark, ``moments`` follow it; the counters only when ``epoch`` is given."""
    write_atomically(Path(path), _parts(weights, adam, moments, epoch, iteration))


def _parts(
    weights: Arrays,
    adam: bool,
    moments: Mapping[str, tuple[NDArray[Any], NDArray[Any]]] | None,
    epoch: int | None,
    iteration: int | None,
) -> Iterator[bytes | memoryview]:
    for array in weights.values():
        yield from _raw(array)
    if adam:
        yield ADAM
        for array in chain.from_iterable((moments or {}).values()):
            yield from _raw(array)
    if epoch is not None:
        yield np.array([epoch, iteration or 0], "<u4").tobytes()


class BinFile(OpenedFile):
    """An open file that fits a model.

    Files of every optimizer do, whatever the model's own: with or without Adam's moments and the counters. The moments
    of a model in which other layers were frozen are left out: the file does not say whose they are.

    Args:
        weights: names, shapes and types, in .bin order.
        trained: names of those with moments in this model.
        trainable: names of those that would have them if no layer were frozen.

    Attributes:
        has_moments: whether there are moments of ``trained``.
        epoch, iteration: the counters, None where there are none.

    Raises:
        WeightFileError: the size fits none of the layouts; nothing is read then.
    """

    def __init__(
        self, path: str | os.PathLike[str], weights: Arrays, trained: Sequence[str], trainable: Sequence[str] = ()
    ) -> None:
        super().__init__(path)
        self._weights, self._trained = weights, list(trained)
        try:
            self._check(sum(array.nbytes for array in weights.values()), trainable)
        except BaseException:
            self.close()
            raise

    def read_weights_into(self, targets: Arrays) -> None:
        """The weights into arrays of their sizes; takes no memory for them."""
        self._stream.seek(0)
        for name in self._weights:
            self._fill(targets[name])

    def read_moments_into(self, targets: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]) -> None:
        """Both moments of each trained weight, where the file has them."""
        self._stream.seek(self._moments)
        for name in self._trained:
            for target in targets[name]:
                self._fill(target)

    def _check(self, size: int, trainable: Sequence[str]) -> None:
        """Find out what there is in a file of so many bytes; ``size`` are those of the weights."""
        rest = self.size - size
        wanted = f"a weight file of this model has {layout(self._weights, self._trained)}"
        if not 0 <= rest <= 2 * size + 12 or not _fits(rest, self._weights, self._trained, trainable):
            raise self.error(f"{self.size} bytes; {wanted}")
        self.has_moments, self.epoch, self.iteration = False, None, None
        marked = rest not in (0, 8)
        if marked:
            self._stream.seek(size)
            if self._stream.read(len(ADAM)) != ADAM:
                raise self.error(f"{self.size} bytes, but no mark 'adam' at byte {size}; {wanted}")
        self._moments = size + len(ADAM)
        moments = 2 * sum(self._weights[name].nbytes for name in self._trained)
        self.has_moments = marked and moments > 0 and rest in (4 + moments, 12 + moments)
        if rest not in (0, 4, 4 + moments):
            self._stream.seek(self.size - 8)
            counters = self._stream.read(8)
            if len(counters) < 8:
                raise self._changed()
            self.epoch, self.iteration = (int(number) for number in np.frombuffer(counters, "<u4"))

    def _fill(self, target: NDArray[Any]) -> None:
        for piece in pieces(target):
            stored = piece if sys.byteorder == "little" else np.empty_like(piece)
            if self._stream.readinto(stored.view(np.uint8).data) != stored.nbytes:
                raise self._changed()
            if stored is not piece:
                piece[...] = stored.byteswap()

    def _changed(self) -> WeightFileError:
        return self.error("changed while it was read")


def _fits(rest: int, weights: Arrays, trained: Sequence[str], trainable: Sequence[str]) -> bool:
    """Whether what follows the weights has a size that some optimizer and some choice of frozen layers gives."""
    moments = 2 * sum(weights[name].nbytes for name in trained)
    if rest in (0, 8, 4, 12, 4 + moments, 12 + moments):
        return True
    layers: dict[str, int] = {}
    for name in trainable:
        layer = name.partition(":")[0]
        layers[layer] = layers.get(layer, 0) + 2 * weights[name].nbytes
    return _is_sum_of_some(rest - 12, list(layers.values()))


def _is_sum_of_some(total: int, sizes: Sequence[int]) -> bool:
    """Whether some of the sizes add up to the total, found by marking every sum that can be had."""
    unit = math.gcd(*sizes) or 1
    if not 0 < total <= sum(sizes) or total % unit or sum(sizes) // unit > _MOST_SUMS:
        return False
    sums = 1  # bit n: n units can be had
    for size in sizes:
        sums |= sums << (size // unit)
    return bool(sums >> (total // unit) & 1)


def _raw(array: NDArray[Any]) -> Iterator[memoryview]:
    stored = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return (piece.view(np.uint8).data for piece in pieces(stored))
