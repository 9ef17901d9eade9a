"""What starting up may load and set: no linear algebra of SciPy, no import of what is not needed, a short spin."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

STEP = """
import sys
import numpy as np
from nntrainer_py import Model
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
model = Model.build([Input(input_shape="1:1:3"), FullyConnected(unit=2)], model={"loss": "mse"}, optimizer="sgd")
model.compile(2, threads=1)
model.train_on_batch(np.zeros((2, 1, 1, 3), np.float32), np.zeros((2, 1, 1, 2), np.float32))
"""


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "NUMBA_"))}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True,
        env=kept | {"PYTHONPATH": str(ROOT)} | environment,
    )  # fmt: skip


def test_importing_the_package_loads_neither_numpy_nor_numba() -> None:
    found = run("import sys, nntrainer_py; print({'numpy', 'numba', 'scipy'} & set(sys.modules))").stdout
    assert found.strip() == "set()"


def test_a_first_step_loads_no_linear_algebra_and_nothing_optional() -> None:
    names = "('scipy.linalg', 'scipy.sparse', 'sklearn', 'matplotlib', 'tqdm', 'pandas', 'PIL', 'onnx')"
    found = run(STEP + f"print([name for name in {names} if name in sys.modules])").stdout
    assert found.strip() == "[]"


def test_a_programs_own_kernels_still_find_blas() -> None:
    pytest.importorskip("scipy")
    code = STEP + "import numba\nprint(numba.njit(lambda a: np.dot(a, a))(np.eye(2))[0, 0])"
    assert run(code).stdout.strip() == "1.0"


@pytest.mark.parametrize(("given", "expected"), [({}, "3000"), ({"GOMP_SPINCOUNT": "77"}, "77")])
def test_waiting_threads_spin_as_long_as_we_or_the_user_say(given: dict[str, str], expected: str) -> None:
    code = (
        "import os\nfrom nntrainer_py.tensor.kernels import threads\n"
        "threads.set_threads(1)\nprint(threads.layer(), os.environ.get('GOMP_SPINCOUNT'))"
    )
    done = run(code, OMP_DISPLAY_ENV="verbose", **given)
    layer, left = done.stdout.split()
    if layer != "omp" or "GOMP_" not in done.stderr:
        pytest.skip(f"the threads are those of {layer}")
    assert left == given.get("GOMP_SPINCOUNT", "None")  # nothing is left behind for other programs
    assert f"GOMP_SPINCOUNT = '{expected}'" in done.stderr
