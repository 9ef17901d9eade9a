"""Streams that are closed, and file names that the system's encoding lacks."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from commands import MODEL, process, program, write_problem

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_cost_neither_the_run_nor_a_file(tmp_path: Path, closed: str) -> None:
    ini = write_problem(tmp_path, MODEL.replace("epochs = 3", "epochs = 1"))
    words = [*program("train"), str(ini), "--out", str(tmp_path / "run")]
    done = subprocess.run(["sh", "-c", f"{shlex.join(words)} {closed}"], capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr
    assert (tmp_path / "run" / "history.csv").read_text(encoding="utf-8").startswith("epoch,loss")
    assert (tmp_path / "run" / "model.bin").stat().st_size > 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_fault_keeps_its_exit_code_without_streams(tmp_path: Path, closed: str) -> None:
    words = [*program("train"), "--check", str(tmp_path / "none.ini")]
    assert subprocess.run(["sh", "-c", f"{shlex.join(words)} {closed}"], timeout=300).returncode == 2


def test_a_name_that_no_file_can_have_here_is_no_internal_error(tmp_path: Path) -> None:
    ini = write_problem(tmp_path, MODEL.replace("train.dat", "훈련.dat"))
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = process("train", ini, "--out", tmp_path / "run", env=os.environ | plain)
    if done.code == 0:
        pytest.skip("this system takes every name, whatever the locale says")
    assert done.code in (2, 3)
    assert "internal error" not in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "run").exists()
