"""What a step costs beside its kernels: ``python benchmarks/overhead.py``. A three-layer MLP at batch 1, one thread.

The same bound calls run three ways: chained inside one compiled function (nothing but the kernels), replayed by the
engine, and through ``train_on_batch`` with its copies and its bookkeeping. They take turns; medians of the smallest of
each turn, in microseconds. ``--profile`` lists where Python spends the rest.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np

from nntrainer_py.model import Model
from nntrainer_py.tensor.operations.record import StepState

LIMIT = 25.0  # microseconds that a step may take beside its kernels
MODEL = Path(__file__).parent / "models" / "mlp.ini"


def link(function: Any, rest: Any) -> Any:
    """A compiled function that calls ``function`` with the first tuple of arguments and ``rest`` with the others."""
    if rest is None:

        @numba.njit
        def last(arguments):  # type: ignore[no-untyped-def]
            function(*arguments[0])

        return last

    @numba.njit
    def chained(arguments):  # type: ignore[no-untyped-def]
        function(*arguments[0])
        rest(arguments[1:])

    return chained


def in_one_call(calls: Sequence[tuple[Any, tuple[Any, ...]]]) -> Callable[[], None]:
    """All calls, chained in one compiled function."""
    made = None
    for function, _ in reversed(calls):
        made = link(function, made)
    arguments = tuple(given for _, given in calls)

    def run() -> None:
        made(arguments)

    return run


def timed(before: Callable[[], Any], step: Callable[[], Any], count: int) -> float:
    """Smallest microseconds of ``count`` runs; ``before`` is not counted."""
    least = float("inf")
    for _ in range(count):
        before()
        start = time.perf_counter_ns()
        step()
        least = min(least, time.perf_counter_ns() - start)
    return least / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--steps", type=int, default=300, help="steps in a turn")
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    model = Model.from_ini(MODEL).compile(given.batch, threads=1)
    program = model.compiled.program("train", given.batch)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(program.inputs[0].shape).astype(np.float32)
    y = np.zeros(program.labels[0].shape, np.float32)
    y[..., 3] = 1.0
    model.train_on_batch(x, y)
    model.compiled.state.numbers[StepState.LEARNING_RATE] = 0.0
    engine = model.compiled.engine
    chained = in_one_call(program.calls)
    ways: dict[str, Callable[[], Any]] = {
        "kernels in one compiled call": chained,
        "engine.step": lambda: engine.step(program),
        "train_on_batch": lambda: model.train_on_batch(x, y),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}

    def feed() -> None:
        """Input and label anew: their memory is used again within a step."""
        model.compiled.feed("train", program, [x], [y])

    for step in ways.values():
        feed()
        step()
    for _ in range(given.turns):
        for name, step in ways.items():
            found[name].append(timed(feed, step, given.steps))
    base = statistics.median(found["kernels in one compiled call"])
    for name, times in found.items():
        middle = statistics.median(times)
        print(f"{name:30s} {middle:8.1f} us   {middle - base:+6.1f}")
    worst = statistics.median(found["train_on_batch"]) - base
    print(f"{len(program.calls)} operations; limit {LIMIT:.0f} us: {'kept' if worst <= LIMIT else 'exceeded'}")
    if given.profile:
        profile = cProfile.Profile()
        profile.enable()
        for _ in range(3000):
            model.train_on_batch(x, y)
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
