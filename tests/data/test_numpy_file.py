"""npy and npz: mapped where possible, never unpickled, and hostile files refused in bounded memory."""

from __future__ import annotations

import io
import os
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from nntrainer_py.data import BatchLoader, NpyDataset, NpzDataset, open_npy
from nntrainer_py.data.numpy_file import map_npy
from nntrainer_py.errors import DataError, Origin

DIMS = ([(1, 2, 2)], [(1, 1, 3)])


@pytest.fixture
def xy():
    rng = np.random.default_rng(1)
    return rng.random((9, 2, 2), dtype=np.float32), rng.integers(0, 3, 9)


def rows(data, dims=DIMS):
    data.bind(*dims)
    (batch,) = BatchLoader(data, len(data), buffer_size=0)
    return [*batch.inputs, *batch.labels]


def same(data, x, y):
    a, b = rows(data)
    np.testing.assert_array_equal(a[:, 0], x)
    np.testing.assert_array_equal(b[:, 0, 0], np.eye(3)[y])


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "names", [("x", "y"), ("inputs", "labels"), ("X", "Target"), ("images", "label"), ("x0", "y0")]
)
def test_npz(tmp_path, xy, save, names):
    save(tmp_path / "a.npz", **dict(zip(names, xy, strict=True)))
    data = NpzDataset(tmp_path / "a.npz")
    same(data, *xy)
    mapped = isinstance(data._inputs[0].base, np.memmap)
    assert mapped is (save is np.savez)
    assert bool(data.remarks) is not mapped
    assert data.resident_bytes == (0 if mapped else xy[0].nbytes + xy[1].nbytes)


def test_npz_named_and_by_role(tmp_path, xy):
    x, y = xy
    np.savez(tmp_path / "a.npz", x_train=x[:6], y_train=y[:6], x_test=x[6:], y_test=y[6:])
    same(NpzDataset(tmp_path / "a.npz", role="train"), x[:6], y[:6])
    same(NpzDataset(tmp_path / "a.npz", role="test"), x[6:], y[6:])
    same(NpzDataset(tmp_path / "a.npz", inputs=["x_test"], labels=["y_test"]), x[6:], y[6:])
    with pytest.raises(DataError, match="no array called x, inputs or data, only x_train, y_train"):
        NpzDataset(tmp_path / "a.npz")
    with pytest.raises(DataError, match="no array 'x_tests'; did you mean 'x_test'"):
        NpzDataset(tmp_path / "a.npz", inputs=["x_tests"])


def test_npz_several_inputs(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {"x0": rng.random((5, 4)), "x1": rng.random((5, 6)), "y0": rng.random((5, 2)), "y1": rng.random((5, 3))}
    np.savez(tmp_path / "a.npz", **arrays)
    found = rows(NpzDataset(tmp_path / "a.npz"), ([(1, 2, 2), (1, 1, 6)], [(1, 1, 2), (1, 1, 3)]))
    for have, want in zip(found, arrays.values(), strict=True):
        np.testing.assert_array_equal(have.reshape(5, -1), want.astype(np.float32))


def test_npz_class_names(tmp_path, xy):
    names = np.array(["cat", "ant", "bee"])[xy[1]]
    np.savez(tmp_path / "a.npz", x=xy[0], y=names)
    data = NpzDataset(tmp_path / "a.npz")
    assert data.class_names == ("ant", "bee", "cat")
    np.testing.assert_array_equal(rows(data)[1].argmax(axis=-1)[:, 0, 0], np.searchsorted(["ant", "bee", "cat"], names))


def test_npy(tmp_path, xy):
    x, y = xy
    np.save(tmp_path / "x.npy", x.astype(np.float64))
    np.save(tmp_path / "y.npy", y)
    same(open_npy(tmp_path / "x.npy", tmp_path / "y.npy"), x, y)
    np.save(tmp_path / "fortran.npy", np.asfortranarray(x))
    same(open_npy(tmp_path / "fortran.npy", tmp_path / "y.npy"), x, y)
    np.save(tmp_path / "rows.npy", np.concatenate([x.reshape(9, 4), y[:, None]], axis=1).astype(np.float32))
    same(NpyDataset(tmp_path / "rows.npy"), x, y)
    np.save(tmp_path / "whole.npy", np.concatenate([x.reshape(9, 4), np.eye(3)[y]], axis=1).astype(">f4"))
    same(NpyDataset(tmp_path / "whole.npy"), x, y)
    with pytest.raises(DataError, match="second file"):
        NpyDataset(tmp_path / "x.npy")


def test_arrays_of_different_length(tmp_path, xy):
    np.savez(tmp_path / "a.npz", x=xy[0], y=xy[1][:-1])
    with pytest.raises(DataError, match="differ in their number of samples: 9, 8"):
        NpzDataset(tmp_path / "a.npz")


def test_channels_last_are_refused_and_not_scrambled(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.zeros((5, 4, 4, 3), np.float32), y=np.zeros(5, int))
    with pytest.raises(DataError, match=r"shape \(4, 4, 3\), the model takes 3:4:4; the channel comes first"):
        NpzDataset(tmp_path / "a.npz").bind([(3, 4, 4)], [(1, 1, 3)])


class Bomb:
    """Would leave a mark when unpickled."""

    def __reduce__(self):
        return (os.mkdir, ("unpickled",))


def test_objects_are_never_unpickled(tmp_path, monkeypatch, xy):
    monkeypatch.chdir(tmp_path)
    evil = np.empty(9, dtype=object)
    evil[:] = [Bomb()] * 9
    np.savez(tmp_path / "a.npz", x=evil, y=xy[1])
    np.save(tmp_path / "a.npy", evil)
    with pytest.raises(DataError, match="real numbers"):
        NpzDataset(tmp_path / "a.npz")
    with pytest.raises(DataError, match="real numbers"):
        NpyDataset(tmp_path / "a.npy")
    assert not (tmp_path / "unpickled").exists()


def header(shape, descr="'<f4'", extra=b""):
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + extra


@pytest.mark.parametrize(
    "content",
    [
        header("(1099511627776, 4)", extra=b"\0" * 64),
        header("(-3, 4)", extra=b"\0" * 64),
        header("(True, 4)", extra=b"\0" * 64),
        header("(4, False)", extra=b"\0" * 64),
        header("(4, 4)", extra=b"\0" * 63),
        header("(0, 4)"),
        header("(4, 4)", descr="'|O'", extra=b"\0" * 200),
        header("(4, 4)", descr="[('a', '<f4'), ('b', '<i4')]", extra=b"\0" * 200),
        header("(4, 4)", descr="'<c8'", extra=b"\0" * 200),
        header("__import__('os').getcwd()", extra=b"\0" * 64),
        header("(" * 2000 + ")" * 2000, extra=b"\0" * 64),
        b"\x93NUMPY\x01\x00\xff\xff{",
        b"\x93NUMPY\x09\x00" + b"\0" * 100,
        b"\x93NUMPY",
        b"hello",
    ],
)
def test_hostile_npy(tmp_path, content):
    file = tmp_path / "a.npy"
    file.write_bytes(content)
    tracemalloc.start()
    with pytest.raises(DataError, match=r"a\.npy"):
        NpyDataset(file, origin=Origin("m.ini", 3, "train_set"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000
    bundle = tmp_path / "a.npz"
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(bundle, "w", method) as archive:
            archive.writestr("x.npy", content)
        with pytest.raises(DataError, match=r"a\.npz: array 'x'"):
            NpzDataset(bundle)


def test_zip_bomb(tmp_path):
    count = 1 << 25  # 128 MiB of zeros pack into 128 KiB
    with (
        zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w") as member,
    ):
        member.write(header(f"({count}, 1)"))
        for _ in range(128):
            member.write(bytes(count * 4 // 128))
    tracemalloc.start()
    with pytest.raises(DataError, match="zip bomb"):
        NpzDataset(tmp_path / "a.npz")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4_000_000


def test_damaged_npz(tmp_path, xy):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, x=xy[0], y=xy[1])
    packed = buffer.getvalue()
    buffer = io.BytesIO()
    np.savez(buffer, x=xy[0], y=xy[1])
    stored = buffer.getvalue()
    rng = np.random.default_rng(0)
    file = tmp_path / "a.npz"
    refused = 0
    for whole in (packed, stored):
        for cut in range(0, len(whole), 23):
            file.write_bytes(whole[:cut])
            with pytest.raises(DataError):
                NpzDataset(file)
        for _ in range(300):
            changed = bytearray(whole)
            changed[rng.integers(len(changed))] ^= 1 << int(rng.integers(8))
            file.write_bytes(changed)
            try:
                data = NpzDataset(file)
                data.bind(*DIMS)
            except DataError:
                refused += 1
    assert refused > 100


def test_map_npy_maps(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6.0).reshape(2, 3))
    found = map_npy(tmp_path / "a.npy")
    assert isinstance(found.base, np.memmap)
    assert not found.flags.writeable
