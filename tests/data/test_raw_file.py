"""NNTrainer's raw files, and what is said about files that are none."""

from __future__ import annotations

import os
import tempfile
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from nntrainer_py.data import BatchLoader, RawFileDataset
from nntrainer_py.errors import DataError, Origin

ORIGIN = Origin("model.ini", 12, "train_set")


def table(count, features=6, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random((count, features), dtype=np.float32) + 2
    return np.concatenate([x, np.eye(classes, dtype=np.float32)[rng.integers(0, classes, count)]], axis=1)


def write(path, values, tail=b""):
    path.write_bytes(np.ascontiguousarray(values, dtype="<f4").tobytes() + tail)
    return path


def read(data, indices):
    x = np.empty((len(indices), *data.input_dims[0]), np.float32)
    y = np.empty((len(indices), *data.label_dims[0]), np.float32)
    data.read(np.asarray(indices, dtype=np.int64), [x], [y])
    return x, y


def test_values_in_any_order(tmp_path):
    rows = table(20)
    data = RawFileDataset(write(tmp_path / "a.dat", rows))
    data.bind([(1, 2, 3)], [(1, 1, 4)], label_kinds=["distribution"])
    assert len(data) == 20
    assert not data.notices
    for indices in ([3, 3, 19, 0], list(range(5, 15)), [7]):
        x, y = read(data, indices)
        np.testing.assert_array_equal(x.reshape(len(indices), 6), rows[indices, :6])
        np.testing.assert_array_equal(y.reshape(len(indices), 4), rows[indices, 6:])


def test_several_inputs_and_labels(tmp_path):
    rows = np.arange(3 * 10, dtype=np.float32).reshape(3, 10)
    data = RawFileDataset(write(tmp_path / "a.dat", rows))
    data.bind([(1, 1, 2), (1, 2, 2)], [(1, 1, 3), (1, 1, 1)])
    arrays = [np.empty((3, *shape), np.float32) for shape in [(1, 1, 2), (1, 2, 2), (1, 1, 3), (1, 1, 1)]]
    data.read(np.array([2, 0, 1]), arrays[:2], arrays[2:])
    np.testing.assert_array_equal(np.concatenate([a.reshape(3, -1) for a in arrays], axis=1), rows[[2, 0, 1]])


@pytest.mark.parametrize("tail", [b"x", b"\0" * 4, b"\0" * 39])
def test_partial_sample_at_the_end_is_ignored_with_a_notice(tmp_path, tail):
    data = RawFileDataset(write(tmp_path / "a.dat", table(20), tail))
    data.bind([(1, 2, 3)], [(1, 1, 4)], label_kinds=["distribution"])
    assert len(data) == 20
    (notice,) = data.notices
    assert f"{len(tail)} bytes are left over after 20 samples" in notice


def test_wrong_stride(tmp_path):
    file = write(tmp_path / "a.dat", table(21))
    data = RawFileDataset(file, origin=ORIGIN, key="path")
    with pytest.raises(DataError) as caught:
        data.bind([(1, 1, 8)], [(1, 1, 4)], label_kinds=["distribution"])
    text = str(caught.value)
    assert text.startswith("model.ini:12: [train_set] path: ")
    assert str(file) in text
    assert "wrong stride" in text
    assert "840 bytes (210 values)" in text
    assert "48 bytes, 12 values (inputs 1:1:8 + labels 1:1:4)" in text
    assert caught.value.exit_code == 3


def test_wrong_stride_that_divides_the_file(tmp_path):
    file = write(tmp_path / "a.dat", table(20, features=8))  # 20 * 12 values are 24 * 10
    with pytest.raises(DataError, match=r"wrong stride: read as .* 40 bytes \(10 values\), most labels .*sample 0: "):
        RawFileDataset(file).bind([(1, 2, 3)], [(1, 1, 4)], label_kinds=["distribution"])


def test_file_shorter_than_one_sample(tmp_path):
    data = RawFileDataset(write(tmp_path / "a.dat", np.ones(9)))
    with pytest.raises(DataError, match=r"wrong stride.*36 bytes.*40 bytes"):
        data.bind([(1, 2, 3)], [(1, 1, 4)])


def test_integer_labels(tmp_path):
    rows = np.concatenate([table(5)[:, :6], np.array([[0], [3], [1], [2], [3]])], axis=1)
    file = write(tmp_path / "a.dat", rows)
    with pytest.raises(DataError, match=r"exactly 5 samples of 28 bytes.*integer_labels = true"):
        RawFileDataset(file).bind([(1, 2, 3)], [(1, 1, 4)])
    data = RawFileDataset(file, integer_labels=True)
    data.bind([(1, 2, 3)], [(1, 1, 4)])
    _, y = read(data, [0, 1, 2, 3, 4])
    np.testing.assert_array_equal(y[:, 0, 0], np.eye(4)[[0, 3, 1, 2, 3]])


@pytest.mark.parametrize(
    ("value", "shown"), [(4, "got 4"), (-1, "got -1"), (255, "got 255"), (0.5, "got 0.5"), (np.nan, "got nan")]
)
def test_integer_label_out_of_range(tmp_path, value, shown):
    rows = np.concatenate([table(5)[:, :6], np.array([[0], [3], [1], [value], [3]])], axis=1)
    data = RawFileDataset(write(tmp_path / "a.dat", rows), integer_labels=True)
    with pytest.raises(DataError, match=rf"sample 3: expected a class index in 0\.\.3, {shown}"):
        data.bind([(1, 2, 3)], [(1, 1, 4)])


def test_u008_files_that_cannot_be_used(tmp_path):
    """U008 (data): missing, folder, empty, no regular file: named with section, key and path."""
    (tmp_path / "empty.dat").touch()
    os.mkfifo(tmp_path / "pipe.dat")
    (tmp_path / "zip.dat").write_bytes(b"PK\x03\x04" + b"\0" * 100)
    (tmp_path / "array.dat").write_bytes(b"\x93NUMPY" + b"\0" * 100)
    for name, words in {
        "missing.dat": "no such file",
        ".": "is a folder",
        "empty.dat": "empty",
        "pipe.dat": "not a regular file",
        "zip.dat": "npz",
        "array.dat": "type = npy",
        "empty.dat/x": "not a directory",
        "nul\0byte": "zero byte",
        "x" * 300: "too long",
    }.items():
        path = tmp_path / name
        with pytest.raises(DataError) as caught:
            RawFileDataset(path, origin=ORIGIN, key="path")
        text = str(caught.value)
        assert text.startswith("model.ini:12: [train_set] path: "), text
        assert words in text
        assert str(path).replace("\0", "\\x00") in text
        assert caught.value.exit_code == 3


@pytest.fixture
def nobody():
    """The superuser may read every file, so the test does its looking as somebody else."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield
    os.seteuid(user)


def test_u008_unreadable_file(nobody):
    with tempfile.TemporaryDirectory() as folder:
        file = write(Path(folder) / "a.dat", table(2))
        file.chmod(0)
        with pytest.raises(DataError, match=r"\[train_set\] path: .*a\.dat: permission denied"):
            RawFileDataset(file, origin=ORIGIN, key="path")


@pytest.mark.parametrize(
    "name",
    [
        "데이터.dat",
        "été 'quote\" é.dat",
        "🐈 cat.dat",
        unicodedata.normalize("NFD", "한글é") + ".dat",
        "y" * 246 + ".dat",
    ],
)
def test_u061_names_of_every_script(tmp_path, name):
    """U061 (data): the file opens, and messages show its name unmangled."""
    file = write(tmp_path / name, table(3))
    data = RawFileDataset(file)
    data.bind([(1, 2, 3)], [(1, 1, 4)])
    assert len(data) == 3
    with pytest.raises(DataError) as caught:
        RawFileDataset(file).bind([(1, 1, 60)], [(1, 1, 40)])
    assert name in str(caught.value)


def test_file_that_shrinks_is_an_error_and_no_crash(tmp_path):
    file = write(tmp_path / "a.dat", table(5000))
    data = RawFileDataset(file)
    data.bind([(1, 2, 3)], [(1, 1, 4)])
    os.truncate(file, 4096)
    with pytest.raises(DataError, match="became shorter"):
        read(data, [4999])


@pytest.mark.parametrize("limit", [0, 1 << 26])
def test_bad_rows_name_sample_and_value(tmp_path, monkeypatch, limit):
    """At once in a small file, when they are read in a large one."""
    monkeypatch.setattr("nntrainer_py.data.rows._CHECKED_BYTES", limit)
    rows = table(40)
    rows[33, 6:] = [1, 1, 0, 0]
    data = RawFileDataset(write(tmp_path / "a.dat", rows))

    def use():
        data.bind([(1, 2, 3)], [(1, 1, 4)], label_kinds=["distribution"])
        assert limit == 0
        list(BatchLoader(data, 8))

    with pytest.raises(DataError, match=r"sample 33: a one-hot or soft label row must sum to 1, got a sum of 2"):
        use()


def test_without_labels(tmp_path):
    rows = table(4)[:, :6]
    data = RawFileDataset(write(tmp_path / "a.dat", rows))
    data.bind([(1, 2, 3)], [])
    (batch,) = BatchLoader(data, 4, buffer_size=0)
    assert batch.labels == []
    np.testing.assert_array_equal(batch.inputs[0].reshape(4, 6), rows)


def test_public_mnist_sample_of_nntrainer(tmp_path):
    """Layout of formats.md 4: 784 pixels and 10 label values a sample, sample i at byte i * 4 * 794."""
    rows = np.zeros((3, 794), np.float32)
    rows[np.arange(3), 784 + np.array([7, 2, 1])] = 1
    rows[:, 5] = [10, 20, 30]
    file = write(tmp_path / "mnist.dat", rows)
    data = RawFileDataset(file)
    data.bind([(1, 28, 28)], [(1, 1, 10)])
    x, y = read(data, [1])
    assert x[0, 0, 0, 5] == np.fromfile(file, "<f4", count=1, offset=4 * 794 + 20)[0] == 20
    assert y[0, 0, 0].argmax() == 2
