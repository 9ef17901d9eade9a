"""No memory option changes a bit: weights, losses, running statistics, moments and the random state."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from memory.nets import NETS, model, trained
from memory.one_batch import one_step, save

from nntrainer_py.errors import DescriptionError, PlanError
from nntrainer_py.formats.safetensors import SafetensorsFile
from nntrainer_py.model import Model

QUICK = ("lenet", "resnet", "dropout")
STEPS = 20

OPTIONS: dict[str, dict[str, Any]] = {
    "not in place": {"in_place": False},
    "nothing shared": {"reuse": False, "in_place": False},
    "no recomputation": {"recompute": False},
    "basic": {"planner": "basic"},
    "optimized_v1": {"planner": "optimized_v1"},
    "optimized_v2": {"planner": "optimized_v2"},
    "optimized_v3": {"planner": "optimized_v3"},
    "canonical": {"order": "canonical"},
    "derivative first": {"order": "derivative first"},
    "frugal": {"order": "frugal"},
    "swap, lookahead 0": {"swap": True, "lookahead": 0},
    "swap, lookahead 1": {"swap": True, "lookahead": 1},
    "swap, lookahead 4": {"swap": True, "lookahead": 4},
    "swap alone, not in place": {"swap": True, "recompute": False, "in_place": False},
}
SHARES = (1.0, 0.6, 0.4, 0.2, 0.0)


@pytest.fixture
def build(tmp_path: Path) -> Any:
    def compiled(name: str, **options: Any) -> Model:
        made = _described(name, tmp_path)
        return made.compile(8, threads=1, swap_folder=str(tmp_path), **options)

    return compiled


def _described(name: str, folder: Path) -> Model:
    try:
        return model(name, folder)
    except DescriptionError as error:
        if "not supported by this version" in str(error):
            pytest.skip(f"{name}: {error}")
        raise


@cache
def _expected(name: str) -> dict[str, bytes]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        made = _described(name, Path(folder)).compile(8, threads=1, reuse=False, in_place=False, recompute=False)
        return trained(made, STEPS)


_ALL = [(name, option) for name in NETS for option in OPTIONS]
_ORDINARY = [(name, option) for name, option in _ALL if name in QUICK or option in ("swap, lookahead 1", "frugal")]


@pytest.mark.parametrize(("name", "option"), _ORDINARY)
def test_u023_options_change_no_bit(name: str, option: str, build: Any) -> None:
    _same(build(name, poison=True, **OPTIONS[option]), name)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "option"), [pair for pair in _ALL if pair not in _ORDINARY])
def test_u023_options_change_no_bit_in_the_other_nets(name: str, option: str, build: Any) -> None:
    _same(build(name, poison=True, **OPTIONS[option]), name)


def _same(made: Model, name: str) -> None:
    found, expected = trained(made, STEPS), _expected(name)
    assert found.keys() == expected.keys()
    assert [key for key in expected if found[key] != expected[key]] == []


@pytest.mark.parametrize("name", NETS)
def test_swap_moves_bytes_and_needs_less_memory(name: str, build: Any) -> None:
    plain, swapping = build(name, recompute=False), build(name, swap=True, recompute=False, lookahead=1)
    before, after = plain.compiled.memory("train", 8), swapping.compiled.memory("train", 8)
    assert after.report.total < before.report.total
    _same(swapping, name)
    file = swapping.compiled.plans.planning.file
    assert file is not None
    assert file.read >= file.written > 0
    assert file.written % STEPS == 0  # every step moves the same


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("name", NETS)
def test_budgets_down_to_the_floor_are_kept_and_change_no_bit(name: str, share: float, build: Any) -> None:
    unconstrained = build(name, data_buffers=0).compiled.memory("train", 8).report.total
    floor = _floor(build, name)
    assert floor < unconstrained
    budget = floor + round(share * (unconstrained - floor))
    made = build(name, memory_budget=budget, data_buffers=0, poison=True)
    memory = made.compiled.memory("train", 8)
    assert memory.report.total <= budget
    if share < 1.0:
        assert memory.report.moves
        assert memory.report.predicted_slowdown > 1.0
    _same(made, name)
    store = made.compiled.engine.store.nbytes
    assert store + made.compiled.engine.arena.size <= budget


def _floor(build: Any, name: str) -> int:
    """The smallest budget, as the refusal of a hopeless one tells it."""
    with pytest.raises(PlanError, match="the smallest that would do is") as caught:
        build(name, memory_budget=1, data_buffers=0).compiled.memory("train", 8)
    assert f"({caught.value.smallest} bytes)" in str(caught.value)
    return caught.value.smallest


BATCHES = (32, 7, 32, 1, 32)


@pytest.mark.parametrize("name", ["lenet", "dropout"])
def test_changing_batches_equal_those_without_any_reuse(name: str, build: Any) -> None:
    """One process sees batches of 32, 7, 32, 1, 32; another plan each time, the same numbers."""
    at_once = trained(build(name, poison=True), batches=BATCHES)
    apart = trained(build(name, reuse=False, in_place=False, recompute=False), batches=BATCHES)
    assert at_once == apart


#: statistics of the batch, random numbers and moments of the optimizer in one
MIXED = NETS["resnet"].replace("[f]\n", "[d]\ntype = dropout\ndropout_rate = 0.3\n[f]\n")


@pytest.mark.parametrize("tight", [False, True], ids=["default", "budget"])
def test_changing_batches_equal_a_fresh_process_each(tight: bool, tmp_path: Path) -> None:
    """A process that sees 32, 7, 32, 1, 32 does to the last bit what five processes do that see one batch each.

    The state goes from step to step by checkpoint. The budget is so tight that there are recomputation and swapping.
    """
    description = tmp_path / "mixed.ini"
    description.write_text(MIXED, encoding="utf-8")
    options: dict[str, Any] = {"threads": 1, "swap_folder": str(tmp_path), "data_buffers": 0}
    if tight:
        with pytest.raises(PlanError) as caught:
            Model.from_ini(description).compile(max(BATCHES), memory_budget=1, **options)
        options["memory_budget"] = caught.value.smallest + caught.value.smallest // 20
    made = Model.from_ini(description).compile(max(BATCHES), **options)
    losses = []
    for number, batch in enumerate(BATCHES):
        save(made, tmp_path / f"{number}.safetensors")
        losses.append(one_step(made, number, batch))
    save(made, tmp_path / f"{len(BATCHES)}.safetensors")
    report = made.compiled.memory("train", max(BATCHES)).report
    assert report.taken("recompute")
    assert bool(report.taken("swap") and report.taken("swap weight")) == tight
    assert _fresh_processes(description, options) == losses
    for number in range(len(BATCHES)):
        here, fresh = (_tensors(tmp_path / f"{stem}.safetensors") for stem in (number + 1, f"fresh-{number}"))
        assert here == fresh, f"batch {number}"


def _fresh_processes(description: Path, options: dict[str, Any]) -> list[str]:
    """The losses of one process for each batch."""
    script = Path(__file__).with_name("one_batch.py")
    command = [sys.executable, str(script), str(description), str(description.parent)]
    running = [
        subprocess.Popen(
            [*command, str(number), str(batch), json.dumps(options)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for number, batch in enumerate(BATCHES)
    ]  # fmt: skip
    done = [process.communicate(timeout=300) for process in running]
    assert [process.returncode for process in running] == [0] * len(running), [errors for _, errors in done]
    return [printed.strip() for printed, _ in done]


def _tensors(path: Path) -> dict[str, bytes]:
    """The tensors of a checkpoint, and its counters."""
    with SafetensorsFile(path) as file:
        found = {name: file.read(name).tobytes() for name in file.tensors}
        counters = json.loads(file.metadata["training"])["counters"]
    assert any(name.startswith("weights/") for name in found)
    return found | {"counters": json.dumps(counters).encode()}
