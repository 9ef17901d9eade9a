"""The safetensors layout against a file written by hand from its description, and against hostile files (U073)."""

from __future__ import annotations

import json
import random
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nntrainer_py.errors import WeightFileError
from nntrainer_py.formats import safetensors
from nntrainer_py.formats.safetensors import SafetensorsFile


def by_hand(header: Any, body: bytes = b"", length: int | None = None) -> bytes:
    """A file as the description of the layout has it, without our writer."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


def entry(dtype: str, shape: Any, begin: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    return path


def refused(tmp_path: Path, content: bytes, match: str) -> None:
    """Our own error, at once, in little memory."""
    path = write(tmp_path, content)
    began = time.process_time()  # other processes may be busy, and tracing is slow
    with pytest.raises(WeightFileError, match=match):
        safetensors.load(path)
    assert time.process_time() - began < 2
    tracemalloc.start()
    try:
        with pytest.raises(WeightFileError, match=match):
            safetensors.load(path)
        assert tracemalloc.get_traced_memory()[1] < 3 * len(content) + (64 << 20)
    finally:
        tracemalloc.stop()


def test_a_file_written_by_hand(tmp_path):
    half = np.array([1.5, -2.0], "<f2")
    brain = np.array([1.0, -0.5, 3.0], np.float32)
    body = half.tobytes() + (brain.view(np.uint32) >> 16).astype("<u2").tobytes() + b"\x01\x00"
    header = {
        "__metadata__": {"by": "hand"},
        "half": entry("F16", [2, 1], 0, 4),
        "brain": entry("BF16", [3], 4, 10),
        "flags": entry("BOOL", [2], 10, 12),
        "nothing": entry("F32", [0, 7], 12, 12),
    }
    tensors, metadata = safetensors.load(write(tmp_path, by_hand(header, body)))
    assert metadata == {"by": "hand"}
    np.testing.assert_array_equal(tensors["half"], half.reshape(2, 1))
    np.testing.assert_array_equal(tensors["brain"], brain)
    np.testing.assert_array_equal(tensors["flags"], [True, False])
    assert tensors["nothing"].shape == (0, 7)


@pytest.mark.parametrize("dtype", ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"])
def test_what_is_written_reads_back(tmp_path, dtype):
    values = np.random.default_rng(0).integers(0, 100, size=(3, 4, 5)).astype(dtype)
    given = {
        "matrix": values,
        "scalar": values[0, 0, 0].reshape(()),
        "empty": values[:0],
        "strided": values[::2, :, ::2],
        "한글 é 🙂": values.T,
    }
    path = tmp_path / "t.safetensors"
    safetensors.save(path, given, {"note": "ü"})
    found, metadata = safetensors.load(path)
    assert list(found) == list(given)
    assert metadata["note"] == "ü"
    for name, array in given.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == np.ascontiguousarray(array).tobytes()
    into = np.empty((3, 4, 5), dtype)
    with SafetensorsFile(path) as file:
        file.read_into("matrix", into)
        with pytest.raises(WeightFileError, match=r"tensor 'matrix': expected .* \[4\], got .* \[3, 4, 5\]"):
            file.check_fits("matrix", np.empty(4, dtype))
        with pytest.raises(WeightFileError, match="there is no tensor 'other'"):
            file.read("other")
    np.testing.assert_array_equal(into, values)


def test_the_header_begins_where_tensors_are_aligned(tmp_path):
    path = tmp_path / "t.safetensors"
    safetensors.save(path, {"a": np.zeros(3, np.float32)})
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    assert length % 8 == 0
    assert content[8:9] == b"{"
    header = json.loads(content[8 : 8 + length])
    assert header["a"] == entry("F32", [3], 0, 12)


ONE = {"a": entry("F32", [2], 0, 8)}
DAMAGED = {
    "length": (
        by_hand(ONE, bytes(8), 2**64 - 1),
        "no safetensors file, or damaged: a header of 18446744073709551615 bytes",
    ),
    "length of the file": (by_hand(ONE, bytes(8), 200), "damaged: a header of 200 bytes in a file of"),
    "empty": (b"", "too few"),
    "nothing but a length": (struct.pack("<Q", 0), "too few"),
    "length 0": (struct.pack("<Q", 0) + bytes(8), "does not begin with"),
    "no object": (by_hand(b"[1, 2, 3]"), "does not begin with"),
    "blank first": (by_hand(b" " + json.dumps(ONE).encode(), bytes(8)), "does not begin with"),
    "no JSON": (by_hand(b'{"a": '), "no JSON"),
    "no UTF-8": (by_hand(b'{"\xff": 1}'), "no JSON"),
    "NaN": (by_hand(b'{"a": {"dtype": "F32", "shape": [NaN], "data_offsets": [0, 0]}}'), "no JSON"),
    "long number": (by_hand(b'{"a": ' + b"9" * 9999 + b"}"), "no JSON"),
    "deep": (by_hand(b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"), "too deep"),
    "two names": (by_hand(b'{"a": 1, "b": 2, "a": 3}'), "tensor 'a': the name is there twice"),
    "two keys": (by_hand(b'{"a": {"dtype": "F32", "dtype": "F32", "shape": []}}'), "'dtype': the name is there twice"),
    "metadata": (by_hand({"__metadata__": {"a": 1}}), "expected an object of texts"),
    "metadata of another kind": (by_hand({"__metadata__": []}), "expected an object of texts"),
    "entry": (by_hand({"a": 3}), "tensor 'a': expected dtype, shape and data_offsets"),
    "missing key": (by_hand({"a": {"dtype": "F32", "shape": [2]}}), "tensor 'a': expected dtype"),
    "extra key": (by_hand({"a": {**ONE["a"], "x": 1}}, bytes(8)), "tensor 'a': expected dtype"),
    "type": (by_hand({"a": entry("F31", [2], 0, 8)}, bytes(8)), "tensor 'a': unknown type 'F31'"),
    "type of another kind": (by_hand({"a": entry(["F32"], [2], 0, 8)}, bytes(8)), "tensor 'a': unknown type"),  # type: ignore[arg-type]
    "negative size": (by_hand({"a": entry("F32", [-2], 0, 8)}, bytes(8)), "tensor 'a': expected a shape"),
    "size that is no integer": (by_hand({"a": entry("F32", [2.0], 0, 8)}, bytes(8)), "tensor 'a': expected a shape"),
    "true": (by_hand({"a": entry("F32", [True], 0, 4)}, bytes(4)), "tensor 'a': expected a shape"),
    "33 axes": (by_hand({"a": entry("F32", [1] * 33, 0, 4)}, bytes(4)), "tensor 'a': expected a shape"),
    "huge shape": (by_hand({"a": entry("F32", [2**62] * 32, 0, 8)}, bytes(8)), "tensor 'a': 8 bytes do not fit"),
    "wrapping shape": (by_hand({"a": entry("F32", [2**62, 4], 0, 0)}), "tensor 'a': 0 bytes do not fit"),
    "wrong size": (by_hand({"a": entry("F32", [3], 0, 8)}, bytes(8)), "tensor 'a': 8 bytes do not fit a shape of"),
    "one offset": (by_hand({"a": {**ONE["a"], "data_offsets": [8]}}, bytes(8)), "expected data_offsets of two numbers"),
    "negative offset": (by_hand({"a": entry("F32", [2], -8, 0)}, bytes(8)), "expected data_offsets of two numbers"),
    "turned offsets": (by_hand({"a": entry("F32", [2], 8, 0)}, bytes(8)), "tensor 'a': .* outside the file"),
    "outside": (by_hand({"a": entry("F32", [2], 8, 16)}, bytes(8)), "tensor 'a': .* outside the file"),
    "far outside": (by_hand({"a": entry("F32", [2], 2**62, 2**62 + 8)}, bytes(8)), "outside the file"),
    "overlap": (
        by_hand({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 4, 12)}, bytes(12)),
        "tensor 'b': overlaps the one before it",
    ),
    "same place": (
        by_hand({"a": entry("F32", [2], 0, 8), "b": entry("F32", [2], 0, 8)}, bytes(8)),
        "tensor 'b': overlaps the one before it",
    ),
    "hole": (
        by_hand({"a": entry("F32", [1], 0, 4), "b": entry("F32", [1], 8, 12)}, bytes(12)),
        "tensor 'b': comes after a hole",
    ),
    "hole at the beginning": (by_hand({"a": entry("F32", [1], 4, 8)}, bytes(8)), "tensor 'a': comes after a hole"),
    "trailing bytes": (by_hand(ONE, bytes(9)), "9 bytes of tensors, 8 of them described"),
    "cut": (by_hand(ONE, bytes(7)), "outside the file"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_u073_damaged_on_purpose(tmp_path, kind):
    """U073: every kind of damage gives our own error, which names the tensor, in 2 s and little memory."""
    content, match = DAMAGED[kind]
    refused(tmp_path, content, match)


@pytest.mark.parametrize("item", [b"[],", b"{},", b"0,", b'"",', b'"a":1,'])
def test_u073_a_header_that_grows_when_it_is_read(tmp_path, item):
    """U073: JSON of 16 MB whose objects would take hundreds is refused before it is read."""
    inside = item * ((16 << 20) // len(item))
    body = b'{"a": {' + inside[:-1] + b"}}" if item.startswith(b'"a"') else b'{"a": [' + inside[:-1] + b"]}"
    refused(tmp_path, by_hand(body), "not plausible")
    small = item * ((1 << 20) // len(item))
    body = b'{"a": {' + small[:-1] + b"}}" if item.startswith(b'"a"') else b'{"a": [' + small[:-1] + b"]}"
    refused(tmp_path, by_hand(body), "twice|expected dtype")


def test_u073_truncation_and_single_bits(tmp_path):
    """U073: cut at 200 places and with 400 single bits turned, a file with a hash is never taken for whole."""
    path = tmp_path / "good.safetensors"
    arrays = {"a": np.arange(50, dtype=np.float32), "b": np.arange(7, dtype=np.int64)}
    safetensors.save(path, arrays, {"note": "x"})
    good = path.read_bytes()
    chance = random.Random(0)
    for place in (chance.randrange(len(good)) for _ in range(200)):
        refused(tmp_path, good[:place], r"model\.safetensors: ")
    for _ in range(400):
        bad = bytearray(good)
        bad[chance.randrange(len(bad))] ^= 1 << chance.randrange(8)
        changed = write(tmp_path, bytes(bad))
        try:
            tensors, metadata = safetensors.load(changed)
        except WeightFileError:
            continue
        # blanks that fill up the header carry nothing, and the name of the hash may be lost with the check
        same = all(np.array_equal(tensors[name], array) for name, array in arrays.items() if name in tensors)
        assert same
        assert metadata.get("note") == "x"
        assert safetensors.HASH not in metadata or set(tensors) == set(arrays)


def test_not_a_file(tmp_path):
    with pytest.raises(WeightFileError, match="not a file"):
        safetensors.load(tmp_path)
    with pytest.raises(WeightFileError, match="no such file"):
        safetensors.load(tmp_path / "none")
    with pytest.raises(WeightFileError, match="no such file"):
        safetensors.load("a\0b")


def test_a_file_without_a_hash_cannot_be_verified(tmp_path):
    with (
        SafetensorsFile(write(tmp_path, by_hand(ONE, bytes(8)))) as file,
        pytest.raises(WeightFileError, match="no hash"),
    ):
        file.verify()


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(ValueError, match="complex64"):
        safetensors.save(tmp_path / "t", {"a": np.zeros(2, np.complex64)})
    with pytest.raises(ValueError, match="__metadata__"):
        safetensors.save(tmp_path / "t", {"__metadata__": np.zeros(2)})
    with pytest.raises(WeightFileError, match="No such file"):
        safetensors.save(tmp_path / "nowhere" / "t", {"a": np.zeros(2)})
    assert list(tmp_path.iterdir()) == []
