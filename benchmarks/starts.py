"""Time from the start of a process to the end of its first training step: with compiled code, and without any."""

from __future__ import annotations

import shutil
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

from report import Start
from workers import Case, Setup, Worker, WorkerError, command_of


def measure_starts(setup: Setup, models: list[str], peers: list[str], repeats: int = 3) -> list[Start]:
    """A row a model; two threads."""
    found = []
    for model in models:
        case = Case(model, 2)
        warm: dict[str, float] = {}
        for engine in ("product", *peers):
            try:
                times = [_first_step(setup, engine, case) for _ in range(repeats)]
            except WorkerError:
                continue
            warm[engine] = statistics.median(times)
        cold, peak = _cold(setup, case)
        found.append(Start(model, warm, cold, peak))
    return found


def _first_step(setup: Setup, engine: str, case: Case, **changes: str) -> float:
    with Worker(command_of(setup, engine, case), setup.environment(**changes)) as worker:
        return float(worker.facts["first_step_s"])


def _cold(setup: Setup, case: Case) -> tuple[float, float]:
    """Of a copy of the package that has never run: seconds to the first step, and peak memory of the process."""
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "nntrainer_py"
        shutil.copytree(setup.package / "nntrainer_py", copied, ignore=shutil.ignore_patterns("__pycache__"))
        fresh = replace(setup, package=Path(folder))
        environment = fresh.environment(XDG_CACHE_HOME=folder)
        with Worker(command_of(fresh, "product", case), environment) as worker:
            seconds = float(worker.facts["first_step_s"])
        return seconds, worker.peak_mb
