"""NNTrainer's weight file (``.bin``): no header, no names; the order is everything.

Layout, little endian: every weight in canonical layer order (a shared one at its train-mode place), raw; then, when
the optimizer is adam and its moments exist, the four bytes ``adam`` and for each trained weight its first and second
moment; then two unsigned 32-bit counters, epoch and iteration.
Source: NNTrainer's ``neuralnet.cpp``; see docs/differences.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import WeightFileError
from nntrainer_py.formats.atomic import write_atomically

ADAM = b"adam"
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
        f"{size} bytes of weights ({len(weights)} tensors); or {size + 8} with the counters; with Adam's mark "
        f"{size + 12}, and with Adam's moments {size + 12 + moments}"
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


def load(path: str | os.PathLike[str], weights: Arrays, trained: Sequence[str]) -> BinFile:
    """Read a file of a model with these weights (names, shapes and types, in .bin order).

    Files of every optimizer are read, whatever the model's own: with or without Adam's moments and the counters.
    Raises WeightFileError when the size fits none of the layouts; reads nothing larger than the largest of them.
    """
    path = Path(path)
    size = sum(array.nbytes for array in weights.values())
    moments = 2 * sum(weights[name].nbytes for name in trained)
    try:
        if not path.is_file():
            raise WeightFileError(f"{path}: not a file" if path.exists() else f"{path}: no such file")
        found = path.stat().st_size
        if found not in (size, size + 8, size + 12, size + 12 + moments, size + 4, size + 4 + moments):
            raise WeightFileError(f"{path}: {found} bytes; a weight file of this model has {layout(weights, trained)}")
        data = path.read_bytes()
    except OSError as error:
        raise WeightFileError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) != found:
        raise WeightFileError(f"{path}: changed while it was read")
    return _parse(path, data, size, moments, weights, trained)


def _parse(path: Path, data: bytes, size: int, moments: int, weights: Arrays, trained: Sequence[str]) -> BinFile:
    position = 0

    def take(like: NDArray[Any]) -> NDArray[Any]:
        nonlocal position
        array = np.frombuffer(data, like.dtype.newbyteorder("<"), like.size, position).reshape(like.shape)
        position += like.nbytes
        return array

    result = BinFile({name: take(array) for name, array in weights.items()})
    rest = len(data) - size
    if rest in (4, 12, 4 + moments, 12 + moments):
        if data[position : position + 4] != ADAM:
            raise WeightFileError(
                f"{path}: {len(data)} bytes, but no mark 'adam' at byte {position}; "
                f"a weight file of this model has {layout(weights, trained)}"
            )
        position += 4
        if moments and rest >= 4 + moments:
            result.moments = {name: (take(weights[name]), take(weights[name])) for name in trained}
    if len(data) - position == 8:
        result.epoch, result.iteration = (int(n) for n in np.frombuffer(data, "<u4", 2, position))
    return result


def _raw(array: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
