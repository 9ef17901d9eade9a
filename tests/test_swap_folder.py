"""A folder in which no swap file can be made: Python and every command name the line before anything is computed."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from commands import MODEL, command, points, write_problem

from nntrainer_py import Model
from nntrainer_py.errors import UsageError
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.training.finder import find_learning_rate

#: enough layers and weights that something is swapped
WIDE = MODEL.replace(
    "[cloud]",
    "".join(f"[more{i}]\ntype = fully_connected\nunit = 400\nactivation = tanh\n" for i in range(3)) + "[cloud]",
)
X, Y = points(16, 2)

Capture = pytest.CaptureFixture[str]


def problem(folder: Path, place: str) -> Path:
    return write_problem(folder, WIDE.replace("[Model]\n", f"[Model]\nfsu = true\nfsu_path = {place}\n", 1))


@pytest.fixture
def run(tmp_path: Path, capsys: Capture) -> Path:
    """A run folder of the same model without swapping."""
    ini = write_problem(tmp_path / "plain", WIDE)
    assert command(capsys, "train", ini, "--epochs", 1, "--out", tmp_path / "run").code == 0
    return tmp_path / "run"


CALLS: dict[str, Callable[[Model, Path], Any]] = {
    "compile": lambda model, run: model.compile(batch_size=8),
    "train": lambda model, run: model.train(progress=False),
    "train on arrays": lambda model, run: model.train(X, Y, progress=False),
    "train_on_batch": lambda model, run: model.train_on_batch(X, np.eye(3, dtype=np.float32)[Y]),
    "predict": lambda model, run: model.predict(X),
    "predict several": lambda model, run: model.predict(X, batch_size=4),
    "evaluate": lambda model, run: model.evaluate(X, Y),
    "weights": lambda model, run: model.weights(),
    "load": lambda model, run: model.load(run / "model.safetensors"),
    "load bin": lambda model, run: model.load(run / "model.bin"),
    "save": lambda model, run: model.save(run.parent / "new.safetensors"),
    "save bin": lambda model, run: model.save(run.parent / "new.bin"),
    "find rate": lambda model, run: find_learning_rate(model),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=list(CALLS))
def test_python_names_the_line(tmp_path: Path, run: Path, call: Callable[[Model, Path], Any]) -> None:
    ini = problem(tmp_path, "nowhere")
    with pytest.raises(UsageError) as caught:
        call(Model.from_ini(ini), run)
    assert str(caught.value).startswith(f"{ini}:3: [Model] fsu_path: cannot make a swap file of ")
    assert "No such file or directory; choose another fsu_path" in str(caught.value)
    assert not list(run.parent.glob("new.*"))
    (tmp_path / "nowhere").mkdir()
    call(Model.from_ini(ini), run)
    assert list((tmp_path / "nowhere").iterdir()) == []


class Bad(NamedTuple):
    """A place where no swap file can be made, and what the system says to it."""

    place: str
    reason: str


BAD = [Bad("nowhere", "No such file"), Bad("train.dat", "Not a directory"), Bad("/proc", "")]


@pytest.mark.parametrize("bad", BAD, ids=["missing", "a file", "read-only"])
def test_commands_name_the_line(tmp_path: Path, run: Path, capsys: Capture, bad: Bad) -> None:
    if bad.place == "/proc" and not Path("/proc").is_dir():
        pytest.skip("this system has no such folder")
    ini = problem(tmp_path, bad.place)
    start = f"{ini}:3: [Model] fsu_path: cannot make a swap file of "
    data = ("--weights", run, "--data", tmp_path / "valid.dat")
    for words in (("train",), ("train", "--check"), ("infer", *data), ("infer", *data, "--evaluate")):
        done = command(capsys, words[0], ini, *words[1:])
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith(start)
        assert done.err.count("swap file") == 1
        assert bad.reason in done.err
    done = command(capsys, "inspect", ini)  # shows the plan all the same, which needs no file
    assert done.code == 0
    assert done.err.startswith(f"warning: {start}")
    assert "swap" in done.out
    assert not (tmp_path / "runs").exists()


def test_too_little_room(tmp_path: Path, run: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    ini = problem(tmp_path, ".")
    free = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: free)
    start = f"{ini}:3: [Model] fsu_path: cannot make a swap file of "
    for words in (("train",), ("infer", "--weights", run, "--data", tmp_path / "valid.dat")):
        done = command(capsys, words[0], ini, *words[1:])
        assert done.code == 2
        assert start in done.err
        assert "1000 bytes are free on the disk; choose another fsu_path" in done.err
    for call in (CALLS["train"], CALLS["predict"], CALLS["load bin"]):
        with pytest.raises(UsageError, match="1000 bytes are free"):
            call(Model.from_ini(ini), run)


def test_everything_wrong_is_told_together(tmp_path: Path, run: Path, capsys: Capture) -> None:
    ini = problem(tmp_path, "nowhere")
    done = command(capsys, "infer", ini, "--weights", run, "--data", tmp_path / "nix.dat")
    assert "[Model] fsu_path: cannot make" in done.err
    assert "--data: " in done.err


def test_where_the_file_names_no_folder(tmp_path: Path) -> None:
    """The folder of the INI itself, which has become unusable; and a folder that a caller named."""
    ini = write_problem(tmp_path / "model", WIDE.replace("[Model]\n", "[Model]\nfsu = true\n", 1))
    model = Model.from_ini(ini)
    shutil.rmtree(tmp_path / "model")
    with pytest.raises(UsageError, match=rf"^{ini}: \[Model\] fsu_path: cannot make a swap file"):
        model.predict(X)
    plain = write_problem(tmp_path / "plain", WIDE)
    with pytest.raises(UsageError, match=r"^swap_folder: cannot make a swap file .*nix"):
        Model.from_ini(plain).compile(swap=True, swap_folder=str(tmp_path / "nix"))
    layers = [Input(input_shape="1:1:4"), *(FullyConnected(unit=300, activation="tanh") for _ in range(4))]
    built = Model.build(layers, model={"loss": "mse", "fsu": True, "fsu_path": str(tmp_path / "nix")}, optimizer="sgd")
    with pytest.raises(UsageError, match=r"^\[Model\] fsu_path: cannot make a swap file"):
        built.predict(X)


def test_a_budget_that_needs_the_file(tmp_path: Path) -> None:
    """Only a plan that swaps asks for the folder."""
    ini = write_problem(tmp_path, WIDE.replace("[Model]\n", "[Model]\nfsu_path = nix\nmemory_budget = 4MB\n", 1))
    with pytest.raises(UsageError, match=rf"^{ini}:2: \[Model\] fsu_path: cannot make a swap file"):
        Model.from_ini(ini).train(X, Y, progress=False)
    Model.from_ini(ini, ["model.memory_budget=1GB"]).train(X, Y, epochs=1, progress=False)


def test_copies_of_weights_need_the_folder_too(tmp_path: Path, capsys: Capture) -> None:
    """With a budget the weights of the best epoch wait in a file; without one in memory, which the plan then tells."""
    ini = write_problem(tmp_path, WIDE.replace("[Model]\n", "[Model]\nfsu_path = nix\n", 1))
    model = Model.from_ini(ini, ["model.memory_budget=1GB"])
    with pytest.raises(UsageError, match=rf"^{ini}:2: \[Model\] fsu_path: cannot make a swap file of [0-9]+ bytes"):
        model.train(X, Y, epochs=1, patience=1, progress=False)
    with pytest.raises(UsageError, match=rf"^{ini}:2: \[Model\] fsu_path: cannot make a swap file of [0-9]+ bytes"):
        find_learning_rate(model)
    given = "train", ini, "--patience", 1, "--epochs", 1, "--out", tmp_path / "out"
    done = command(capsys, *given, "--memory-budget", "1GB")
    assert (done.code, (tmp_path / "out").exists()) == (2, False)
    assert f"{ini}:2: [Model] fsu_path: cannot make" in done.err
    told = command(capsys, *given, "--check")
    assert told.code == 0, told.err
    assert "weights of the best epoch" in told.out
    assert command(capsys, *given).code == 0


def test_what_fails_later_names_the_line_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write in the middle of a step, and a file that must grow for a larger batch."""
    ini = write_problem(tmp_path, WIDE.replace("[Model]\n", "[Model]\nfsu = true\nfsu_path = .\n", 1))
    model = Model.from_ini(ini)
    model.train_on_batch(X, np.eye(3, dtype=np.float32)[Y])

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(UsageError, match=rf"^{ini}:3: \[Model\] fsu_path: cannot write the swap file in "):
        model.train_on_batch(X, np.eye(3, dtype=np.float32)[Y])
    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    with pytest.raises(UsageError, match=rf"^{ini}:3: \[Model\] fsu_path: cannot make a swap file of "):
        model.train_on_batch(np.repeat(X, 40, 0), np.repeat(np.eye(3, dtype=np.float32)[Y], 40, 0))
