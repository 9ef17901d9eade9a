"""MNIST's idx files, plain and gzipped, honest and not."""

from __future__ import annotations

import gzip
import struct
import tracemalloc

import numpy as np
import pytest

from nntrainer_py.data import BatchLoader, IdxDataset
from nntrainer_py.data.idx import read_idx
from nntrainer_py.errors import DataError

TYPES = {"u1": 8, "i1": 9, ">i2": 11, ">i4": 12, ">f4": 13, ">f8": 14}


def idx(array, code=None):
    kind = TYPES[array.dtype.str.lstrip("|")] if code is None else code
    return struct.pack(f">HBB{array.ndim}I", 0, kind, array.ndim, *array.shape) + array.tobytes()


@pytest.mark.parametrize("packed", [False, True])
def test_mnist(tmp_path, packed):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (20, 28, 28), dtype=np.uint8)
    labels = rng.integers(0, 10, 20, dtype=np.uint8)
    suffix = ".gz" * packed
    for name, array in (("images-idx3", images), ("labels-idx1", labels)):
        content = gzip.compress(idx(array)) if packed else idx(array)
        (tmp_path / f"train-{name}-ubyte{suffix}").write_bytes(content)
    data = IdxDataset(tmp_path / f"train-images-idx3-ubyte{suffix}")
    data.bind([(1, 28, 28)], [(1, 1, 10)])
    (batch,) = BatchLoader(data, 20)
    np.testing.assert_array_equal(batch.inputs[0][:, 0], images)
    np.testing.assert_array_equal(batch.labels[0][:, 0, 0], np.eye(10)[labels])


@pytest.mark.parametrize("dtype", TYPES)
def test_types(tmp_path, dtype):
    values = np.array([[1, -2, 3], [100, 5, 6]]).astype(dtype)
    (tmp_path / "a.idx").write_bytes(idx(values))
    np.testing.assert_array_equal(read_idx(tmp_path / "a.idx"), values)


def test_labels_by_name(tmp_path):
    (tmp_path / "a.idx").write_bytes(idx(np.ones((3, 2), np.uint8)))
    (tmp_path / "b.idx").write_bytes(idx(np.array([0, 1, 2], np.uint8)))
    data = IdxDataset(tmp_path / "a.idx", tmp_path / "b.idx")
    data.bind([(1, 1, 2)], [(1, 1, 3)])
    (batch,) = BatchLoader(data, 3)
    np.testing.assert_array_equal(batch.labels[0][:, 0, 0], np.eye(3))
    with pytest.raises(DataError, match=r"the data has 0 labels, the model takes 1"):
        IdxDataset(tmp_path / "a.idx").bind([(1, 1, 2)], [(1, 1, 3)])


GOOD = idx(np.arange(12, dtype=np.uint8).reshape(3, 4))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (GOOD[:-1], "takes 12 bytes, the file has 11"),
        (GOOD + b"x", "takes 12 bytes, the file has 13"),
        (GOOD[:9], "cut off in the header"),
        (b"\0\0", "no idx file"),
        (b"\0\0\x07\x01\0\0\0\x01x", "no idx file"),
        (b"\0\0\x08\x00", "axes"),
        (b"\0\0\x08\xff" + b"\0" * 2000, "axes"),
        (struct.pack(">HBB3I", 0, 8, 3, 2**32 - 1, 2**32 - 1, 2**32 - 1) + b"\0" * 50, "the file has 50"),
        (struct.pack(">HBB2I", 0, 8, 2, 0, 4), "no sample"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_hostile(tmp_path, content, words, packed):
    file = tmp_path / "a.idx"
    file.write_bytes(gzip.compress(content) if packed else content)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"a\.idx: " if packed else rf"a\.idx: .*{words}"):
        IdxDataset(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_gzip_bomb_takes_no_more_than_the_header_says(tmp_path):
    file = tmp_path / "a.gz"
    file.write_bytes(gzip.compress(idx(np.zeros((2, 2), np.uint8)) + bytes(50_000_000)))
    tracemalloc.start()
    with pytest.raises(DataError, match="more than the array"):
        read_idx(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_damaged_gzip(tmp_path):
    whole = gzip.compress(idx(np.random.default_rng(0).integers(0, 256, (50, 50), dtype=np.uint8)))
    file = tmp_path / "a.gz"
    for cut in range(2, len(whole) - 1, 97):
        file.write_bytes(whole[:cut])
        with pytest.raises(DataError, match=r"a\.gz"):
            read_idx(file)
    for position in range(12, len(whole), 61):
        changed = bytearray(whole)
        changed[position] ^= 0x10
        file.write_bytes(changed)
        with pytest.raises(DataError, match=r"a\.gz"):
            read_idx(file)
