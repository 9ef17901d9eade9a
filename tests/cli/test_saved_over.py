"""Weights are never written over a file that the run reads, nor over a pipe or a device."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from commands import MODEL, command, write_problem


@pytest.mark.parametrize(
    ("target", "what"),
    [
        ("model.ini", "the model file"),
        ("./x/../model.ini", "the model file"),
        ("train.dat", "the data of [train_set]"),
        ("valid.dat", "the data of [valid_set]"),
        ("link.bin", "the data of [train_set]"),
        ("other.dat", "the data of --test"),
    ],
)
def test_weights_are_not_written_over_what_is_read(
    tmp_path: Path, target: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = write_problem(tmp_path, MODEL.replace("epochs = 3", f"epochs = 1\nsave_path = {target}"))
    (tmp_path / "x").mkdir()
    (tmp_path / "link.bin").symlink_to("train.dat")
    (tmp_path / "other.dat").write_bytes((tmp_path / "valid.dat").read_bytes())
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    done = command(capsys, "train", ini, "--out", tmp_path / "run", "--test", tmp_path / "other.dat")
    assert done.code == 2
    assert f"would overwrite {what}" in done.err
    assert done.err.count("\n") == 1
    assert "save_path" in done.err
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()} == before
    assert not (tmp_path / "run").exists()


def test_the_two_weight_files_are_not_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path, MODEL.replace("epochs = 3", "save_path = w.bin\nsave_best_path = ./w.bin"))
    done = command(capsys, "train", ini, "--out", tmp_path / "run")
    assert done.code == 2
    assert "save_best_path: " in done.err
    assert "would overwrite what save_path writes" in done.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_or_device_as_save_path_is_refused_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = write_problem(tmp_path, MODEL.replace("epochs = 3", "epochs = 1\nsave_path = pipe"))
    os.mkfifo(tmp_path / "pipe")
    done = command(capsys, "train", ini, "--out", tmp_path / "run")
    assert done.code == 2
    assert "is not a regular file" in done.err
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("key", ["save_path", "save_best_path"])
def test_names_that_are_no_kind_of_weight_file_are_refused_first(
    key: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = write_problem(tmp_path, MODEL.replace("epochs = 3", f"epochs = 3\n{key} = w.onnx"))
    done = command(capsys, "train", ini)
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert done.err.startswith(f"{ini}:4: [Model] {key}: ")
    assert "weights are written as .bin or .safetensors" in done.err
    assert command(capsys, "train", "--check", ini).err == done.err
    assert not (tmp_path / "runs").exists()
