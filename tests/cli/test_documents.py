"""docs/commands.md: its commands run, in its order; the files that it lists are those of a run."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from commands import command

from nntrainer_py.cli.warm import parser as warm_parser

ROOT = Path(__file__).resolve().parent.parent.parent
TEXT = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")


def test_the_commands_of_the_document_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(
        ROOT / "examples" / "digits", tmp_path / "examples" / "digits", ignore=shutil.ignore_patterns("runs")
    )
    monkeypatch.chdir(tmp_path)
    lines = re.findall(r"^```sh\n(.*?)\n```$", TEXT, flags=re.M | re.S)
    assert len(lines) == 6
    for line in lines:
        name, *words = shlex.split(line)
        if words[0] == "warm":  # compiles for a minute into a folder of the system; test_warm.py runs it
            assert Path(warm_parser().parse_args(words[1:]).model).is_file()
            continue
        if name == "nntrainer-train":
            words += ["--epochs", "1"]  # all epochs are run by the test of the example
        module = "main" if name == "nntrainer" else name.removeprefix("nntrainer-")
        done = command(capsys, module, *words)
        assert done.code == 0, (line, done.err)
        assert done.out
    run = tmp_path / "examples" / "digits" / "runs" / "model-1"
    listed = {name for row in re.findall(r"^\| (`.*?) \|", TEXT, flags=re.M) for name in re.findall(r"`([^`]+)`", row)}
    assert listed | {"report.html"} == {path.name for path in run.iterdir()}


def test_the_table_of_the_document_is_true(capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = re.findall(r"^\$ nntrainer-train (--check.*?)\n```$", TEXT, flags=re.M | re.S)
    first, *lines = shown.splitlines()
    done = command(capsys, "train", *shlex.split(first.replace("examples", str(ROOT / "examples"))))
    # where outputs lie, and so the arena, changes with the planner; layers, shapes and weights do not
    found = [_without_last(line) for line in done.out.splitlines()]
    for line in lines:
        if line != "..." and not line.startswith(_PLANNED):
            assert _without_last(line) in found, line
    # behind the table every line is shown, in its order
    shown = [line for line in lines[lines.index("...") + 1 :] if line]
    real = [line for line in found[found.index("", 3) + 1 :] if line]
    assert [line.split("  ")[0] for line in shown] == [line.split("  ")[0] for line in real]


#: lines with figures that depend on the planner
_PLANNED = ("arena", "data buffers", "total", "recomputed")


def _without_last(line: str) -> str:
    """A row of the table without its last column; other lines whole."""
    return re.sub(r"  (no|yes|view|fused)$", "", line)
