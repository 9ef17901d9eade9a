"""What reading data takes: temporaries bounded whatever the size of a sample, and no pages of a file left behind."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from nntrainer_py.data import ArrayDataset, BatchLoader, NpzDataset, RawFileDataset, open_npy
from nntrainer_py.errors import DataError

MIB = 1 << 20


def peak(act) -> int:
    """Memory that ``act`` takes above what was there, by NumPy's and Python's own counts."""
    act()  # whatever is made once
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def file_pages() -> int:
    """Resident bytes of mapped files."""
    text = Path("/proc/self/status").read_text()
    return int(text.split("RssFile:")[1].split()[0]) * 1024


class TestLabelsAreCheckedInPieces:
    dense = np.random.default_rng(0).random((600, 4096), dtype=np.float32)  # 9.4 MiB
    dims = ([(1, 1, 2)], [(1, 1, 4096)])

    def data(self, form: str, folder: Path):
        x = np.zeros((len(self.dense), 2), np.float32)
        if form == "arrays":
            return ArrayDataset(x, self.dense)
        if form == "integers":
            return ArrayDataset(x, (self.dense > 0.5).astype(np.uint8))
        if form == "npz":
            np.savez(folder / "d.npz", x=x, y=self.dense)
            return NpzDataset(folder / "d.npz")
        if form == "npy":
            np.save(folder / "x.npy", x)
            np.save(folder / "y.npy", self.dense)
            return open_npy(folder / "x.npy", folder / "y.npy")
        np.concatenate([x, self.dense], axis=1).tofile(folder / "d.dat")
        return RawFileDataset(folder / "d.dat")

    @pytest.mark.parametrize("form", ["arrays", "integers", "npz", "npy", "raw"])
    @pytest.mark.parametrize("kind", ["probability", "finite"])
    def test_whatever_holds_them(self, tmp_path, form, kind):
        data = self.data(form, tmp_path)
        before = file_pages()
        assert peak(lambda: data.bind(*self.dims, label_kinds=[kind])) < 2 * MIB
        assert file_pages() - before < 4 * MIB

    def test_distributions(self):
        rows = np.eye(2048, dtype=np.float32)
        data = ArrayDataset(np.zeros((2048, 2), np.float32), rows)
        assert peak(lambda: data.bind([(1, 1, 2)], [(1, 1, 2048)], label_kinds=["distribution"])) < 2 * MIB

    def test_class_indices(self):
        data = ArrayDataset(np.zeros((40, 2), np.float32), np.zeros((40, 40_000), np.int64))
        assert peak(lambda: data.bind([(1, 1, 2)], [(1, 40_000, 5)])) < 2 * MIB


class TestFilesLeaveNoPages:
    count, width = 64, 40_000  # 10 MiB

    def stored(self, folder: Path, form: str, dtype: str):
        x = np.arange(self.count * self.width).reshape(self.count, self.width) % 200
        y = np.arange(self.count) % 3
        if form == "raw":
            np.concatenate([x, np.eye(3)[y]], axis=1).astype("<f4").tofile(folder / "d.dat")
            return x, RawFileDataset(folder / "d.dat")
        np.savez(folder / "d.npz", x=x.astype(dtype), y=y)
        return x, NpzDataset(folder / "d.npz")

    @pytest.mark.parametrize(("form", "dtype"), [("raw", "<f4"), ("npz", "<f4"), ("npz", ">f4"), ("npz", "<f8")])
    @pytest.mark.parametrize("shuffle", [False, True])
    def test_passes(self, tmp_path, form, dtype, shuffle):
        x, data = self.stored(tmp_path, form, dtype)
        data.bind([(1, 1, self.width)], [(1, 1, 3)])
        loader = BatchLoader(data, 8, shuffle=shuffle, seed=1)
        before = file_pages()
        for batch in loader:
            np.testing.assert_array_equal(batch.inputs[0][: batch.count, 0, 0], x[batch.indices])
            np.testing.assert_array_equal(batch.labels[0][: batch.count, 0, 0].argmax(axis=1), batch.indices % 3)
        assert file_pages() - before < 3 * MIB

    def test_short_rows_in_order(self, tmp_path):
        rows = np.arange(2_000_000, dtype="<f4").reshape(-1, 5)
        rows[:, 3:] = [0, 1]
        rows.tofile(tmp_path / "d.dat")
        data = RawFileDataset(tmp_path / "d.dat")
        data.bind([(1, 1, 3)], [(1, 1, 2)])
        loader = BatchLoader(data, 1000)
        before = file_pages()
        for batch in loader:
            np.testing.assert_array_equal(batch.inputs[0][: batch.count, 0, 0], rows[batch.indices, :3])
        assert file_pages() - before < 2 * MIB

    def test_numbers_that_are_not_aligned_are_not_copied_whole(self):
        bytes_of = np.zeros(8_000_001, np.uint8)
        x = bytes_of[1:].view("<f4").reshape(-1, 4)
        assert not x.flags.aligned
        data = ArrayDataset(x)
        data.bind([(1, 1, 4)], [])
        assert peak(lambda: list(BatchLoader(data, 1000, shuffle=True, buffer_size=0))) < 8 * 500_000 * 2.5 + MIB

    def test_a_file_that_became_shorter(self, tmp_path):
        np.save(tmp_path / "x.npy", np.zeros((100, 20_000), np.float32))
        data = open_npy(tmp_path / "x.npy")
        data.bind([(1, 1, 20_000)], [])
        with (tmp_path / "x.npy").open("r+b") as stream:
            stream.truncate(4_000_000)
        with pytest.raises(DataError, match=r"x\.npy: the file became shorter while it was in use"):
            list(BatchLoader(data, 30))
