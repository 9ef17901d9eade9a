"""NNTrainer's weight file (``.bin``): no header, no names; the order is everything.

Layout, little endian: every weight in canonical layer order (a shared one at its train-mode place), raw; then, when
the optimizer is adam and its moments exist, the four bytes ``adam`` and for each trained weight its first and second
moment; then two unsigned 32-bit counters, epoch and iteration.
Source: NNTrainer's ``neuralnet.cpp``; see docs/differences.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import WeightFileError, counted
from nntrainer_py.formats.atomic import write_atomically

ADAM = b"adam"
_MOST_SUMS = 1 << 28  # larger models are read with exactly their own moments or none
Arrays = Mapping[str, NDArray[Any]]


@dataclass(slots=True)
class BinFile:
    """Contents of a file as far as it has them."""

    weights: dict[str, NDArray[Any]]
    moments: dict[str, tuple[NDArray[Any], NDArray[Any]]] = field(default_factory=dict)
    epoch: int | None = None
    iteration: int | None = None


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
    parts: list[bytes | memoryview] = [_raw(array) for array in weights.values()]
    if adam:
        parts.append(ADAM)
        for first, second in (moments or {}).values():
            parts += [_raw(first), _raw(second)]
    if epoch is not None:
        parts.append(np.array([epoch, iteration or 0], "<u4").tobytes())
    write_atomically(Path(path), parts)


def load(
    path: str | os.PathLike[str], weights: Arrays, trained: Sequence[str], trainable: Sequence[str] = ()
) -> BinFile:
    """Read a file of a model with these weights (names, shapes and types, in .bin order).

    ``trained`` are those with moments in this model, ``trainable`` those that would have them if no layer were frozen.

    Files of every optimizer are read, whatever the model's own: with or without Adam's moments and the counters. The
    moments of a model in which other layers were frozen are left out: the file does not say whose they are.
    Raises WeightFileError when the size fits none of the layouts; reads nothing larger than the largest of them.
    """
    path = Path(path)
    size = sum(array.nbytes for array in weights.values())
    try:
        if not path.is_file():
            raise WeightFileError(f"{path}: not a file" if path.exists() else f"{path}: no such file")
        found = path.stat().st_size
        if not size <= found <= 3 * size + 12 or not _fits(found - size, weights, trained, trainable):
            raise WeightFileError(f"{path}: {found} bytes; a weight file of this model has {layout(weights, trained)}")
        data = path.read_bytes()
    except OSError as error:
        raise WeightFileError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) != found:
        raise WeightFileError(f"{path}: changed while it was read")
    return _parse(path, data, size, weights, trained)


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


def _parse(path: Path, data: bytes, size: int, weights: Arrays, trained: Sequence[str]) -> BinFile:
    position = 0

    def take(like: NDArray[Any]) -> NDArray[Any]:
        nonlocal position
        array = np.frombuffer(data, like.dtype.newbyteorder("<"), like.size, position).reshape(like.shape)
        position += like.nbytes
        return array

    result = BinFile({name: take(array) for name, array in weights.items()})
    rest = len(data) - size
    if rest not in (0, 8):
        if data[position : position + 4] != ADAM:
            raise WeightFileError(
                f"{path}: {len(data)} bytes, but no mark 'adam' at byte {position}; "
                f"a weight file of this model has {layout(weights, trained)}"
            )
        position += 4
        moments = 2 * sum(weights[name].nbytes for name in trained)
        if moments and rest in (4 + moments, 12 + moments):
            result.moments = {name: (take(weights[name]), take(weights[name])) for name in trained}
        elif rest != 4:
            position = len(data) - 8
    if len(data) - position == 8:
        result.epoch, result.iteration = (int(n) for n in np.frombuffer(data, "<u4", 2, position))
    return result


def _raw(array: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
