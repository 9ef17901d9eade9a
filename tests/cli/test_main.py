"""The command of all verbs, and what all commands share: help with an example and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import command, write_problem

from nntrainer_py.cli.main import VERBS
from nntrainer_py.version import __version__


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "version"])
def test_every_verb_explains_itself(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = command(capsys, "main", verb, "--help")
    assert (done.code, done.err) == (0, "")
    assert f"usage: nntrainer {verb}" in done.out
    for word in ("example:", "exit codes:", "130", "143"):
        assert word in done.out
    assert command(capsys, verb, "--version").out == f"nntrainer_py {__version__}\n"


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(capsys, "main", "version").out == f"nntrainer_py {__version__}\n"
    assert all(verb in command(capsys, "main", "--help").out for verb in VERBS)
    assert command(capsys, "main").code == 2
    done = command(capsys, "main", "trian")
    assert done.code == 2
    assert "did you mean 'train'?" in done.err


def test_the_verbs_do_what_the_commands_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    assert command(capsys, "main", "train", ini, "--epochs", 1, "--quiet").code == 0
    run = tmp_path / "runs" / "model-1"
    done = command(
        capsys, "main", "infer", ini, "--weights", run, "--data", tmp_path / "valid.dat", "--evaluate", "--json"
    )
    assert json.loads(done.out)["samples"] == 40
    assert command(capsys, "main", "inspect", ini).out == command(capsys, "inspect", ini).out
    assert command(capsys, "main", "report", run, "--quiet").code == 0
