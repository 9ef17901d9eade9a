"""Memory does not grow with steps, predictions, models or batch sizes."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memory.nets import model, step


def _arrays() -> int:
    """Bytes that NumPy's allocator has given out and not got back, since tracing began."""
    gc.collect()
    domain = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)
    return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([domain]).traces)


def _resident() -> int:
    import psutil

    gc.collect()
    size: int = psutil.Process().memory_info().rss
    return size


def _flat(act: Any, *, first: int, further: int) -> None:
    """Resident memory without tracing, whose own tables grow by megabytes at a time; then the arrays with it."""
    for _ in range(first):
        act()
    before = _resident()
    for _ in range(further):
        act()
    assert _resident() - before < max(0.01 * before, 2 << 20)
    tracemalloc.start()
    try:
        act()
        arrays = _arrays()
        for _ in range(min(further, 20)):
            act()
        assert _arrays() <= arrays + 1024
    finally:
        tracemalloc.stop()


def test_u034_steps_add_nothing(tmp_path: Path) -> None:
    made, rng = model("resnet", tmp_path).compile(8, threads=1), np.random.default_rng(0)
    _flat(lambda: step(made, 8, rng), first=5, further=45)


def test_u034_predictions_add_nothing(tmp_path: Path) -> None:
    made = model("mlp", tmp_path).compile(8, threads=1)
    x = np.zeros((8, 96), np.float32)
    _flat(lambda: made.predict(x), first=20, further=300)


@pytest.mark.slow
def test_u034_ten_thousand_predictions_add_nothing(tmp_path: Path) -> None:
    made = model("mlp", tmp_path).compile(8, threads=1)
    x = np.zeros((8, 96), np.float32)
    _flat(lambda: made.predict(x), first=200, further=10_000)


@pytest.mark.parametrize(("swap", "count"), [(None, 30), (True, 15)])
def test_u034_models_leave_nothing_behind(swap: bool | None, count: int, tmp_path: Path) -> None:
    def live() -> None:
        made = model("mlp", tmp_path).compile(8, threads=1, swap=swap, swap_folder=str(tmp_path))
        step(made, 8, np.random.default_rng(0))

    _flat(live, first=5, further=count)


def test_u034_memory_is_given_back_when_nobody_holds_the_model(tmp_path: Path) -> None:
    """At once, without waiting for Python's collector: nothing in a model holds the model."""
    made = model("resnet", tmp_path).compile(8, threads=1)
    step(made, 8, np.random.default_rng(0))
    gc.collect()
    gc.disable()
    try:
        held = [weakref.ref(one) for one in (made, made.compiled, made.compiled.engine.arena)]
        del made
        assert [one() for one in held] == [None] * 3
    finally:
        gc.enable()


@pytest.mark.slow
def test_u034_two_hundred_models_leave_nothing_behind(tmp_path: Path) -> None:
    def live() -> None:
        made = model("resnet", tmp_path).compile(8, threads=1)
        step(made, 8, np.random.default_rng(0))

    _flat(live, first=60, further=200)  # the allocator's pools fill up over the first ones


def test_ever_new_batch_sizes_do_not_add_up(tmp_path: Path) -> None:
    made = model("mlp", tmp_path).compile(200, threads=1)
    results = [made.predict(np.ones((count, 96), np.float32)) for count in range(1, 200)]
    assert all(result.shape[0] == count for count, result in enumerate(results, 1))
    assert len(made.compiled._programs) <= 65
    assert len(made.compiled._lowerings.sizes()) <= 65
    again = made.predict(np.ones((3, 96), np.float32))
    assert again.tobytes() == results[2].tobytes()
