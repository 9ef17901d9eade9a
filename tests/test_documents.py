"""The documents keep their word: model files in them pass the check, their links lead somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "Applications/**/*.md", "benchmarks/**/*.md")
    for path in ROOT.glob(pattern)
)
_TRAIN = "import sys; from nntrainer_py.cli.train import main; sys.exit(main())"


def _blocks(language: str) -> list[object]:
    """Return every fenced block of ``language`` that is a whole model, as parameters named after document and line."""
    found = []
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        for match in re.finditer(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, match.start()) + 1
            found.append(pytest.param(match[1], id=f"{path.relative_to(ROOT)}:{line}"))
    return found


@pytest.mark.parametrize("text", _blocks("ini"))
def test_model_in_a_document_passes_the_check(text: str, tmp_path: Path) -> None:
    model = tmp_path / "model.ini"
    model.write_text(text, encoding="utf-8")
    command = [sys.executable, "-c", _TRAIN, "--check", str(model)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "warning" not in done.stderr.lower()


@pytest.mark.parametrize("path", [pytest.param(path, id=str(path.relative_to(ROOT))) for path in DOCUMENTS])
def test_links_lead_somewhere(path: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (path.parent / target).exists()]
    assert missing == []


def test_the_python_of_the_document_runs(tmp_path: Path) -> None:
    """docs/python.md: its blocks are one program; what it says of their outcome is true."""
    blocks = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs/python.md").read_text(encoding="utf-8"), flags=re.M | re.S
    )
    assert len(blocks) > 8
    shutil.copytree(
        ROOT / "examples" / "digits", tmp_path / "examples" / "digits", ignore=shutil.ignore_patterns("runs")
    )
    program = tmp_path / "program.py"
    program.write_text("\n".join(blocks), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, program], capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "\nstopped good enough\n" in done.stdout


def test_readme_has_the_two_commands() -> None:
    commands = re.findall(r"^```sh\n(.*?)\n```$", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.M | re.S)
    assert commands[0].endswith("nntrainer-train examples/digits/model.ini")
    assert commands[1].endswith("pytest")
    for command in commands[:2]:
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -e ")
        assert "\n" not in command
