"""A run folder that somebody else prepared: nothing outside of it is written to or removed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from commands import MODEL, command, write_problem

from nntrainer_py.cli.run_folder import FILES, LOG, TENSORBOARD


@pytest.fixture
def finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    ini = write_problem(tmp_path, MODEL.replace("epochs = 3", "epochs = 1"))
    assert command(capsys, "train", ini, "--out", tmp_path / "run").code == 0
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "file").write_text("precious", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("name", [name for name in FILES if name not in ("checkpoint.safetensors",)])
def test_resuming_does_not_follow_links_out_of_the_folder(
    finished: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (finished / "run" / name).unlink(missing_ok=True)
    (finished / "run" / name).symlink_to("../victim/file")
    done = command(capsys, "train", finished / "model.ini", "--out", finished / "run", "--resume", "--epochs", 2)
    assert done.code == 2
    assert f"{name} is not a regular file" in done.err
    assert (finished / "victim" / "file").read_text(encoding="utf-8") == "precious"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_the_place_of_the_log_does_not_hang_the_run(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (finished / "run" / LOG).unlink()
    os.mkfifo(finished / "run" / LOG)
    done = command(capsys, "train", finished / "model.ini", "--out", finished / "run", "--resume", "--epochs", 2)
    assert done.code == 2
    assert "is not a regular file" in done.err


def test_overwriting_replaces_links_and_not_what_they_lead_to(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in FILES:
        (finished / "run" / name).unlink(missing_ok=True)
        (finished / "run" / name).symlink_to("../victim/file")
    assert command(capsys, "train", finished / "model.ini", "--out", finished / "run", "--overwrite").code == 0
    assert (finished / "victim" / "file").read_text(encoding="utf-8") == "precious"
    assert [path.name for path in (finished / "victim").iterdir()] == ["file"]


@pytest.mark.parametrize("way", ["--resume", "--overwrite"])
def test_event_files_of_others_are_not_removed(finished: Path, way: str, capsys: pytest.CaptureFixture[str]) -> None:
    events = finished / "victim" / "events.out.tfevents.1.host"
    events.write_bytes(b"x")
    shutil.rmtree(finished / "run" / TENSORBOARD, ignore_errors=True)
    (finished / "run" / TENSORBOARD).symlink_to("../victim", target_is_directory=True)
    done = command(capsys, "train", finished / "model.ini", "--out", finished / "run", way)
    assert done.code == 2
    assert "is a link" in done.err
    assert events.read_bytes() == b"x"
