"""The README's first command as a user gives it: what it learns, its report in a browser, its weights in use."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import browse, colours, needs_browser
from commands import Done, command, process

ROOT = Path(__file__).resolve().parents[2]
#: of the light theme of the report: training, validation, paper
ONE, TWO, PAPER = (0x1F, 0x5F, 0xBF), (0xD2, 0x69, 0x1E), (255, 255, 255)


@dataclass(frozen=True)
class _Run:
    """The folder in which the command was given, what it left, and what it said."""

    home: Path
    folder: Path
    done: Done

    def rows(self) -> list[dict[str, str]]:
        with (self.folder / "history.csv").open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    def result(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "result.json").read_text(encoding="utf-8"))
        return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> _Run:
    home = tmp_path_factory.mktemp("readme")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (words,) = re.findall(r"\.venv/bin/(nntrainer-train .*)$", readme, flags=re.M)
    shutil.copytree(ROOT / "examples" / "digits", home / "examples" / "digits", ignore=shutil.ignore_patterns("runs"))
    guard = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "offline_guard"), str(ROOT)])}
    done = process("train", *words.split()[1:], cwd=home, env=guard)
    return _Run(home, home / "examples" / "digits" / "runs" / "model-1", done)


def test_digits_learns(run: _Run) -> None:
    assert run.done.code == 0, run.done.err
    rows = run.rows()
    assert [int(row["epoch"]) for row in rows] == list(range(1, 21))
    assert float(rows[-1]["valid_accuracy"]) >= 0.98
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"])


def test_what_the_terminal_shows_is_what_the_document_shows(run: _Run) -> None:
    """docs/commands.md: its lines are those of this run, apart from their figures, and in their order at the end."""
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(epoch  1/20.*?)\n```", text, flags=re.S)
    said, told = ([_without_figures(line) for line in lines.splitlines()] for lines in (run.done.out, shown))
    epoch = told[0]
    assert said.count(epoch) == 20
    # without the extra `plot` there is one line more, which the document describes
    assert [line for line in said if line != epoch and not line.startswith("pictures ")] == [
        line for line in told if line not in (epoch, "...")
    ]


def _without_figures(line: str) -> str:
    line = re.sub(r"\d+(\.\d+)?([eE]-?\d+)?", "#", line.replace(" (best)", ""))
    return re.sub(r" +", " ", line.replace("# min # s", "# s").replace("# ms", "# s").replace("MiB", "KiB"))


def test_infer_gives_the_accuracy_that_was_reported(run: _Run, capsys: pytest.CaptureFixture[str]) -> None:
    """`nntrainer-infer` on the trained digits, from each file of weights; counted from its predictions, too."""
    digits = run.home / "examples" / "digits"
    ini, data = digits / "model.ini", digits / "digits_test.dat"
    result = run.result()
    reported, best = result["final"], result["best"]
    files = {"": reported, "model.bin": reported, "model.safetensors": reported, "best.safetensors": best}
    for name, figures in files.items():
        done = command(capsys, "infer", ini, "--weights", run.folder / name, "--data", data, "--evaluate", "--json")
        assert done.code == 0, done.err
        found = json.loads(done.out)
        assert (found["accuracy"], found["loss"]) == (figures["valid_accuracy"], figures["valid_loss"]), name
    done = command(capsys, "infer", ini, "--weights", run.folder, "--data", data, "--output", run.home / "p.csv")
    assert done.code == 0, done.err
    with (run.home / "p.csv").open(encoding="utf-8", newline="") as file:
        classes = np.array([int(row["class"]) for row in csv.DictReader(file)])
    labels = np.fromfile(data, "<f4").reshape(-1, 74)[:, 64:].argmax(axis=1)
    assert (classes == labels).mean() == reported["valid_accuracy"]


def test_installed_programs_are_these_functions() -> None:
    """The commands of the README are entry points of the package."""
    text = (ROOT / "setup.cfg").read_text(encoding="utf-8")
    found = dict(re.findall(r"^    (nntrainer[\w-]*) = nntrainer_py\.cli\.(\w+):main$", text, flags=re.M))
    wanted = {"nntrainer": "main"} | {f"nntrainer-{name}": name for name in ("train", "infer", "inspect", "report")}
    assert found == wanted
    beside = Path(sys.executable).parent / "nntrainer-train"
    if not beside.is_file():
        pytest.skip("the package is not installed here")
    done = subprocess.run([beside, "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[0]) == (0, "nntrainer_py")


@needs_browser
def test_the_report_in_a_browser(run: _Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Curves are drawn, the console is silent, nothing is asked for."""
    done = command(capsys, "report", run.folder, "--out", tmp_path / "report.html", "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    seen = browse(tmp_path / "report.html", tmp_path / "browser")
    assert seen.complaints == []
    assert seen.asked == set()
    found = colours(seen.picture)
    assert found[PAPER] > 100_000
    assert min(found.get(ONE, 0), found.get(TWO, 0)) > 300  # the lines of training and of validation
