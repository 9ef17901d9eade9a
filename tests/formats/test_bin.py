"""NNTrainer's weight file, byte by byte, and what does not fit."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest

from nntrainer_py.errors import WeightFileError
from nntrainer_py.formats import bin as bin_format
from nntrainer_py.formats.atomic import PREFIX, remove_stale, write_atomically

WEIGHTS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.float32([7, 8]), "mean": np.float32([9])}
MOMENTS = {"a": (np.full((2, 3), 0.5, np.float32), np.full((2, 3), 0.25, np.float32)), "b": (WEIGHTS["b"],) * 2}


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def test_bytes(tmp_path):
    path = tmp_path / "w.bin"
    plain = floats(*range(6), 7, 8, 9)
    bin_format.save(path, WEIGHTS)
    assert path.read_bytes() == plain
    bin_format.save(path, WEIGHTS, epoch=3, iteration=70000)
    assert path.read_bytes() == plain + struct.pack("<II", 3, 70000)
    bin_format.save(path, WEIGHTS, adam=True, moments=MOMENTS, epoch=1, iteration=2)
    moments = floats(*[0.5] * 6, *[0.25] * 6, 7, 8, 7, 8)
    assert path.read_bytes() == plain + b"adam" + moments + struct.pack("<II", 1, 2)


@pytest.mark.parametrize("adam", [False, True])
@pytest.mark.parametrize("moments", [False, True])
@pytest.mark.parametrize("counted", [False, True])
def test_every_layout_is_read(tmp_path, adam, moments, counted):
    path = tmp_path / "w.bin"
    given = MOMENTS if adam and moments else None
    bin_format.save(path, WEIGHTS, adam=adam, moments=given, epoch=4 if counted else None, iteration=5)
    weights = {name: np.full_like(array, np.nan) for name, array in WEIGHTS.items()}
    moments = {
        name: (np.full_like(first, np.nan), np.full_like(second, np.nan)) for name, (first, second) in MOMENTS.items()
    }
    with bin_format.BinFile(path, WEIGHTS, ["a", "b"]) as file:
        file.read_weights_into(weights)
        assert (file.epoch, file.iteration) == ((4, 5) if counted else (None, None))
        assert file.has_moments == (given is not None)
        if file.has_moments:
            file.read_moments_into(moments)
            for name, pair in moments.items():
                np.testing.assert_array_equal(pair, MOMENTS[name])
    for name, array in WEIGHTS.items():
        np.testing.assert_array_equal(weights[name], array)


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    path = tmp_path / "w.bin"
    bin_format.save(path, WEIGHTS, epoch=1, iteration=2)
    with bin_format.BinFile(path, WEIGHTS, ["a", "b"]) as file:
        os.truncate(path, 20)
        with pytest.raises(WeightFileError, match=r"w\.bin: changed while it was read"):
            file.read_weights_into({name: np.empty_like(array) for name, array in WEIGHTS.items()})


@pytest.mark.parametrize("size", [0, 1, 35, 37, 43, 45, 47, 49, 100, 110, 111, 113])
def test_every_other_size_is_refused(tmp_path, size):
    path = tmp_path / "w.bin"
    path.write_bytes(bytes(size))
    with pytest.raises(WeightFileError, match=rf"w\.bin: {size} bytes; .* 36 bytes of weights \(3 tensors\)"):
        bin_format.BinFile(path, WEIGHTS, ["a", "b"])


def test_the_mark(tmp_path):
    path = tmp_path / "w.bin"
    path.write_bytes(bytes(48))
    with pytest.raises(WeightFileError, match="no mark 'adam' at byte 36"):
        bin_format.BinFile(path, WEIGHTS, ["a", "b"])


def test_no_file(tmp_path):
    for path, match in ((tmp_path, "not a file"), (tmp_path / "none", "no such file")):
        with pytest.raises(WeightFileError, match=match):
            bin_format.BinFile(path, WEIGHTS, ["a"])
    with pytest.raises(WeightFileError, match="cannot be written: is a folder"):
        bin_format.save(tmp_path, WEIGHTS)


def test_permissions_of_the_file_before_stay(tmp_path):
    path = tmp_path / "w.bin"
    path.write_bytes(b"old")
    path.chmod(0o640)
    write_atomically(path, [b"new"])
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o640)


def test_an_interrupted_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "w.bin"
    path.write_bytes(b"old")

    def parts():
        yield b"half"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, parts())
    assert [file.name for file in tmp_path.iterdir()] == ["w.bin"]
    assert path.read_bytes() == b"old"


def test_only_what_dead_writers_left_is_removed(tmp_path):
    """Another writer that is at work keeps its file, and its write succeeds."""
    (tmp_path / f"{PREFIX}dead").write_bytes(b"half")
    path = tmp_path / "w.bin"

    def parts():
        assert len(list(tmp_path.glob(f"{PREFIX}*"))) == 2
        assert remove_stale(tmp_path) == [tmp_path / f"{PREFIX}dead"]
        yield b"whole"

    write_atomically(path, parts())
    assert path.read_bytes() == b"whole"
    assert remove_stale(tmp_path) == []
    assert [file.name for file in tmp_path.iterdir()] == ["w.bin"]
