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


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("names", [["model.bin"], ["model.ini"], ["result.json", "history.csv"], ["run.log"]])
def test_a_folder_without_a_run_keeps_the_files_that_a_run_would_replace(
    names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini, out = write_problem(tmp_path), tmp_path / "mine"
    out.mkdir()
    for name in names:
        (out / name).write_text("precious", encoding="utf-8")
    before = _contents(out)
    for options in ([], ["--overwrite"], ["--resume"]):
        assert command(capsys, "train", ini, "--epochs", 1, "--out", out, *options).code == 2
        assert _contents(out) == before
    done = command(capsys, "train", ini, "--epochs", 1, "--out", out, "--overwrite")
    assert done.err.count("\n") == 1
    assert f"{out} holds no run, but files that a run would replace (" in done.err
    assert all(name in done.err for name in names)
    assert "choose another folder" in done.err


def test_a_folder_without_such_files_and_a_run_that_was_killed_early_are_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini, out = write_problem(tmp_path), tmp_path / "run"
    out.mkdir()
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    words = (ini, "--epochs", 1, "--out", out, "--overwrite")
    assert command(capsys, "train", *words).code == 0
    for name in FILES:  # what is there before the first checkpoint
        if name not in (LOG, "model.ini", "history.csv", "history.jsonl"):
            (out / name).unlink(missing_ok=True)
    assert command(capsys, "train", *words).code == 0
    assert (out / "notes.txt").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("way", ["--overwrite", "--resume"])
@pytest.mark.parametrize("what", ["model", "linked model", "train", "section", "backbone"])
def test_a_run_never_writes_over_what_it_reads(
    way: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the folder holds a run: its own description edited and trained again, data called like one of it."""
    text = MODEL.replace("epochs = 3", "epochs = 1")
    ini, out = write_problem(tmp_path, text), tmp_path / "run"
    options: list[object] = []
    if what == "backbone":
        head, cloud, rest = text.partition("[cloud]")
        (tmp_path / "base.ini").write_text(head[head.index("[hidden]") :], encoding="utf-8")
        text = f"{head[: head.index('[hidden]')]}[base]\nbackbone = base.ini\n\n{cloud}{rest}"
        ini.write_text(text, encoding="utf-8")
    assert command(capsys, "train", ini, "--out", out).code == 0
    if what == "model":
        ini = out / "model.ini"
        ini.write_text(f"# precious\n{ini.read_text(encoding='utf-8')}", encoding="utf-8")
    elif what == "linked model":
        ini = tmp_path / "link.ini"
        ini.symlink_to("run/model.ini")
    elif what == "train":
        shutil.copy(tmp_path / "train.dat", out / "model.bin")
        options = ["--train", out / "model.bin"]
    elif what == "section":
        shutil.copy(tmp_path / "train.dat", out / "model.bin")
        ini.write_text(text.replace("path = train.dat", "path = run/model.bin"), encoding="utf-8")
    else:
        shutil.copy(tmp_path / "base.ini", out / "model.ini")
        ini.write_text(text.replace("base.ini", "run/model.ini"), encoding="utf-8")
    before = _contents(out)
    done = command(capsys, "train", ini, *options, "--out", out, way, "--epochs", 2)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert "the run would overwrite " in done.err
    assert str(out / ("model.bin" if what in ("train", "section") else "model.ini")) in done.err
    assert _contents(out) == before
