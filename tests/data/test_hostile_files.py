"""Random damage to every kind of file ends in data or in our own error, never in another exception."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest

from nntrainer_py.data import BatchLoader, open_dataset
from nntrainer_py.errors import DataError


def csv_bytes():
    return b'a,"b ""x""",kind\r\n1,2.5,x\r\n-3,4e2,y\n\n"5",6,"z"\n'


def list_bytes():
    return b"a.png 0\nb.png\t1\n\n"


def npy_bytes():
    stream = io.BytesIO()
    np.save(stream, np.array([[1, 2, 0], [3, 4, 1], [5, 6, 2]], np.float32))
    return stream.getvalue()


def npz_bytes():
    stream = io.BytesIO()
    np.savez_compressed(stream, x=np.arange(6.0).reshape(3, 2), y=np.array(["a", "b", "c"]))
    return stream.getvalue()


def idx_bytes():
    return struct.pack(">HBB2I", 0, 8, 2, 3, 2) + bytes(range(6))


def dat_bytes():
    return np.arange(15, dtype="<f4").tobytes()


FILES = {
    "a.csv": csv_bytes,
    "a.lst": list_bytes,
    "a.npy": npy_bytes,
    "a.npz": npz_bytes,
    "a.idx": idx_bytes,
    "a.dat": dat_bytes,
}


def damage(content, rng):
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(len(changed) + 1))
        match int(rng.integers(4)):
            case 0:
                changed[place : place + 1] = bytes([int(rng.integers(256))])
            case 1:
                del changed[place : place + int(rng.integers(1, 9))]
            case 2:
                changed[place:place] = bytes(rng.integers(0, 256, int(rng.integers(1, 9)), dtype=np.uint8))
            case _:
                other = int(rng.integers(len(changed) + 1))
                changed[place:place] = changed[other : other + 8]
    return bytes(changed)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("count", [400, pytest.param(20_000, marks=pytest.mark.fuzz)])
def test_damaged_files(tmp_path, name, count):
    rng = np.random.default_rng(0)
    file = tmp_path / name
    if name == "a.lst":
        image = pytest.importorskip("PIL.Image")
        for picture in ("a.png", "b.png"):
            image.fromarray(np.zeros((1, 2), np.uint8)).save(tmp_path / picture)
    outcomes = set()
    for _ in range(count):
        file.write_bytes(damage(FILES[name](), rng))
        outcomes.add(outcome(file, [] if name == "a.idx" else [(1, 1, 3)]))
    assert {bool(text) for text in outcomes} == {True, False}
    assert all(str(tmp_path) in text for text in outcomes if text)


def outcome(file, label_dims):
    """The error's text, empty when the data could be read."""
    try:
        data = open_dataset(file)
        data.bind([(1, 1, 2)], label_dims, label_kinds=["finite"] * len(label_dims))
        list(BatchLoader(data, 2, buffer_size=0))
    except DataError as error:
        return str(error)
    return ""
