"""MNIST's own format: a big-endian header (type, number of axes, sizes), then the values; plain or gzipped."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.data.arrays import ArrayDataset
from nntrainer_py.data.file_map import map_file, map_of
from nntrainer_py.data.files import checked_file, reason
from nntrainer_py.errors import DataError, Origin, printable

_TYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MOST_AXES = 4
_DEFLATE_RATIO = 1032  # deflate cannot pack better than this
_CHUNK = 1 << 20


class IdxDataset(ArrayDataset):
    """Images and labels in two idx files, memory-mapped when not gzipped. Pixels keep their values (0..255).

    Args:
        path: the images, for example train-images-idx3-ubyte.gz.
        label_path: the labels; by default the file beside it whose name says labels-idx1 for images-idx3.
    """

    kind = "idx"

    def __init__(
        self,
        path: str | os.PathLike[str],
        label_path: str | os.PathLike[str] | None = None,
        *,
        origin: Origin | None = None,
        key: str = "",
    ) -> None:
        images = checked_file(path, origin=origin, key=key)
        found = Path(label_path) if label_path is not None else labels_beside(images)
        labels = checked_file(found, origin=origin, key=key and "label_path") if found is not None else None
        try:
            arrays = read_idx(images), read_idx(labels) if labels is not None else None
            super().__init__(arrays[0], arrays[1], str(path))
        except DataError as error:
            raise error.located(origin, key) from None
        self.path, self.label_path = images, labels
        self.resident_bytes += sum(array.nbytes for array in arrays if array is not None and map_of(array) is None)
        self.origin, self.key = origin, key


def labels_beside(images: Path) -> Path | None:
    """The labels that belong to an image file of MNIST's naming, if they are there."""
    for old, new in (("images-idx3", "labels-idx1"), ("images.idx3", "labels.idx1"), ("images", "labels")):
        if old in images.name:
            guess = images.with_name(images.name.replace(old, new))
            return next((p for p in (guess, guess.with_suffix(""), Path(f"{guess}.gz")) if p.is_file()), None)
    return None


def read_idx(path: Path) -> npt.NDArray[Any]:
    """The array of an idx file; the header is held against the size of the file before any memory is taken."""
    name = printable(str(path))
    try:
        with path.open("rb") as stream:
            packed = stream.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else path.open("rb") as source:
            shape, dtype, start = _header(source, name)
            needed = dtype.itemsize
            for size in shape:
                needed *= size
            stored = path.stat().st_size
            if packed:
                if needed > _DEFLATE_RATIO * stored:
                    raise DataError(f"{name}: {stored} packed bytes cannot hold the {needed} bytes of an array {shape}")
                return _unpack(source, shape, dtype, needed, name)
            if needed != stored - start:
                raise DataError(f"{name}: an array {shape} takes {needed} bytes, the file has {stored - start}")
        return map_file(path, dtype, start, shape)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name}: is damaged: {error}") from None
    except OSError as error:
        raise DataError(f"{name}: {reason(error)}") from None


def _header(source: Any, name: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    start = source.read(4)
    if len(start) < 4 or start[:2] != b"\0\0" or start[2] not in _TYPES:
        raise DataError(f"{name}: is no idx file (begins with {start.hex(' ')})")
    axes = start[3]
    if not 1 <= axes <= _MOST_AXES:
        raise DataError(f"{name}: expected 1 to {_MOST_AXES} axes, the header says {axes}")
    sizes = source.read(4 * axes)
    if len(sizes) < 4 * axes:
        raise DataError(f"{name}: is cut off in the header")
    shape = struct.unpack(f">{axes}I", sizes)
    if 0 in shape:
        raise DataError(f"{name}: there is no sample in it (shape {shape})")
    return shape, np.dtype(_TYPES[start[2]]), 4 + 4 * axes


def _unpack(source: Any, shape: tuple[int, ...], dtype: np.dtype[Any], needed: int, name: str) -> npt.NDArray[Any]:
    data = bytearray()
    while len(data) < needed:  # grows with what really comes out, whatever the header promised
        part = source.read(min(_CHUNK, needed - len(data)))
        if not part:
            raise DataError(f"{name}: is cut off: an array {shape} takes {needed} bytes, {len(data)} are there")
        data += part
    if source.read(1):
        raise DataError(f"{name}: holds more than the array {shape} of its header")
    return np.frombuffer(data, dtype=dtype).reshape(shape)
