"""The safetensors layout: a length, a JSON header, the raw tensors. Written whole or not at all, read with suspicion.

Layout, little endian: an unsigned 64-bit length N; N bytes of JSON, an object that maps the name of each tensor to its
``dtype``, ``shape`` and ``data_offsets`` (begin and end in the bytes after the header) and ``__metadata__`` to texts by
name; then the tensors, which must fill the rest of the file without a gap or an overlap. Source:
https://github.com/huggingface/safetensors ("Format").

A file that we write also carries ``sha256`` in its metadata: the hash of the header without it and of all tensors.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import WeightFileError, printable, quoted
from nntrainer_py.formats.atomic import write_atomically
from nntrainer_py.formats.opened import OpenedFile
from nntrainer_py.memory.swap_file import pieces

Arrays = Mapping[str, NDArray[Any]]

METADATA = "__metadata__"
HASH = "sha256"
DTYPES: dict[str, str] = {
    "BOOL": "?", "U8": "<u1", "I8": "<i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
#: types without a NumPy counterpart: read as float32
_BRAIN = "BF16"
_SIZES = {word: np.dtype(code).itemsize for word, code in DTYPES.items()} | {_BRAIN: 2}
_WORDS = {np.dtype(code): word for word, code in DTYPES.items()}
_PIECE = 1 << 20
_MAX_AXES = 32
#: the header may have this many bytes, and an eighth of the file: parsed JSON takes some 20 times its text
_FREE_HEADER = 2 << 20


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """Where a tensor lies: type word, shape, and begin and end in the bytes after the header."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def save(
    path: str | os.PathLike[str],
    tensors: Arrays,
    metadata: Mapping[str, str] | None = None,
    *,
    verify: bool = True,
) -> None:
    """Write tensors (in their order) and metadata atomically, with their hash.

    The new file is read again and compared with its hash before it takes the place of the old one; ``verify=False``
    leaves that out.

    Raises:
        WeightFileError: it cannot be written, with the cause; an older file of the name then still stands.
    """
    stored = {name: _little(array) for name, array in tensors.items()}
    header = _header(stored, metadata or {})
    begin: list[bytes | memoryview] = [len(header).to_bytes(8, "little"), header]
    parts = chain(begin, *map(_bytes, stored.values()))
    write_atomically(Path(path), parts, verify=_check_hash if verify else None)


def _check_hash(path: Path) -> None:
    try:
        with SafetensorsFile(path) as file:
            file.verify()
    except WeightFileError as error:
        raise WeightFileError(f"what was written does not read back the same ({error.message})") from None


def _header(tensors: Arrays, metadata: Mapping[str, str]) -> bytes:
    index: dict[str, Any] = {}
    position = 0
    for name, array in tensors.items():
        if name == METADATA:
            raise ValueError(f"a tensor cannot be called {METADATA}")
        end = position + array.nbytes
        index[name] = {"dtype": _WORDS[array.dtype], "shape": list(array.shape), "data_offsets": [position, end]}
        position = end
    digest = hashlib.sha256(_canonical(metadata, index))
    for part in chain.from_iterable(map(_bytes, tensors.values())):
        digest.update(part)
    text = json.dumps({METADATA: {**metadata, HASH: digest.hexdigest()}, **index}, ensure_ascii=False)
    encoded = text.encode("utf-8")
    return encoded + b" " * (-len(encoded) % 8)


def _canonical(metadata: Mapping[str, str], index: Mapping[str, Any]) -> bytes:
    """What the hash covers of the header."""
    kept = {key: value for key, value in metadata.items() if key != HASH}
    return json.dumps([kept, index], sort_keys=True, ensure_ascii=False).encode("utf-8")


def _little(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype.newbyteorder("<") not in _WORDS and array.dtype not in _WORDS:
        raise ValueError(f"a tensor of {array.dtype} has no place in a safetensors file")
    wanted = array.dtype.newbyteorder("<") if array.dtype.itemsize > 1 else array.dtype
    # not ascontiguousarray, which gives an axis to a tensor without one
    return np.asarray(array, dtype=wanted, order="C")


def _bytes(array: NDArray[Any]) -> Iterator[memoryview]:
    return (piece.view(np.uint8).data for piece in pieces(array))


class SafetensorsFile(OpenedFile):
    """An open file whose header was checked whole. ``metadata`` and ``tensors`` are what it says.

    Raises:
        WeightFileError: not a file, or damaged in any way; the message names the tensor where one is at fault.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        try:
            self.metadata, self.tensors = self._read_header()
        except BaseException:
            self.close()
            raise

    def verify(self) -> None:
        """Compare the contents with the hash; WeightFileError when they differ, or when there is none."""
        expected = self.metadata.get(HASH)
        if expected is None:
            raise self.error("there is no hash in it to check it by")
        digest = hashlib.sha256(_canonical(self.metadata, self._index))
        self._seek(0)
        left = self.size - self._begin
        while left:
            piece = self._stream.read(min(_PIECE, left))
            if not piece:
                raise self.error("it changed while it was read")
            digest.update(piece)
            left -= len(piece)
        if digest.hexdigest() != expected:
            raise self.error("its contents do not agree with their hash; the file is damaged")

    def read(self, name: str) -> NDArray[Any]:
        """A tensor, in the machine's own byte order; BF16 as float32."""
        entry = self.tensors.get(name)
        if entry is None:
            raise self.error(f"there is no tensor {quoted(name)}")
        raw = np.empty(entry.end - entry.begin, np.uint8)
        self._fill(name, entry, raw)
        if entry.dtype == _BRAIN:
            wide = raw.view("<u2").astype(np.uint32) << 16
            return wide.view(np.float32).reshape(entry.shape)
        array: NDArray[Any] = raw.view(DTYPES[entry.dtype]).reshape(entry.shape)
        return array if sys.byteorder == "little" else array.astype(array.dtype.newbyteorder("="))

    def read_into(self, name: str, target: NDArray[Any]) -> None:
        """A tensor into an array of the same type and number of elements; takes no memory for it."""
        entry = self.tensors.get(name)
        if entry is None:
            raise self.error(f"there is no tensor {quoted(name)}")
        self.check_fits(name, target)
        if sys.byteorder == "little" and target.flags.c_contiguous:
            self._fill(name, entry, target)
        else:
            np.copyto(target, self.read(name).reshape(target.shape))

    def check_fits(self, name: str, target: NDArray[Any]) -> None:
        """WeightFileError unless there is such a tensor with the type and the shape of ``target``."""
        entry = self.tensors.get(name)
        if entry is None:
            raise self.error(f"there is no tensor {quoted(name)}")
        word = _WORDS.get(target.dtype.newbyteorder("<") if target.dtype.itemsize > 1 else target.dtype)
        if entry.dtype != word or entry.shape != target.shape:
            raise self.error(
                f"tensor {quoted(name)}: expected {word} {list(target.shape)}, got {entry.dtype} {list(entry.shape)}"
            )

    def _seek(self, position: int) -> None:
        self._stream.seek(self._begin + position)

    def _fill(self, name: str, entry: TensorEntry, target: NDArray[Any]) -> None:
        self._seek(entry.begin)
        for part in _bytes(target):
            if self._stream.readinto(part) != len(part):
                raise self.error(f"tensor {quoted(name)}: the file ends inside it")

    def _read_header(self) -> tuple[dict[str, str], dict[str, TensorEntry]]:
        if self.size < 10:
            raise self.error(f"{self.size} bytes are too few for a safetensors file")
        length = int.from_bytes(self._stream.read(8), "little")
        if length > self.size - 8:
            raise self.error(
                f"this is no safetensors file, or damaged: a header of {length} bytes in a file of {self.size}"
            )
        if length > _FREE_HEADER + self.size // 8:
            raise self.error(f"a header of {length} bytes in a file of {self.size} is not plausible")
        self._begin = 8 + length
        text = self._stream.read(length)
        if len(text) != length:
            raise self.error("it changed while it was read")
        header = self._parse(text)
        given = header.pop(METADATA, {})
        if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
            raise self.error(f"{METADATA}: expected an object of texts")
        tensors = {name: self._entry(name, value) for name, value in header.items()}
        self._check_cover(tensors)
        self._index = header
        return given, tensors

    def _parse(self, text: bytes) -> dict[str, Any]:
        if text[:1] != b"{":
            raise self.error("the header does not begin with '{'; this is no safetensors file")
        try:
            header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
        except _DuplicateKeyError as error:
            raise self.error(f"tensor {quoted(error.args[0])}: the name is there twice") from None
        except (ValueError, RecursionError) as error:
            what = "too deep" if isinstance(error, RecursionError) else str(error)[:120]
            raise self.error(f"the header is no JSON: {printable(what)}") from None
        assert isinstance(header, dict)
        return header

    def _entry(self, name: str, value: object) -> TensorEntry:
        def wrong(what: str) -> WeightFileError:
            return self.error(f"tensor {quoted(name)}: {what}")

        if not isinstance(value, dict) or set(value) != {"dtype", "shape", "data_offsets"}:
            raise wrong("expected dtype, shape and data_offsets")
        dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
        if not isinstance(dtype, str) or dtype not in _SIZES:
            raise wrong(f"unknown type {quoted(dtype) if isinstance(dtype, str) else 'of another kind than text'}")
        if not isinstance(shape, list) or len(shape) > _MAX_AXES or not all(map(_is_size, shape)):
            raise wrong("expected a shape of at most 32 sizes, none of them negative")
        if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
            raise wrong("expected data_offsets of two numbers")
        begin, end = offsets
        if not begin <= end <= self.size - self._begin:
            raise wrong(f"data_offsets {quoted(str(offsets))} are outside the file")
        nbytes = _SIZES[dtype]
        for size in shape:
            nbytes *= size
        if nbytes != end - begin:
            raise wrong(f"{end - begin} bytes do not fit a shape of {quoted(str(shape))} in {dtype}")
        return TensorEntry(dtype, tuple(shape), begin, end)

    def _check_cover(self, tensors: Mapping[str, TensorEntry]) -> None:
        position = 0
        for name, entry in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
            if entry.begin != position:
                what = "overlaps the one before it" if entry.begin < position else "comes after a hole"
                raise self.error(f"tensor {quoted(name)}: {what} (byte {entry.begin}, expected {position})")
            position = entry.end
        if position != self.size - self._begin:
            raise self.error(f"{self.size - self._begin} bytes of tensors, {position} of them described")


class _DuplicateKeyError(Exception):
    """A name that stands twice in one object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _DuplicateKeyError(name)
            seen.add(name)
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def load(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """All tensors and the metadata of a file, compared with its hash where it has one."""
    with SafetensorsFile(path) as file:
        if HASH in file.metadata:
            file.verify()
        return {name: file.read(name) for name in file.tensors}, file.metadata


__all__ = ["SafetensorsFile", "TensorEntry", "load", "save"]
