"""Kernels compiled in other processes: what is missing, that it is found afterwards, and what goes wrong quietly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nntrainer_py.tensor.kernels import elementwise, precompile
from nntrainer_py.tensor.kernels.compile import types
from nntrainer_py.tensor.kernels.precompile import decode, encode, missing

ROOT = Path(__file__).resolve().parents[3]

#: run in a process of its own, so that nothing is loaded yet: what is missing before and after, and what is said
PROBE = """
import sys
from pathlib import Path
import numpy as np
from nntrainer_py.tensor.kernels.cache_location import use_only
folder = Path(sys.argv[1])
use_only(folder)
from nntrainer_py.tensor.kernels import elementwise, precompile
x = np.zeros(8, np.float32)
calls = [(elementwise.add.function, (x, x, None, 1)), (elementwise.add.function, (x, x, None, 1)), (np.copyto, (x, x))]
precompile.announce_to(lambda text: print(text))
jobs = precompile.missing(calls)
precompile.precompile(jobs, folder)
print(len(jobs), len(precompile.missing(calls)), len(elementwise.add.signatures))
elementwise.add(x, x, None, 1)
"""


def probe(folder: Path, code: str = PROBE, cwd: Path | None = None) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, str(folder)],
        capture_output=True, text=True, env=environment, check=True, cwd=cwd,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_what_is_missing_is_compiled_elsewhere_and_only_once(tmp_path: Path) -> None:
    said = probe(tmp_path)
    assert said == ["compiling 1 kernel, first run only", "1 0 0"]  # nothing compiled in the process itself
    assert probe(tmp_path) == ["0 0 0"]


def test_a_package_of_our_name_in_the_current_folder_is_not_run(tmp_path: Path) -> None:
    impostor, kernels = tmp_path / "here" / "nntrainer_py", tmp_path / "kernels"
    impostor.mkdir(parents=True)
    kernels.mkdir()
    mark = tmp_path / "mark"
    (impostor / "__init__.py").write_text(f"open({str(mark)!r}, 'w').close()", encoding="utf-8")
    assert probe(kernels, cwd=impostor.parent) == ["compiling 1 kernel, first run only", "1 0 0"]
    assert not mark.exists()


def test_a_folder_that_vanishes_leaves_the_compiling_to_the_first_call(tmp_path: Path) -> None:
    code = PROBE.replace("precompile.precompile(jobs, folder)", "pass")
    assert probe(tmp_path, code) == ["1 1 0"]


@pytest.mark.parametrize(
    "value",
    [
        3, 2.5, True, None, np.float32(1), np.float64(1), np.int64(3), np.zeros(3, np.float32),
        np.zeros((2, 2), np.uint8),
        np.zeros((2, 3, 4), np.float64)[:, ::2], np.broadcast_to(np.zeros(1, np.float32), (3,)), (1, 2), (1, 2.5),
        (np.zeros(1), np.zeros(1)), np.zeros(4, bool),
    ],
)  # fmt: skip
def test_types_survive_the_journey(value: object) -> None:
    kind = elementwise.add.function.typeof_pyval(value)
    assert decode(encode(kind)) == kind


def test_types_of_no_kernel_are_refused() -> None:
    with pytest.raises(TypeError, match="no kernel takes"):
        encode(types.unicode_type)


def test_functions_that_are_no_kernels_are_passed_over() -> None:
    assert missing([(np.add, (1, 2)), (print, ())]) == []


def test_the_other_process_takes_only_modules_of_kernels() -> None:
    assert "no module of kernels" in precompile._compile("os", "system", ["int64"])
    assert "no module of kernels" in precompile._compile("nntrainer_py.model", "Model", [])


def test_a_kernel_that_cannot_be_compiled_is_left_to_its_first_call() -> None:
    assert (
        precompile._compile("nntrainer_py.tensor.kernels.elementwise", "add", ["none", "none", "none", "int64"]) != ""
    )
