"""Run in a process of its own: what memory a model takes while it trains, planned and measured.

``python benchmarks/resident.py model.ini --batch 32 [--set option=value ...]`` prints one line of JSON, bytes and
milliseconds. ``grown`` is the peak of resident memory above what was resident when the kernels were loaded and nothing
else taken: the model is run once, thrown away, and run again. With ``--fresh`` it is run once only, and ``peak`` is
that of a process like any other.
"""

from __future__ import annotations

import argparse
import ast
import ctypes
import gc
import json
import resource
import statistics
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nntrainer_py.graph.description import load_ini
from nntrainer_py.memory.planner import aligned
from nntrainer_py.model import Model
from nntrainer_py.registry import OPTIMIZERS
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.training.compiled import Compiled
from nntrainer_py.training.engine import Program, persistent


def described(path: str, optimizer: str) -> Model:
    """The model of a file, with another optimizer of default settings where one is named."""
    spec = load_ini(path)
    return Model(replace(spec, optimizer=OPTIMIZERS.load(optimizer)()) if optimizer else spec)


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


def fill(program: Program) -> None:
    """Random inputs, class 0 for every sample, made in place."""
    rng = np.random.default_rng(0)
    for array in program.inputs:
        rng.standard_normal(out=array.reshape(-1), dtype=np.float32)
    for array in program.labels:
        array[...] = 0
        array.reshape(-1, array.shape[-1])[:, 0] = 1


def train(compiled: Compiled, batch: int, steps: int) -> list[float]:
    """Milliseconds of each step, feeding aside."""
    program = compiled.program("train", batch)
    compiled.state.numbers[StepState.LEARNING_RATE] = 1e-4
    compiled.state.numbers[StepState.SAMPLES] = batch
    times = []
    for _ in range(steps):
        fill(program)
        start = time.perf_counter()
        compiled.engine.step(program)
        times.append((time.perf_counter() - start) * 1e3)
    return times


def run(given: argparse.Namespace, options: dict[str, Any]) -> dict[str, Any]:
    """Compile and train some steps; the plan's bytes and the median time of the later steps."""
    model = described(given.model, given.optimizer).compile(given.batch or None, threads=given.threads, **options)
    compiled, batch = model.compiled, model.batch_size
    times = train(compiled, batch, given.steps)
    program = compiled.program("train", batch)
    on_file = {value.name for value in compiled.plans.planning.on_file(program.lowered)}
    kept = sum(aligned(value.nbytes) for value in persistent(program.lowered) if value.name not in on_file)
    file, measured = compiled.plans.planning.file, program.measured
    report = compiled.memory("train", batch).report
    return {
        "batch": batch,
        "planned": program.plan.arena + kept,
        "arena": program.plan.arena,
        "kept": kept,
        "milliseconds": statistics.median(times[len(times) // 2 :]),
        "predicted": report.predicted_slowdown,
        "measured": measured.slowdown if measured is not None else 1.0,
        "written": file.written // given.steps if file is not None else 0,
        "read": file.read // given.steps if file is not None else 0,
    }


def _options(items: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in items:
        key, _, text = item.partition("=")
        try:
            found[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            found[key] = text
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--optimizer", default="")
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE")
    parser.add_argument("--fresh", action="store_true")
    given = parser.parse_args()
    options, before = _options(given.set), 0
    if not given.fresh:
        run(given, options)  # loads the kernels
        settle()
        before = status("VmRSS")
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew
    found = run(given, options)
    if not given.fresh:
        found["grown"] = status("VmHWM") - before
    found["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps(found))


if __name__ == "__main__":
    main()
