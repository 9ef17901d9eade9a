"""nntrainer warm --prune: folders of other versions go; nothing else does, and none that may be in use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import command

from nntrainer_py.cli import prune
from nntrainer_py.tensor.kernels.cache_location import fingerprint

DAY = 86_400.0
OLD = "kernels-0123456789abcdef0123"


def kernels(base: Path, name: str = OLD, *, days: float = 30.0) -> Path:
    """A folder of kernels that was last used so many days ago."""
    folder = base / name
    folder.mkdir(parents=True)
    when = time.time() - days * DAY
    for file in ("matmul.matmul-12.py311.nbi", "matmul.matmul-12.py311.1.nbc", "matmul.matmul-12.py311.nbi.tmp.0a1b"):
        (folder / file).write_bytes(b"x" * 1000)
        os.utime(folder / file, (when, when))
    os.utime(folder, (when, when))
    return folder


def pruned(capsys: pytest.CaptureFixture[str], base: Path, *options: str) -> dict[str, list[dict[str, object]]]:
    done = command(capsys, "warm", "--prune", "--to", base, "--json", *options)
    assert done.code == 0, done.err
    found: dict[str, list[dict[str, object]]] = json.loads(done.out)
    return found


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process runs compiled kernels."""
    monkeypatch.setattr(prune, "_starts", lambda: iter(()))


@pytest.mark.usefixtures("idle")
def test_old_folders_go_and_the_present_one_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, present = kernels(tmp_path, days=0.0), kernels(tmp_path, f"kernels-{fingerprint()}")
    (tmp_path / "kernels-notes").mkdir()
    (tmp_path / "kernels-0123456789abcdef0123.txt").write_text("mine")
    listed = pruned(capsys, tmp_path, "--dry-run")
    assert listed["removed"] == [{"folder": str(old), "bytes": 3000}]
    assert old.is_dir()
    assert pruned(capsys, tmp_path)["removed"] == listed["removed"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "kernels-0123456789abcdef0123.txt", present.name, "kernels-notes",
    ]  # fmt: skip
    assert len(list(present.iterdir())) == 3
    done = command(capsys, "warm", "--prune", "--to", tmp_path)
    assert (done.code, done.out) == (0, "removed 0 folders, 0 B; kept 0\n")


@pytest.mark.usefixtures("idle")
def test_links_and_foreign_things_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "weights.nbc").write_text("not to be lost")
    base = tmp_path / "cache"
    linked = base / "kernels-00000000000000000001"
    base.mkdir()
    linked.symlink_to(precious, target_is_directory=True)
    holding_link = kernels(base, "kernels-00000000000000000002")
    (holding_link / "a.nbc").symlink_to(precious / "weights.nbc")
    holding_folder = kernels(base, "kernels-00000000000000000003")
    (holding_folder / "b.nbc").mkdir()
    holding_file = kernels(base, "kernels-00000000000000000004")
    (holding_file / "notes.txt").write_text("mine")
    found = pruned(capsys, base)
    assert found["removed"] == []
    foreign = [f"holds '{name}', which is no compiled kernel" for name in ("a.nbc", "b.nbc", "notes.txt")]
    assert [one["reason"] for one in found["kept"]] == ["is no folder of its own", *foreign]
    assert (precious / "weights.nbc").read_text() == "not to be lost"
    assert all(len(list(folder.iterdir())) == 4 for folder in (holding_link, holding_folder, holding_file))
    assert prune.remove(prune.OldFolder(linked, 0, 0.0)) != ""  # a link put in the place of a folder meanwhile
    assert (precious / "weights.nbc").exists()


def test_what_a_running_process_may_use_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A real process that has loaded LLVM: what was used since the day before it began stays, older folders go."""
    if not Path("/proc/self/maps").exists():
        pytest.skip("running processes cannot be seen here")
    code = "import llvmlite.binding, sys; print('ready', flush=True); sys.stdin.read()"
    running = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        used, unused = kernels(tmp_path, days=0.5), kernels(tmp_path, "kernels-0123456789abcdef0124", days=400.0)
        found = pruned(capsys, tmp_path)
        assert [one["folder"] for one in found["removed"]] == [str(unused)]
        (kept,) = found["kept"]
        assert (kept["folder"], kept["reason"]) == (str(used), "may be in use by a running process")
        assert len(list(used.iterdir())) == 3
    finally:
        running.communicate("")


def test_where_processes_cannot_be_seen_a_week_must_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "_begun", lambda: None)
    recent, old = kernels(tmp_path, days=6.0), kernels(tmp_path, "kernels-0123456789abcdef0124", days=8.0)
    found = pruned(capsys, tmp_path)
    assert [one["folder"] for one in found["removed"]] == [str(old)]
    assert [one["folder"] for one in found["kept"]] == [str(recent)]


def test_words_that_do_not_go_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = command(capsys, "warm", "--prune", tmp_path / "model.ini")
    assert (done.code, "give no model" in done.err) == (2, True)
    done = command(capsys, "warm", "--dry-run")
    assert (done.code, "--dry-run needs --prune" in done.err) == (2, True)
    done = command(capsys, "warm", "--prune", "--to", tmp_path / "nowhere")
    assert (done.code, done.out) == (0, "removed 0 folders, 0 B; kept 0\n")
    assert not (tmp_path / "nowhere").exists()
