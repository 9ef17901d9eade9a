"""The plan is true: a step takes no array memory, and the process no more than planned."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memory.nets import NETS, model, step

from nntrainer_py.errors import DescriptionError, PlanError
from nntrainer_py.model import Model

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
MODELS = BENCHMARKS / "models"
SCRIPT = BENCHMARKS / "resident.py"
WHOLE_RUN = Path(__file__).parent / "whole_run.py"
MIB = 1 << 20


def _compiled(name: str, folder: Path, **options: Any) -> Any:
    try:
        return model(name, folder).compile(128, threads=1, **options)
    except DescriptionError as error:
        if "not supported by this version" in str(error):
            pytest.skip(str(error))
        raise


@pytest.mark.parametrize("options", [{}, {"swap": True, "lookahead": 2}], ids=["default", "swap"])
@pytest.mark.parametrize("name", NETS)
def test_a_step_takes_no_array_memory(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    """Counted by the allocator of NumPy and Python; the smallest activation of these nets is larger than the limit."""
    made = _compiled(name, tmp_path, swap_folder=str(tmp_path), **options)
    rng = np.random.default_rng(0)
    for _ in range(2):
        step(made, 128, rng)
    program, engine = made.compiled.program("train", 128), made.compiled.engine
    data = [(array, _data(array, label)) for label in (False, True) for array in _fed(program, label)]

    def one() -> None:
        for target, source in data:
            np.copyto(target, source)
        engine.step(program)

    gc.collect()
    tracemalloc.start()
    try:
        one()
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in range(3):
            one()
        after, peak = tracemalloc.get_traced_memory()
        domain = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
        arrays = tracemalloc.take_snapshot().filter_traces([domain])
    finally:
        tracemalloc.stop()
    assert peak - before < 4096
    assert after - before < 1024
    assert sum(trace.size for trace in arrays.traces) < 1024


def _fed(program: Any, label: bool) -> list[np.ndarray[Any, Any]]:
    return list(program.labels if label else program.inputs)


def _data(array: np.ndarray[Any, Any], label: bool) -> np.ndarray[Any, Any]:
    if not label:
        return np.random.default_rng(1).standard_normal(array.shape).astype(np.float32)
    made = np.zeros(array.shape, np.float32)
    made[..., 0] = 1
    return made


def test_the_count_would_notice_an_array(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        np.empty(4096, np.float32).fill(0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before > 4 * 4096


def _resident(path: Path, batch: int, *options: str) -> dict[str, float]:
    command = [str(SCRIPT), str(path), "--batch", str(batch)]
    for option in options:
        command += ["--set", option]
    return _answer(command)


def _answer(command: list[str]) -> dict[str, float]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(BENCHMARKS.parent), *sys.path])}
    answer = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, env=environment)
    assert answer.returncode == 0, answer.stderr
    found: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    return found


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's peak of resident memory")
@pytest.mark.parametrize(("name", "batch"), [("lenet", 256), ("vgg_small", 32)])
def test_resident_memory_keeps_to_the_plan(name: str, batch: int) -> None:
    found = _resident(MODELS / f"{name}.ini", batch)
    assert found["grown"] <= 1.1 * found["planned"] + 8 * MIB


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's peak of resident memory")
@pytest.mark.parametrize("name", sorted(path.stem for path in MODELS.glob("*.ini")))
def test_resident_memory_of_every_benchmark_model(name: str) -> None:
    found = _resident(MODELS / f"{name}.ini", 0)
    assert found["grown"] <= 1.1 * found["planned"] + 8 * MIB


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's peak of resident memory")
def test_swapping_lowers_resident_memory(tmp_path: Path) -> None:
    """A copy in memory is no swap."""
    plain = _resident(MODELS / "vgg_small.ini", 64, "recompute=False")
    swapping = _resident(MODELS / "vgg_small.ini", 64, "recompute=False", "swap=True", f"swap_folder={tmp_path}")
    assert swapping["planned"] < 0.8 * plain["planned"]
    assert swapping["grown"] < plain["grown"] - 0.5 * (plain["planned"] - swapping["planned"])


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's peak of resident memory")
@pytest.mark.parametrize("budget", [None, 200, 65], ids=["none", "ample", "swapping"])
def test_a_whole_run_keeps_to_the_plan(budget: int | None, tmp_path: Path) -> None:
    """Files are read and written in pieces; the weights of the best epoch lie in a file where there is a budget."""
    options = {} if budget is None else {"memory_budget": budget * MIB}
    found = _answer([str(WHOLE_RUN), str(tmp_path), json.dumps(options)])
    # without one they lie in memory, and so do weights and moments while a learning rate is searched
    copies = found["copies"] if budget is None else 0
    assert budget is None or found["planned"] <= budget * MIB
    assert found["grown"] <= 1.1 * found["planned"] + copies + 8 * MIB


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's peak of resident memory")
def test_the_smallest_plan_with_swapping_is_true(tmp_path: Path) -> None:
    """Searching for it takes little, and that is counted here."""
    path = MODELS / "resnet18.ini"
    with pytest.raises(PlanError) as refused:
        Model.from_ini(path).compile(128, threads=1, memory_budget=1, data_buffers=0)
    options = f"memory_budget={refused.value.smallest}", "data_buffers=0", f"swap_folder={tmp_path}"
    found = _resident(path, 128, *options)
    assert found["written"] > 0
    assert found["grown"] <= 1.1 * found["planned"] + 8 * MIB
