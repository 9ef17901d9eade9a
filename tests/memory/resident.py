"""Run in a process of its own: how far resident memory grows when a model trains whose kernels are loaded already.

``python resident.py model.ini batch [option=value ...]`` prints planned and grown bytes as JSON.
"""

from __future__ import annotations

import ast
import ctypes
import gc
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from nntrainer_py.memory.planner import aligned
from nntrainer_py.model import Model
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.training.engine import persistent


def status(key: str) -> int:
    """Bytes of a line of /proc/self/status."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * 1024
    raise KeyError(key)


def settle() -> None:
    """Give freed memory back to the system."""
    gc.collect()
    if hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)


def run(path: str, batch: int, options: dict[str, Any], steps: int = 2) -> int:
    """Compile, train some steps; bytes of the plan: arena and what is persistent in memory."""
    model = Model.from_ini(path).compile(batch or None, threads=1, **options)
    size = model.batch_size
    compiled = model.compiled
    program = compiled.program("train", size)
    compiled.state.numbers[StepState.LEARNING_RATE] = 1e-3
    compiled.state.numbers[StepState.SAMPLES] = size
    rng = np.random.default_rng(0)
    for _ in range(steps):
        for array in program.inputs:
            rng.standard_normal(out=array.reshape(-1), dtype=np.float32)
        for array in program.labels:
            array[...] = 0
            array.reshape(-1, array.shape[-1])[:, 0] = 1
        compiled.engine.step(program)
    on_file = {value.name for value in compiled.planning.on_file(program.lowered)}
    kept = sum(aligned(value.nbytes) for value in persistent(program.lowered) if value.name not in on_file)
    return program.plan.arena + kept


def main() -> None:
    path, batch, *rest = sys.argv[1:]
    options: dict[str, Any] = {}
    for item in rest:
        key, _, text = item.partition("=")
        try:
            options[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            options[key] = text
    run(path, int(batch), options)  # loads the kernels
    settle()
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew
    planned = run(path, int(batch), options)
    print(json.dumps({"planned": planned, "grown": status("VmHWM") - before}))


if __name__ == "__main__":
    main()
