"""What a budget costs in time: told beside the prediction after a run, and paid for by no bit of the result."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import command, write_problem

from nntrainer_py import Model
from nntrainer_py.cli.costs import StepCost, step_cost
from nntrainer_py.cli.run_folder import WEIGHTS
from nntrainer_py.training.feeding import open_loaders

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "model.ini"


def _run(capsys: pytest.CaptureFixture[str], out: Path, *options: str) -> tuple[str, dict[str, float] | None, bytes]:
    """What a run of one epoch says and measures, and its weights."""
    done = command(capsys, "train", DIGITS, "--epochs", "1", "--out", out, *options)
    assert done.code == 0, done.err
    record = json.loads((out / "result.json").read_text(encoding="utf-8"))
    return done.out, record["memory"]["cost"], (out / WEIGHTS).read_bytes()


@pytest.mark.parametrize("swap", [False, True])
def test_the_cost_stands_beside_the_prediction(swap: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = _run(capsys, tmp_path / "plain", "--set", "model.memory_optimization=false")
    options = ["--set", f"model.fsu={str(swap).lower()}", "--set", f"model.fsu_path={tmp_path}"]
    said, cost, weights = _run(capsys, tmp_path / "run", "--memory-budget", "1700KB", *options)
    assert plain[1] is None
    assert "cost " not in plain[0]
    assert weights == plain[2]
    assert cost is not None
    assert cost["predicted"] > 1.0
    assert cost["measured"] > 1.0
    paid = cost["recomputing"] + cost["swapping"]
    assert 0.0 < paid < cost["seconds"] < 60.0
    assert cost["measured"] == pytest.approx(cost["seconds"] / (cost["seconds"] - paid))
    assert (cost["swapping"] > 0.0) == swap
    (line,) = (line for line in said.splitlines() if line.startswith("cost "))
    for figure in (f"{cost['measured']:.2f} times", f"(predicted {cost['predicted']:.2f})", "recomputing"):
        assert figure in line
    assert command(capsys, "report", tmp_path / "run").code == 0
    assert str(StepCost(**cost)) in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_a_run_too_short_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The third step is the one that is measured."""
    said, cost, _ = _run(capsys, tmp_path / "run", "--batch-size", "1000")
    assert cost is not None
    assert cost["measured"] is None
    assert "too short to measure" in said


def test_nothing_is_paid_where_nothing_is_gained(tmp_path: Path) -> None:
    model = Model.from_ini(write_problem(tmp_path))
    loaders = open_loaders(model)
    assert step_cost(model, loaders.train) is None
    loaders.close()


def test_a_damaged_cost_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _run(capsys, tmp_path / "run")
    path = tmp_path / "run" / "result.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record["memory"]["cost"] = {"predicted": 1.0, "guessed": 2.0}
    path.write_text(json.dumps(record), encoding="utf-8")
    done = command(capsys, "report", tmp_path / "run")
    assert done.code == 3
    assert "cannot be read" in done.err
