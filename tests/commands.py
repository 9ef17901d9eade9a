"""Running the commands in tests, and a small problem for them: three clouds of points in four dimensions."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

MODEL = """\
[Model]
loss = cross
epochs = 3
batch_size = 16

[Optimizer]
type = adam
learning_rate = 0.02

[train_set]
type = file
path = train.dat

[valid_set]
type = file
path = valid.dat

[point]
type = input
input_shape = 1:1:4

[hidden]
type = fully_connected
unit = 8
activation = relu

[cloud]
type = fully_connected
unit = 3
activation = softmax
"""


#: what a command says where the cache of kernels lacks some, which is no matter of the tests
_COMPILING = re.compile(r"^compiling [0-9]+ kernels?, first run only\n", re.M)


@dataclass(frozen=True)
class Done:
    """How a command ended; without the line that announces the compilation of kernels."""

    code: int
    out: str
    err: str


def points(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (count, 4) and class indices of three clouds."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, count)
    centres = np.array([[2, 0, 0, 1], [0, 2, 0, -1], [0, 0, 2, 0]], np.float32)
    return (centres[classes] + rng.normal(0, 0.7, (count, 4))).astype(np.float32), classes


def write_dat(path: Path, inputs: np.ndarray, classes: np.ndarray, count: int = 3) -> None:
    """NNTrainer's raw format with one-hot labels."""
    np.concatenate([inputs, np.eye(count, dtype=np.float32)[classes]], axis=1).astype("<f4").tofile(path)


def write_problem(folder: Path, text: str = MODEL, name: str = "model.ini") -> Path:
    """Data files and the INI, in ``folder``; the path of the INI."""
    folder.mkdir(parents=True, exist_ok=True)
    write_dat(folder / "train.dat", *points(90, 0))
    write_dat(folder / "valid.dat", *points(40, 1))
    ini = folder / name
    ini.write_text(text, encoding="utf-8")
    return ini


def command(capsys: pytest.CaptureFixture[str], module: str, *arguments: object) -> Done:
    """Run a command in this process."""
    main = import_module(f"nntrainer_py.cli.{module}").main
    capsys.readouterr()
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return Done(code, out, _COMPILING.sub("", err))


def program(module: str) -> list[str]:
    """The beginning of a command line that runs a command in a process of its own."""
    return [sys.executable, "-c", f"import sys; from nntrainer_py.cli.{module} import main; sys.exit(main())"]


def process(module: str, *arguments: object, cwd: Path | None = None, env: dict[str, str] | None = None) -> Done:
    """Run a command in a process of its own, without a terminal."""
    words = [*program(module), *map(str, arguments)]
    done = subprocess.run(
        words, capture_output=True, stdin=subprocess.DEVNULL, check=False, cwd=cwd, env=env, encoding="utf-8"
    )
    return Done(done.returncode, done.stdout, _COMPILING.sub("", done.stderr))
