"""``--json``: whatever a command prints is JSON and nothing else, one object a line where it goes on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import Done, command, write_problem

from nntrainer_py.cli.console import JsonLines
from nntrainer_py.training.callbacks import RunFacts
from nntrainer_py.training.history import EpochRow


def _records(done: Done) -> list[dict[str, object]]:
    assert done.code == 0, done.err

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    found = [json.loads(line, parse_constant=refuse) for line in done.out.splitlines()]
    assert found
    return found


def test_every_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    run, data = tmp_path / "run", tmp_path / "valid.dat"
    (check,) = _records(command(capsys, "train", ini, "--check", "--json"))
    trained = _records(command(capsys, "train", ini, "--out", run, "--json"))
    assert [record["event"] for record in trained] == ["epoch"] * 3 + ["result"]
    (inspected,) = _records(command(capsys, "inspect", ini, "--planners", "--json"))
    assert inspected["parameters"] == check["parameters"] == trained[-1]["parameters"] == 67
    done = command(capsys, "infer", ini, "--weights", run, "--data", data, "--json")
    predicted = _records(done)
    assert [record["sample"] for record in predicted] == list(range(40))
    assert json.loads(done.err)["samples"] == 40  # the figures stand beside
    (evaluated,) = _records(command(capsys, "infer", ini, "--weights", run, "--data", data, "--evaluate", "--json"))
    assert evaluated["accuracy"] == trained[-1]["final"]["valid_accuracy"]  # type: ignore[index]
    (reported,) = _records(command(capsys, "report", run, "--json"))
    assert Path(str(reported["report"])).is_file()
    assert len(_records(command(capsys, "describe", "conv2d", "--json"))) == 1
    assert len(_records(command(capsys, "describe", "--json"))) == 1


def test_a_run_that_goes_on_says_from_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini, run = write_problem(tmp_path), tmp_path / "run"
    assert command(capsys, "train", ini, "--out", run, "--epochs", 2, "--quiet").code == 0
    first, *rest = _records(command(capsys, "train", ini, "--out", run, "--resume", "--json"))
    assert first == {"event": "resumed", "epoch": 3, "batch": 1, "step": 12}
    assert [record["event"] for record in rest] == ["epoch", "result"]
    (nothing,) = _records(command(capsys, "train", ini, "--out", run, "--resume", "--json"))
    assert nothing["ended"] == "nothing to do"


def test_figures_that_json_does_not_know_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    row = EpochRow(1, 6, 0.5, {"r2": float("-inf")}, float("nan"), {"r2": 0.25})
    JsonLines().epoch_end(RunFacts(model=None, epochs=1, batch_size=1), row)  # type: ignore[arg-type]
    found = json.loads(capsys.readouterr().out)
    assert (found["metrics"], found["valid_loss"], found["valid_metrics"]) == ({"r2": None}, None, {"r2": 0.25})
