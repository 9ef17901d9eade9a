"""Plans checked by an independent walk over the records: nothing is overwritten too early, nothing lives too long."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memory.nets import NETS, model, trained

from nntrainer_py.errors import DescriptionError
from nntrainer_py.memory.compile import CompiledMemory, MemoryOptions, compile_memory
from nntrainer_py.memory.plan import MemoryPlan
from nntrainer_py.memory.swap import settle
from nntrainer_py.memory.swap_file import SwapFile
from nntrainer_py.tensor.operations.record import Value
from nntrainer_py.training.engine import persistent, transient

GRANULE = 64
CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "not in place": {"in_place": False, "recompute": False},
    "swap": {"swap": True, "lookahead": 3},
    "frugal": {"order": "frugal"},
}


@pytest.fixture(params=CASES)
def options(request: pytest.FixtureRequest) -> MemoryOptions:
    return MemoryOptions(threads=2, **CASES[request.param])


@pytest.fixture(params=NETS)
def planned(request: pytest.FixtureRequest, options: MemoryOptions, tmp_path: Path) -> tuple[Any, CompiledMemory]:
    try:
        lowered = model(request.param, tmp_path).compile(8, threads=2).lowered("train", 8)
    except DescriptionError as error:
        if "not supported by this version" in str(error):
            pytest.skip(str(error))
        raise
    external, pinned = transient(lowered)
    made = compile_memory(
        lowered.operations, external=external, pinned=pinned, persistent=persistent(lowered), options=options
    )
    settle(made.plan.operations, SwapFile(tmp_path), 0)
    return lowered, made


def _cells(plan: MemoryPlan, root: Value) -> range:
    start = plan.offset(root)
    return range(start // GRANULE, -(-(start + root.nbytes) // GRANULE))


def test_every_read_finds_what_was_written(planned: tuple[Any, CompiledMemory]) -> None:
    """Walk the list with a table of who wrote each 64-byte cell last."""
    lowered, made = planned
    plan = made.plan
    owner: dict[int, Value | str] = {}
    for value in (*lowered.inputs, *lowered.labels):
        if value in plan.where:
            owner |= dict.fromkeys(_cells(plan, value), value)
    reads = 0
    for position, operation in enumerate(plan.operations):
        roots = {value.root for value in operation.reads_all if not value.root.persistent}
        for root in roots:
            cells = _cells(plan, root)
            assert all(owner.get(cell) is root for cell in cells), f"{operation}: {root} was overwritten"
            reads += 1
        written = {value.root for value in operation.writes.values() if not value.root.persistent}
        if plan.scratch_sizes[position]:
            start = plan.scratch_offsets[position]
            scratch = range(start // GRANULE, -(-(start + plan.scratch_sizes[position]) // GRANULE))
            assert not any(cell in scratch for root in roots | written for cell in _cells(plan, root))
            owner |= dict.fromkeys(scratch, "scratch")
        for root in written:
            owner |= dict.fromkeys(_cells(plan, root), root)
    assert reads > 20


def test_nothing_lives_longer_than_it_must(planned: tuple[Any, CompiledMemory]) -> None:
    """First and last touch of every value by brute force; a shared buffer lives as long as its values together."""
    lowered, made = planned
    plan = made.plan
    boundary = next(i for i, operation in enumerate(plan.operations) if operation.phase.backward)
    touched: dict[Value, list[int]] = {value: [0] for value in (*lowered.inputs, *lowered.labels)}
    for position, operation in enumerate(plan.operations):
        for value in (*operation.reads_all, *operation.writes.values()):
            if not value.root.persistent:
                touched.setdefault(value.root, []).append(position)
    for value in (*lowered.losses, *lowered.metrics.values()):
        touched[value.root].append(len(plan.operations))
    for value in lowered.predictions:
        if value.root in touched:
            touched[value.root].append(boundary - 1)
    assert set(plan.where) == set(touched)
    for buffer in plan.buffers:
        lives = [(min(touched[value]), max(touched[value])) for value in buffer.values]
        assert (buffer.first, buffer.last) == (lives[0][0], max(last for _, last in lives))
        for (_, last), (first, _) in pairwise(lives):
            assert first == last  # taken over by the very operation that read the old value last
        assert buffer.nbytes == max(value.nbytes for value in buffer.values)


def test_scratch_and_arena_are_what_the_requests_say(planned: tuple[Any, CompiledMemory]) -> None:
    _, made = planned
    loads = np.zeros(len(made.plan.operations) + 1, np.int64)
    for request in made.plan.requests:
        loads[request.first : request.last + 1] += -(-request.size // GRANULE) * GRANULE
    assert made.plan.placement.lower_bound == loads.max()
    assert made.plan.arena <= 1.02 * loads.max()
    assert made.report.total == made.report.resident + made.plan.arena


def test_poison_shows_a_life_that_ends_too_early(tmp_path: Path) -> None:
    """The debug mode that the equality tests rely on does find a fault."""
    expected = trained(model("mlp", tmp_path).compile(8, threads=1), steps=1)
    made = model("mlp", tmp_path).compile(8, threads=1, poison=True)
    plan = made.compiled.plan("train", 8)
    longest = max(plan.buffers, key=lambda buffer: (buffer.last - buffer.first) * (buffer.nbytes > 64))
    longest.last -= 1
    try:
        found = trained(made, steps=1)
    except Exception:  # the loss is not finite, say: found as well
        return
    assert found != expected
