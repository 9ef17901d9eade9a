"""NumPy's files: ``.npy`` and the named arrays of ``.npz``, memory-mapped unless compressed, never unpickled."""

from __future__ import annotations

import lzma
import os
import struct
import warnings
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy_format

from nntrainer_py.data.arrays import ArrayDataset
from nntrainer_py.data.file_map import map_file
from nntrainer_py.data.files import checked_file, reason
from nntrainer_py.data.rows import TableDataset
from nntrainer_py.errors import DataError, Origin, did_you_mean, printable, quoted

AnyArray = npt.NDArray[Any]

INPUT_NAMES = ("x", "inputs", "input", "features", "data", "images", "image")
LABEL_NAMES = ("y", "labels", "label", "targets", "target")
ROLES = {"train": ("train",), "valid": ("valid", "val", "validation"), "test": ("test",)}

_MOST_MEMBERS = 1024
_LONGEST_HEADER = 1 << 16
_FREE_BYTES = 1 << 26  # a compressed array may unpack to so much whatever its ratio
_MOST_RATIO = 200
_CHUNK = 1 << 20
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # of a zip member: signature, length of the name, length of the extra field


class NpyDataset(TableDataset):
    """A ``.npy`` file (samples, width), each row all inputs and then all labels, memory-mapped.

    For inputs and labels in two files see `open_npy`.
    """

    kind = "npy"

    def __init__(self, path: str | os.PathLike[str], *, origin: Origin | None = None, key: str = "") -> None:
        file = checked_file(path, origin=origin, key=key)
        try:
            table = _row_table(map_npy(file), str(file))
            super().__init__(table, str(path))
        except DataError as error:
            raise error.located(origin, key) from None
        self.path = file
        self.origin, self.key = origin, key


class NpzDataset(ArrayDataset):
    """An ``.npz`` archive of named arrays; stored members are memory-mapped, compressed ones are unpacked into memory.

    Args:
        path: the archive.
        inputs, labels: names of the arrays in model order. By default x, or x0, x1, ... (also inputs, features,
            data, images) and y, or y0, ... (labels, targets); with ``role``, x_train and so on as well. Labels may
            be missing.
        role: "train", "valid" or "test".
    """

    kind = "npz"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        inputs: Sequence[str] | None = None,
        labels: Sequence[str] | None = None,
        role: str | None = None,
        origin: Origin | None = None,
        key: str = "",
    ) -> None:
        file = checked_file(path, origin=origin, key=key)
        try:
            with _Archive(file) as archive:
                first = list(inputs) if inputs is not None else _choose(archive.names, INPUT_NAMES, role)
                if not first:
                    raise DataError(
                        f"{printable(str(file))}: there is no array called x, inputs or data, "
                        f"only {', '.join(map(printable, archive.names)) or 'nothing'}; name the inputs"
                    )
                second = list(labels) if labels is not None else _choose(archive.names, LABEL_NAMES, role)
                arrays = [archive.load(name) for name in first], [archive.load(name) for name in second]
                unpacked = archive.unpacked
            super().__init__(arrays[0], arrays[1] or None, str(path))
        except DataError as error:
            raise error.located(origin, key) from None
        self.path = file
        self.origin, self.key = origin, key
        self.resident_bytes += unpacked
        if unpacked:
            self.remarks.append(
                f"{self.name}: compressed arrays were unpacked into {unpacked} bytes of memory; "
                "numpy.savez instead of savez_compressed would leave them on disk"
            )


def open_npy(
    path: str | os.PathLike[str],
    label_path: str | os.PathLike[str] | None = None,
    *,
    origin: Origin | None = None,
    key: str = "",
) -> NpyDataset | ArrayDataset:
    """Rows of inputs and labels in one file, or inputs (samples, ...) and labels (samples, ...) in two."""
    if label_path is None:
        return NpyDataset(path, origin=origin, key=key)
    files = (
        checked_file(path, origin=origin, key=key),
        checked_file(label_path, origin=origin, key=key and "label_path"),
    )
    try:
        data = ArrayDataset(map_npy(files[0]), map_npy(files[1]), str(path))
    except DataError as error:
        raise error.located(origin, key) from None
    data.origin, data.key = origin, key
    return data


def map_npy(path: Path) -> AnyArray:
    """The array of a ``.npy`` file, memory-mapped; DataError for anything else, arrays of objects included."""
    name = printable(str(path))
    try:
        with path.open("rb") as stream:
            shape, fortran, dtype = read_header(stream, name)
            start = stream.tell()
            return _map(path, start, os.fstat(stream.fileno()).st_size - start, shape, fortran, dtype, name)
    except OSError as error:
        raise DataError(f"{name}: {reason(error)}") from None


def read_header(stream: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran order, and type of the array that follows; DataError for a bad or unsafe header."""
    try:
        version = npy_format.read_magic(stream)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"version {version[0]}.{version[1]} of the format is not known")
        read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # headers written by Python 2 are read all the same
            shape, fortran, dtype = read(stream, max_header_size=_LONGEST_HEADER)
    except Exception as error:  # NumPy lets out whatever its tokenizer, its parser and the stream below raise
        words = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{name}: is no NumPy array file: {words}") from None
    if dtype.hasobject or dtype.names is not None or dtype.kind not in "fiubU":
        raise DataError(f"{name}: expected an array of real numbers, got {dtype}")
    if any(isinstance(size, bool) or size < 0 for size in shape):
        raise DataError(f"{name}: has an impossible shape {shape}")
    return shape, fortran, dtype


def _byte_count(shape: Iterable[int], dtype: np.dtype[Any]) -> int:
    total = dtype.itemsize
    for size in shape:
        total *= int(size)  # Python integers: cannot overflow
    return total


def _map(
    path: Path, start: int, available: int, shape: tuple[int, ...], fortran: bool, dtype: np.dtype[Any], name: str
) -> AnyArray:
    needed = _byte_count(shape, dtype)
    if needed > available:
        raise DataError(f"{name}: is cut off: an array {shape} of {dtype} takes {needed} bytes, {available} are there")
    if not needed:
        raise DataError(f"{name}: the array is empty (shape {shape})")
    return map_file(path, dtype, start, shape, "F" if fortran else "C")


def _row_table(array: AnyArray, name: str) -> AnyArray:
    if array.ndim != 2 or array.dtype.kind == "U":
        raise DataError(
            f"{printable(name)}: expected a table of samples by values, got an array of shape {array.shape} of "
            f"{array.dtype}; inputs of another shape need their labels in a second file (label_path)"
        )
    return array


def _choose(names: Sequence[str], known: Sequence[str], role: str | None) -> list[str]:
    """The arrays meant by convention: one, or several numbered from 0."""
    lower = {name.lower(): name for name in names}
    ends = [""] if role is None else [*(f"_{word}" for word in ROLES[role]), ""]
    for end in ends:
        for word in known:
            if word + end in lower:
                return [lower[word + end]]
            numbered: list[str] = []
            while f"{word}{len(numbered)}{end}" in lower:
                numbered.append(lower[f"{word}{len(numbered)}{end}"])
            if numbered:
                return numbered
    return []


class _Archive:
    """The members of an npz file, read so that a hostile one can neither run code nor fill the memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = printable(str(path))
        self.unpacked = 0
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError, struct.error) as error:
            raise DataError(f"{self._name}: is no npz archive: {error}") from None
        members = self._zip.infolist()
        if len(members) > _MOST_MEMBERS:
            raise DataError(f"{self._name}: has {len(members)} members, more than {_MOST_MEMBERS}")
        self._members = {
            info.filename.removesuffix(".npy"): info for info in members if not info.filename.endswith("/")
        }
        if len(self._members) != len(members):
            raise DataError(f"{self._name}: two members have the same name, or one is a folder")

    @property
    def names(self) -> list[str]:
        """Names of the arrays, in the order of the archive."""
        return list(self._members)

    def __enter__(self) -> _Archive:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def load(self, name: str) -> AnyArray:
        """The array ``name``; DataError when there is none, or it is damaged, unsafe or absurdly large."""
        info = self._members.get(name)
        if info is None:
            known = ", ".join(map(printable, self._members)) or "none"
            raise DataError(
                f"{self._name}: there is no array {quoted(name)}{did_you_mean(name, self._members)}; there are: {known}"
            )
        label = f"{self._name}: array {quoted(name)}"
        try:
            with self._zip.open(info) as stream:
                shape, fortran, dtype = read_header(stream, label)
                start = stream.tell()
                if info.compress_type != zipfile.ZIP_STORED:
                    return self._unpack(stream, info, start, shape, fortran, dtype, label)
            return self._map_stored(info, start, shape, fortran, dtype, label)
        except (zipfile.BadZipFile, zipfile.LargeZipFile) as error:
            raise DataError(f"{label}: is damaged: {error}") from None
        except (
            zlib.error,
            lzma.LZMAError,
            OSError,
            RuntimeError,
            NotImplementedError,
            EOFError,
            ValueError,
            struct.error,
        ) as error:
            raise DataError(f"{label}: cannot be read: {error}") from None

    def _map_stored(
        self, info: zipfile.ZipInfo, start: int, shape: tuple[int, ...], fortran: bool, dtype: np.dtype[Any], label: str
    ) -> AnyArray:
        with self._path.open("rb") as stream:
            stream.seek(info.header_offset)
            signature, name_length, extra_length = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
            size = os.fstat(stream.fileno()).st_size
        begin = info.header_offset + _LOCAL_HEADER.size + name_length + extra_length
        if signature != b"PK\x03\x04" or begin + info.file_size > size:
            raise DataError(f"{label}: is damaged: its place in the archive is wrong")
        return _map(self._path, begin + start, info.file_size - start, shape, fortran, dtype, label)

    def _unpack(
        self,
        stream: IO[bytes],
        info: zipfile.ZipInfo,
        start: int,
        shape: tuple[int, ...],
        fortran: bool,
        dtype: np.dtype[Any],
        label: str,
    ) -> AnyArray:
        needed = _byte_count(shape, dtype)
        if needed != info.file_size - start:
            raise DataError(
                f"{label}: an array {shape} of {dtype} takes {needed} bytes, the archive says {info.file_size - start}"
            )
        if not needed:
            raise DataError(f"{label}: the array is empty (shape {shape})")
        limit = max(_FREE_BYTES, _MOST_RATIO * info.compress_size)
        if needed > limit:
            raise DataError(
                f"{label}: {info.compress_size} bytes would unpack to {needed}, more than {_MOST_RATIO} times as many; "
                "refused as a possible zip bomb"
            )
        data = bytearray()
        while len(data) < needed:  # grows with what really comes out, whatever the header promised
            part = stream.read(min(_CHUNK, needed - len(data)))
            if not part:
                raise DataError(f"{label}: is cut off after {len(data)} of {needed} bytes")
            data += part
        if stream.read(1):
            raise DataError(f"{label}: unpacks to more than the archive says")
        self.unpacked += needed
        return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")
