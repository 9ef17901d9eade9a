"""What reading data takes: temporaries bounded whatever the size of a sample, and no pages of a file left behind."""

from __future__ import annotations

import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from nntrainer_py.data import (
    ArrayDataset,
    BatchLoader,
    CsvDataset,
    NpzDataset,
    RawFileDataset,
    measure_normalization,
    open_npy,
)
from nntrainer_py.data.normalization import normalization_bytes
from nntrainer_py.errors import DataError
from nntrainer_py.training.feeding import data_memory

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

    def test_labels_between_long_inputs(self, tmp_path):
        np.concatenate([np.zeros((150, 100_000)), np.eye(3)[np.arange(150) % 3]], axis=1).astype("<f4").tofile(
            tmp_path / "d.dat"
        )
        data = RawFileDataset(tmp_path / "d.dat")
        dims = [(1, 1, 100_000)], [(1, 1, 3)]
        assert resident(lambda: data.bind(*dims, label_kinds=["distribution"])) < 5 * MIB

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


def resident(act) -> int:
    """By how much the resident memory of this process is larger at most."""
    act()

    def status(key: str) -> int:
        return int(Path("/proc/self/status").read_text().split(key + ":")[1].split()[0]) * 1024

    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    act()
    return status("VmHWM") - before


def grown(code: str, path: Path) -> tuple[int, int]:
    """Bytes counted, and by how much the resident memory of a fresh process grew at most, the second time.

    ``code`` defines ``run(path)``, which gives the bytes that were counted.
    """
    script = f"""
import ctypes, sys
from pathlib import Path
{code}
def status(key):
    return int(Path("/proc/self/status").read_text().split(key + ":")[1].split()[0]) * 1024
run(sys.argv[1])
# Once such a block was freed, the allocator takes smaller ones from its heap.
bytearray(24 << 20)
ctypes.CDLL(None).malloc_trim(0)
before = status("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
counted = run(sys.argv[1])
print(counted, status("VmHWM") - before)
"""
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    counted, most = map(int, done.stdout.split())
    return counted, most


def table_file(path: Path, count: int, label: str, columns: int = 1) -> Path:
    with path.open("w") as stream:
        stream.writelines(
            ",".join("%.4f" % ((k * 7919 % 1000) / 1000) for _ in range(columns))
            + ","
            + label % (k * 31 % count)
            + "\n"
            for k in range(count)
        )
    return path


class TestTables:
    @pytest.mark.parametrize("label", ["%07d", "1.%07d", "class_%.1s"])
    def test_parsing_takes_what_is_counted(self, tmp_path, label):
        """Class numbers, measurements, and names of classes."""
        code = "from nntrainer_py.data import CsvDataset\ndef run(path):\n    return CsvDataset(path).resident_bytes"
        counted, most = grown(code, table_file(tmp_path / "d.csv", 400_000, label))
        assert counted >= 400_000 * 16
        assert most < 1.3 * counted + 2 * MIB

    def test_more_columns_take_no_more_than_their_share_of_time(self, tmp_path):
        def seconds(columns: int) -> float:
            names = [f"c{k}" for k in range(columns)]
            path = tmp_path / f"{columns}.csv"
            path.write_text("\n".join([",".join([*names, "y"]), *[",".join(["0.5"] * columns + ["1"])] * 3]) + "\n")
            data = CsvDataset(path)
            data.expected_features = tuple(reversed(names))
            start = time.perf_counter()
            data.bind([(1, 1, columns)], [(1, 1, 2)])
            assert data.feature_names == tuple(reversed(names))
            return time.perf_counter() - start

        assert seconds(20_000) < 2


class TestTextLabels:
    @pytest.mark.parametrize("form", ["npz", "arrays", "objects"])
    def test_names_take_what_is_counted(self, tmp_path, form):
        count = 200_000
        names = np.array(["alpha", "beta"])[np.arange(count) % 2]
        x = np.zeros((count, 1), np.float32)
        np.savez(tmp_path / "d.npz", x=x, y=names)
        given = names.astype(object) if form == "objects" else names

        def make():
            return NpzDataset(tmp_path / "d.npz") if form == "npz" else ArrayDataset(x, given)

        before = file_pages()
        found: list[int] = []
        most = peak(lambda: found.append(make().resident_bytes))
        assert 8 * count <= found[0] <= 9 * count
        assert most < found[0] + 2 * MIB
        assert file_pages() - before < 2 * MIB

    def test_other_names_take_no_second_copy(self):
        count = 200_000
        data = ArrayDataset(np.zeros((count, 1), np.float32), np.array(["b", "a"])[np.arange(count) % 2])
        data.bind([(1, 1, 1)], [(1, 1, 3)])
        dims = [(1, 1, 1)], [(1, 1, 3)]
        assert peak(lambda: data.bind(*dims, class_names=["a", "x", "b"])) < MIB
        (batch,) = BatchLoader(data, count)
        assert (batch.labels[0].argmax(axis=-1).ravel() == np.array([2, 0])[np.arange(count) % 2]).all()


class TestNormalization:
    @pytest.mark.parametrize(("method", "each"), [("standard", 24 + 16), ("minmax", 8 + 16)])
    def test_measuring_each_feature(self, method, each):
        """State, and results beside it; the batch read is of one sample, and pieces are small."""
        shape = (3, 300, 400)
        data = ArrayDataset(np.random.default_rng(0).random((5, *shape), dtype=np.float32))
        data.bind([shape], [])
        features = 360_000

        def measure():
            measure_normalization(data, method, "feature")

        assert max(peak(measure), resident(measure)) < (each + 8) * features + 2 * MIB

    @pytest.mark.parametrize("scope", ["whole", "channel"])
    def test_measuring_large_samples(self, scope):
        shape = (3, 300, 400)
        data = ArrayDataset(np.random.default_rng(0).random((3, *shape), dtype=np.float32))
        data.bind([shape], [])
        assert peak(lambda: measure_normalization(data, "standard", scope)) < 5 * 360_000 + 2 * MIB

    @pytest.mark.parametrize(("scope", "size"), [("whole", 8), ("channel", 16), ("feature", 480)])
    def test_it_is_counted_once(self, scope, size):
        shape = (2, 5, 6)
        loaders = []
        for _ in range(2):
            data = ArrayDataset(np.random.default_rng(0).random((4, *shape)))
            data.bind([shape], [])
            loaders.append(BatchLoader(data, 2))
        bare = data_memory(loaders).total
        scaling = measure_normalization(loaders[0].dataset, "standard", scope)
        for loader in loaders:
            loader.dataset.normalization = scaling
        assert data_memory(loaders).total - bare == size == scaling.nbytes
        assert normalization_bytes("standard", scope, [shape]) == size
