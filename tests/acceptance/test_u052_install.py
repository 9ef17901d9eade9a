"""U052: with nothing but the core dependencies there is all that the main job needs, and nothing heavy is loaded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nntrainer_py

#: what setup.cfg asks for, and what these bring themselves
CORE = {"numpy", "numba", "llvmlite", "scipy", "threadpoolctl", "tqdm", "nntrainer_py"}
HEAVY = {"onnx", "onnxruntime", "torch", "tensorflow", "flwr", "sklearn", "matplotlib", "tensorboard", "PIL", "pandas"}
#: seconds of processor time until ``from nntrainer_py import Model`` is done; measured: 0.5
IMPORT_SECONDS = 2.0
#: bytes of the package as it is installed, without byte code; measured: 1.5 million
PACKAGE_BYTES = 4_000_000

ONLY_CORE = f"""
import sys
import time

class Clean:
    '''Nothing is installed here but the core.'''

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in {CORE!r} and not top.startswith("_"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

for name in [name for name in sys.modules if name.partition(".")[0] in {HEAVY!r}]:
    del sys.modules[name]
sys.meta_path.insert(0, Clean())
"""
USE = """
began = time.process_time()
import nntrainer_py
from nntrainer_py import Model
seconds = time.process_time() - began
from pathlib import Path
import numpy as np

ini, folder = Path(sys.argv[1]), Path(sys.argv[2])
model = Model.from_ini(ini)
model.train(epochs=1)
for name in ("w.bin", "w.safetensors"):
    model.save(folder / name)
    again = Model.from_ini(ini)
    again.load(folder / name)
    for key, array in model.weights().items():
        assert np.array_equal(again.weights()[key], array), key
from nntrainer_py.cli.train import main
assert main([str(ini), "--epochs", "1", "--out", str(folder / "run"), "--quiet"]) == 0
assert not (folder / "run" / "curves.png").exists()
print(seconds, *sorted(name for name in sys.modules if "." not in name))
"""
DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "model.ini"


def test_u052_only_the_core(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(nntrainer_py.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", ONLY_CORE + USE, str(DIGITS), str(tmp_path)],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seconds, *modules = done.stdout.split()
    assert not HEAVY & set(modules)
    assert float(seconds) < IMPORT_SECONDS


def test_u052_size_of_the_package() -> None:
    folder = Path(nntrainer_py.__file__).parent
    files = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert sum(path.stat().st_size for path in files) < PACKAGE_BYTES
