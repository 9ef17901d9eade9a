"""The swap file: movements in order, a full disk, a file that shrinks, nothing left behind."""

from __future__ import annotations

import errno
import gc
import os
from pathlib import Path

import numpy as np
import pytest
from memory.nets import model, step

from nntrainer_py.errors import ForkError, UsageError
from nntrainer_py.memory import swap_file
from nntrainer_py.memory.swap_file import PAGE, Slot, SwapFile, Transfer, clear, pieces, release


def _transfer(array: np.ndarray[tuple[int], np.dtype[np.uint8]], slot: Slot, outward: bool) -> Transfer:
    return Transfer(array.data, slot, outward)


def test_what_goes_out_comes_in_again(tmp_path: Path) -> None:
    file = SwapFile(tmp_path)
    file.reserve(5 * PAGE)
    slot, other = Slot(3 * PAGE + 100, "a", 0), Slot(64, "b", 4 * PAGE)
    data = np.random.default_rng(0).integers(0, 256, slot.nbytes).astype(np.uint8)
    back, small = np.zeros_like(data), np.full(64, 7, np.uint8)
    jobs = [_transfer(data, slot, True), _transfer(small, other, True), _transfer(back, slot, False)]
    for job in jobs:  # all at once: they are done in this order
        file.start(job)
    for job in jobs:
        file.wait(job)
    assert np.array_equal(back, data)
    assert (file.written, file.read) == (slot.nbytes + 64, slot.nbytes)
    over = file.array(slot, (slot.nbytes,), "uint8")
    assert np.array_equal(over, data)
    over[:] = 3
    again = _transfer(back, slot, False)
    file.start(again)
    file.wait(again)
    assert (back == 3).all()
    file.close()


def test_nothing_is_left_in_the_folder(tmp_path: Path) -> None:
    file = SwapFile(tmp_path)
    file.reserve(PAGE)
    assert list(tmp_path.iterdir()) == []  # it never has a name that others see
    descriptors = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    del file
    gc.collect()
    if descriptors:
        assert len(os.listdir("/proc/self/fd")) < descriptors


def test_a_full_disk_is_told_before_the_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(UsageError, match=r"swap file of 4096 bytes in .*No space left.*fsu_path"):
        SwapFile(tmp_path).reserve(4096)


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot make a swap file"):
        SwapFile(tmp_path / "missing").reserve(4096)


def test_what_can_be_known_of_a_file_before_it_is_made(tmp_path: Path) -> None:
    (tmp_path / "taken").write_bytes(b"")
    for folder in (tmp_path / "missing", tmp_path / "taken"):
        with pytest.raises(UsageError, match=r"cannot make a swap file of 4096 bytes in .*fsu_path"):
            SwapFile(folder).require(4096)
    with pytest.raises(UsageError, match=r"swap file of .* bytes are free on the disk"):
        SwapFile(tmp_path).require(1 << 60)
    file = SwapFile(tmp_path)
    file.require(4096)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    file.reserve(4096)
    file.require(1 << 60)  # it is there, and says itself when it cannot grow


def test_a_failed_movement_is_told_by_its_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = SwapFile(tmp_path)
    file.reserve(PAGE)
    job = _transfer(np.zeros(64, np.uint8), Slot(64, "late", 16 * PAGE), False)  # behind the end
    file.start(job)
    with pytest.raises(UsageError, match="cannot read the swap file"):
        file.wait(job)

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(swap_file.os, "pwrite", broken)
    job = _transfer(np.zeros(64, np.uint8), Slot(64, "x", 0), True)
    file.start(job)
    with pytest.raises(UsageError, match="cannot write the swap file"):
        file.wait(job)
    file.close()


def test_short_movements_are_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system may move less than it was asked to."""
    file = SwapFile(tmp_path)
    file.reserve(PAGE)
    write = os.pwrite
    monkeypatch.setattr(swap_file.os, "pwrite", lambda fd, memory, offset: write(fd, memory[:7], offset))
    data = np.arange(100, dtype=np.uint8)
    job = _transfer(data, Slot(100, "x", 0), True)
    file.start(job)
    file.wait(job)
    assert np.array_equal(file.array(Slot(100, "x", 0), (100,), "uint8"), data)
    file.close()


def test_pieces_are_the_array_in_order() -> None:
    array = np.arange(3 << 19, dtype=np.float32).reshape(3, -1)
    parts = list(pieces(array))
    assert len(parts) == 6
    assert np.array_equal(np.concatenate(parts), array.reshape(-1))
    assert all(np.shares_memory(part, array) for part in parts)
    assert list(pieces(array[:, :0])) == []
    with pytest.raises(ValueError, match="contiguous"):
        next(pieces(array.T))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's account of shared memory")
def test_an_array_over_the_file_does_not_stay_in_memory(tmp_path: Path) -> None:
    size = 64 << 20
    file = SwapFile(tmp_path)
    file.reserve(size)
    array = file.array(Slot(size, "a", 0), (size // 4,), "float32")
    few = _shared() + size // 4
    for value, piece in enumerate(pieces(array)):
        piece[:] = value
    assert _shared() < few
    assert array[-1] == size // (1 << 20) - 1
    assert array.sum(dtype=np.float64) == sum(range(64)) * float(1 << 18)
    assert _shared() > few + size // 2
    release(array[5:])
    assert _shared() < few
    clear([array])
    assert _shared() < few
    assert not array.any()


def _shared() -> int:
    """Bytes of this process's memory that lie in files or are shared."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    lines = [line.split() for line in text.splitlines() if line.startswith(("RssFile:", "RssShmem:"))]
    return sum(int(line[1]) for line in lines) * 1024


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("act", ["train", "save", "load"])
def test_a_forked_child_leaves_the_file_alone(act: str, tmp_path: Path) -> None:
    """It shares file and pages with its parent: what it wrote would be the parent's weights."""
    made = model("mlp", tmp_path).compile(8, threads=1, swap=True, swap_folder=str(tmp_path))
    step(made, 8, np.random.default_rng(0))
    made.save(tmp_path / "before.bin")
    assert made.compiled.plans.planning.on_file(made.lowered("train"))
    child = os.fork()
    if child == 0:
        try:
            if act == "train":
                step(made, 8, np.random.default_rng(1))
            elif act == "save":
                made.save(tmp_path / "child.bin")
            else:
                made.load(tmp_path / "before.bin")
        except ForkError as error:
            os._exit(7 if "spawn" in str(error) else 8)
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    made.save(tmp_path / "after.bin")
    assert (tmp_path / "after.bin").read_bytes() == (tmp_path / "before.bin").read_bytes()
