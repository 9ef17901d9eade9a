"""Everything that a run does beside its steps, in a process of its own: what memory it takes, planned and measured.

    python whole_run.py FOLDER OPTIONS

Trains with checkpoints, best weights and weight files, searches a learning rate, resumes, loads and saves; once to load
what there is to load, and a second time measured. Prints the bytes planned, those of a
copy of weights and moments, and the growth of resident memory.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from nntrainer_py.model import Model
from nntrainer_py.training.finder import find_learning_rate

DESCRIPTION = """
[Model]
type = NeuralNetwork
loss = cross
batch_size = 16
[Optimizer]
type = adam
[input]
type = input
input_shape = 1:1:512
[first]
type = fully_connected
unit = 2048
activation = relu
[second]
type = fully_connected
unit = 2048
activation = relu
[third]
type = fully_connected
unit = 10
activation = softmax
"""


def run(folder: Path, options: dict[str, Any]) -> tuple[int, int]:
    """Bytes that the plan counts, and those of weights and moments."""
    description, state = folder / "model.ini", folder / "run.safetensors"
    description.write_text(DESCRIPTION, encoding="utf-8")
    state.unlink(missing_ok=True)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((64, 1, 1, 512), dtype=np.float32), rng.integers(0, 10, 64)
    model = Model.from_ini(description).compile(threads=1, swap_folder=str(folder), **options)
    find_learning_rate(model, x, y, steps=20, batch_size=16)
    saving: dict[str, Any] = {"checkpoint": state, "checkpoint_steps": 3, "save_path": folder / "weights.bin"}
    keeping: dict[str, Any] = {"save_best_path": folder / "best.bin", "patience": 3, "valid": (x[:32], y[:32])}
    model.train(x, y, epochs=2, **saving, **keeping)
    model.train(x, y, epochs=3, resume=True, **saving, **keeping)
    for name in ("model.safetensors", "model.bin"):
        model.save(folder / name)
        model.load(folder / name)
    model.evaluate(x, y)
    lowered = model.lowered()
    tensors = [*model.weights().values(), *model.compiled.optimizer_state(lowered).values()]
    return model.compiled.memory("train", 16).report.total, sum(array.nbytes for array in tensors)


def status(key: str) -> int:
    """Bytes of a line of /proc/self/status."""
    text = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(key + ":"))


def main(place: str, options: str) -> None:
    run(Path(place), json.loads(options))
    gc.collect()
    if hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew
    planned, copies = run(Path(place), json.loads(options))
    print(json.dumps({"planned": planned, "copies": copies, "grown": status("VmHWM") - before}))


if __name__ == "__main__":
    main(*sys.argv[1:])
