"""Checkpoints on disks that fill up and in processes that die: there is always a whole one, and never a mix.

The campaign with 200 kills: ``pytest tests/training/test_checkpoint_files.py -m crash``.
"""

from __future__ import annotations

import errno
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from small_models import Recorder, classifier, data, weights

from nntrainer_py.errors import NNTrainerError, UsageError, WeightFileError
from nntrainer_py.formats.atomic import PREFIX
from nntrainer_py.formats.safetensors import SafetensorsFile
from nntrainer_py.training import checkpoint
from nntrainer_py.training.run_lock import NAME, RunLock

ROOTS = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]


def whole(path: Path) -> checkpoint.Summary:
    """The checkpoint, compared with its hash."""
    with SafetensorsFile(path) as file:
        file.verify()
    return checkpoint.summary(path)


class _Failing:
    """Stands in for a function of ``os`` and fails when it is called for the n-th time."""

    def __init__(self, function: Any, at: int, code: int) -> None:
        self.calls = 0
        self._function, self._at, self._code = function, at, code

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls == self._at:
            raise OSError(self._code, os.strerror(self._code))
        return self._function(*arguments, **options)


@pytest.mark.parametrize("name", ["fsync", "replace", "chmod", "fdopen"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_u044_a_call_that_fails(tmp_path, monkeypatch, name, code):
    """U044: every call of the writer fails in its turn: the error tells the cause, the old checkpoint is whole."""
    path = tmp_path / "c.safetensors"
    kept = None
    for at in range(1, 4):
        path.unlink(missing_ok=True)
        classifier().train(*data(16), epochs=1, checkpoint=path)
        kept = path.read_bytes()
        model = classifier()
        failing = _Failing(getattr(os, name), at, code)
        with monkeypatch.context() as patch:
            patch.setattr(os, name, failing)
            refusal = None
            try:
                model.train(*data(16), epochs=2, checkpoint=path, resume=True)
            except WeightFileError as error:
                refusal = error
        if refusal is not None:
            assert refusal.exit_code == 3
            assert os.strerror(code) in str(refusal)
            assert path.read_bytes() == kept
            assert sorted(file.name for file in tmp_path.iterdir()) == ["c.safetensors"]
        else:
            # the second fsync is that of the folder after the rename: the file is there, whole, and newer
            assert failing.calls < at or (name, at) == ("fsync", 2)
            assert whole(path).epoch == 2
        assert whole(path).epoch in (1, 2)


@pytest.mark.parametrize("limit", [1, 10, 100, 1000, 2000, 3000, 4000])
def test_u044_a_limit_on_file_sizes(tmp_path, limit):
    """U044: the file may grow to a limit only, as on a disk that fills up (RLIMIT_FSIZE)."""
    path = tmp_path / "c.safetensors"
    classifier().train(*data(16), epochs=1, checkpoint=path)
    kept = path.read_bytes()
    assert len(kept) > 4000
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
        with pytest.raises(WeightFileError, match="cannot be written: File too large"):
            classifier().train(*data(16), epochs=2, checkpoint=path, resume=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert path.read_bytes() == kept
    assert sorted(file.name for file in tmp_path.iterdir()) == ["c.safetensors"]
    classifier().train(*data(16), epochs=2, checkpoint=path, resume=True)
    assert whole(path).epoch == 2


def test_u044_what_reads_back_differently_does_not_replace_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "c.safetensors"
    classifier().train(*data(16), epochs=1, checkpoint=path)
    kept = path.read_bytes()
    sync = os.fsync

    def spoil(handle: int) -> None:
        sync(handle)
        name = os.readlink(f"/proc/self/fd/{handle}")
        if PREFIX in name:
            with open(name, "r+b") as file:
                file.seek(-3, os.SEEK_END)
                file.write(b"\x55")

    monkeypatch.setattr(os, "fsync", spoil)
    with pytest.raises(WeightFileError, match="does not read back the same"):
        classifier().train(*data(16), epochs=2, checkpoint=path, resume=True)
    assert path.read_bytes() == kept


def test_u044_temporaries_of_dead_writers_are_removed(tmp_path):
    (tmp_path / f"{PREFIX}dead").write_bytes(b"half")
    (tmp_path / "other").write_bytes(b"mine")
    classifier().train(*data(16), epochs=1, checkpoint=tmp_path / "c.safetensors")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["c.safetensors", "other"]


def test_not_enough_space_is_found_before_the_first_step(tmp_path, monkeypatch):
    full = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    recorder = Recorder()
    with pytest.raises(WeightFileError, match="bytes are needed, 1000 are free"):
        classifier().train(*data(16), checkpoint=tmp_path / "c.safetensors", callbacks=[recorder])
    assert recorder.calls == []


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_folder_is_found_before_the_first_step(tmp_path):
    tmp_path.chmod(0o555)
    recorder = Recorder()
    try:
        with pytest.raises(NNTrainerError, match="Permission denied"):
            classifier().train(*data(16), checkpoint=tmp_path / "c.safetensors", callbacks=[recorder])
    finally:
        tmp_path.chmod(0o755)
    assert recorder.calls == []


def test_lock_is_for_one_thread(tmp_path):
    refusals: list[str] = []

    def second() -> None:
        try:
            with RunLock(tmp_path):
                refusals.append("")
        except UsageError as error:
            refusals.append(str(error))

    with RunLock(tmp_path), RunLock(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
        assert (tmp_path / NAME).read_text().strip() == str(os.getpid())
    assert "another thread of this process" in refusals[0]
    assert not (tmp_path / NAME).exists()
    second()
    assert refusals[1] == ""


def test_a_stale_lock_file_is_no_lock(tmp_path):
    (tmp_path / NAME).write_text("999999\n")
    with RunLock(tmp_path):
        pass
    assert not (tmp_path / NAME).exists()


PROGRAM = """
import sys
from pathlib import Path
from small_models import Recorder, classifier, data
path = Path(sys.argv[1])
class Tell(Recorder):
    def saved(self, run, what, path):
        print(run.step, flush=True)
model = classifier(batch_size=4)
print("ready", flush=True)
model.train(*data(21), valid=data(9, 1), epochs=10**6, checkpoint=path, resume=path.exists(), callbacks=[Tell()],
            checkpoint_steps=2)
"""


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=pytest.mark.crash)])
def test_u044_killed_at_random_times(tmp_path, kills):
    """U044: SIGKILL in training and in saving: a whole checkpoint loads, as far as was reported, and it is exact."""
    path = tmp_path / "c.safetensors"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(ROOTS)}
    chance = random.Random(1)
    reached = 0
    for number in range(kills):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(path)], env=environment, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        told = [int(process.stdout.readline())] if number % 4 else []  # most are killed while they train and save
        time.sleep(chance.uniform(0.0, 0.1 if told else 1.0))
        process.kill()
        told += [int(line) for line in process.communicate()[0].splitlines() if line.strip()]
        if path.exists():
            found = whole(path)
            assert found.step >= max([reached, *told]), f"kill {number}"
            reached = found.step
        else:
            assert not told
    assert reached > 0
    stored, straight = classifier(batch_size=4), classifier(batch_size=4)
    stored.load(path)
    straight.train(*data(21), valid=data(9, 1), epochs=10**6, callbacks=[Recorder(stop_step=reached)])
    assert weights(stored) == weights(straight)


def test_u044_temporaries_beside_other_files_are_removed_too(tmp_path):
    (tmp_path / f"{PREFIX}dead").write_bytes(b"half")
    classifier().train(*data(16), epochs=1, save_path=tmp_path / "w.bin")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["w.bin"]
