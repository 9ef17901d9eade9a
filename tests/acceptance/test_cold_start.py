"""The first run, whose kernels are compiled, and every later one give the same bytes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRAIN = "import sys; from nntrainer_py.cli.train import main; sys.exit(main())"


def copied(folder: Path) -> Path:
    """A copy of the package without the kernels that may lie beside the original."""
    package = folder / "package"
    shutil.copytree(ROOT / "nntrainer_py", package / "nntrainer_py", ignore=shutil.ignore_patterns("__pycache__"))
    return package


def train(package: Path, out: Path, threads: int) -> str:
    """Hash of the weights after one epoch of the digits, by a copy of the package with a cache of its own."""
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "LD_LIBRARY_PATH")}
    environment |= {
        "PYTHONPATH": str(package),
        "HOME": str(package),
        "XDG_CACHE_HOME": str(package / "cache"),
        "NNTRAINER_CACHE_DIR": str(package / "kernels"),
    }
    environment["TMPDIR"] = str(package / "temporary")
    (package / "temporary").mkdir(exist_ok=True)
    model = str(ROOT / "examples" / "digits" / "model.ini")
    command = [sys.executable, "-c", TRAIN, model, "--epochs", "1", "--threads", str(threads), "--out", str(out)]
    done = subprocess.run(
        command, env=environment, cwd=package, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return hashlib.sha256((out / "model.bin").read_bytes()).hexdigest()


@pytest.mark.slow
def test_cold_and_warm_runs_are_bit_equal(tmp_path: Path) -> None:
    """Run with: python -m pytest -m slow tests/acceptance/test_cold_start.py"""
    package = copied(tmp_path)
    cold = train(package, tmp_path / "cold", 1)
    assert any((package / "kernels").rglob("*.nbi")), "nothing was compiled: the run was not cold"
    assert train(package, tmp_path / "warm", 1) == cold
    if (os.cpu_count() or 1) > 1:
        assert train(package, tmp_path / "two threads", 2) == cold


#: kernels whose sums once depended on whether they were compiled in the process or loaded: sums of sums, in helpers
SUMS = """
import hashlib, sys
from pathlib import Path
import numpy as np
from nntrainer_py import Model
text = '''[Model]
loss = cross
batch_size = 37
[Optimizer]
type = lamb
[in]
type = input
input_shape = 3:9:7
[conv]
type = conv2d
filters = 5
kernel_size = 3,3
[bn]
type = batch_normalization
activation = relu
[swish]
type = activation
activation = swish
[flat]
type = flatten
[out]
type = fully_connected
unit = 3
activation = sigmoid
'''
path = Path(sys.argv[1])
path.write_text(text)
model = Model.from_ini(path).compile(37, threads=1)
rng = np.random.default_rng(0)
x, y = rng.standard_normal((37, 3, 9, 7), dtype=np.float32), rng.integers(0, 2, (37, 3)).astype(np.float32)
losses = [model.train_on_batch(x, y) for _ in range(4)]
state = hashlib.sha256(np.array(losses).tobytes())
for name, array in sorted(model.weights().items()):
    state.update(array.tobytes())
print(state.hexdigest())
"""


@pytest.mark.slow
def test_kernels_compiled_here_round_like_loaded_ones(tmp_path: Path) -> None:
    """Run with: python -m pytest -m slow tests/acceptance/test_cold_start.py"""
    package = copied(tmp_path)
    kernels = {
        "NNTRAINER_CACHE_DIR": str(tmp_path / "kernels"),
        "XDG_CACHE_HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
    }
    environment = os.environ | kernels | {"PYTHONPATH": str(package)}

    def digest() -> str:
        command = [sys.executable, "-c", SUMS, str(tmp_path / "model.ini")]
        return subprocess.run(command, env=environment, cwd=package, capture_output=True, text=True, check=True).stdout

    cold = digest()
    assert any((tmp_path / "kernels").rglob("*.nbi"))
    assert digest() == cold
