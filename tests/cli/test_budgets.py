"""Budgets on the command line: one figure, the place where the budget stands, and a smallest that is accepted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from commands import command, write_problem

BUDGET = re.compile(r"the smallest that would do is [^(]*\((\d+) bytes\)")
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "model.ini"
ATTENTION = """
[Model]
loss = mse
batch_size = 8
[Optimizer]
type = adam
[in]
type = input
input_shape = 1:12:16
[place]
type = positional_encoding
max_timestep = 40
[fc]
type = fully_connected
unit = 16
"""


def named(text: str) -> int:
    found = BUDGET.search(text)
    assert found is not None, text
    assert len(BUDGET.findall(text)) == 1  # told once
    return int(found[1])


@pytest.mark.parametrize("batch", ["7", "90"])
@pytest.mark.parametrize("splits", ["true", "false"])
def test_the_smallest_is_accepted(splits: str, batch: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    for words in (("--check",), ("--epochs", "1")):
        options = (*words, "--batch-size", batch, "--set", f"model.micro_batches={splits}")
        refused = command(capsys, "train", ini, *options, "--memory-budget", "1")
        assert refused.code == 2
        assert "[Model] memory_budget: nothing fits" in refused.err
        least = named(refused.err)
        assert named(command(capsys, "train", ini, *options, "--memory-budget", str(least - 1)).err) == least
        done = command(capsys, "train", ini, *options, "--memory-budget", str(least))
        assert done.code == 0, done.err


def test_the_smallest_is_accepted_where_batches_cannot_be_split(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--check", "--set", "model.micro_batches=true")
    refused = command(capsys, "train", DIGITS, *options, "--memory-budget", "1")
    assert "micro_batches cannot help: norm1" in refused.err
    assert command(capsys, "train", DIGITS, *options, "--memory-budget", str(named(refused.err))).code == 0


@pytest.mark.parametrize("kind", ["dat", "csv"])
@pytest.mark.parametrize("place", ["ini", "option"])
def test_inference_names_the_place_of_the_budget(
    place: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = write_problem(tmp_path)
    run = tmp_path / "run"
    assert command(capsys, "train", ini, "--epochs", "1", "--out", run).code == 0
    text = ini.read_text(encoding="utf-8")
    (tmp_path / "valid.csv").write_text("".join(f"{n},1,2,3,{n % 3}\n" for n in range(900)), encoding="utf-8")

    def infer(budget: int):
        more = ["--memory-budget", str(budget)] if place == "option" else []
        if place == "ini":
            ini.write_text(text.replace("[Model]\n", f"[Model]\nmemory_budget = {budget}\n", 1), encoding="utf-8")
        return command(capsys, "infer", ini, "--weights", run, "--data", tmp_path / f"valid.{kind}", "--quiet", *more)

    refused = infer(1)
    assert refused.code == 2
    assert "--weights" not in refused.err
    where = f"{ini}:" if place == "ini" else ""
    assert where in refused.err
    assert "[Model] memory_budget: nothing fits" in refused.err
    least = named(refused.err)
    assert named(infer(least - 1).err) == least
    assert infer(least).out


@pytest.mark.parametrize("what", ["digits", "tables"])
def test_total_and_planned_are_one_figure(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = DIGITS
    if what == "tables":
        path = tmp_path / "m.ini"
        path.write_text(ATTENTION, encoding="utf-8")
    least = named(command(capsys, "train", "--check", path, "--memory-budget", "1").err)
    for budget in (least, least + 1000, 4 * least):
        options = ("--check", path, "--memory-budget", str(budget))
        memory = json.loads(command(capsys, "train", *options, "--json").out)["memory"]
        assert least <= memory["total"] <= budget or budget == least
        assert memory["total"] <= budget
        lines = dict(re.findall(r"^(\w[\w ]*?)  +(.*)$", command(capsys, "train", *options).out, re.MULTILINE))
        assert lines["budget"].endswith(f", planned {lines['total']}")
        assert (memory["tables"] > 0) == (what == "tables") == ("tables" in lines)
