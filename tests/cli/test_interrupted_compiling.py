"""Ctrl-C while kernels compile: there is no step to finish, so the command ends, and so do the compilers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import write_problem

ROOT = Path(__file__).parents[2]
START = "import sys; from nntrainer_py.cli.train import main; sys.exit(main())"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_the_first_one_ends_it(tmp_path: Path) -> None:
    ini, cache, package = write_problem(tmp_path), tmp_path / "cache", tmp_path / "package"
    shutil.copytree(ROOT / "nntrainer_py", package / "nntrainer_py", ignore=shutil.ignore_patterns("__pycache__"))
    environment = os.environ | {
        "NNTRAINER_CACHE_DIR": str(cache), "XDG_CACHE_HOME": str(cache), "TMPDIR": str(tmp_path),
        "PYTHONPATH": str(package),
    }  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-c", START, str(ini), "--out", str(tmp_path / "run")],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment, cwd=package,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("compiling"):
                break
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert process.returncode == 130
    assert "interrupted before the first step; nothing was changed" in rest
    assert "finishing the step" not in rest
    assert not (tmp_path / "run").exists()
    assert _with(str(cache)) == []


def _with(text: str) -> list[int]:
    """Processes that live and have a text in their environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (place / "environ").read_bytes() and int(place.name) != os.getpid():
                found.append(int(place.name))
        except OSError:
            continue
    return found
