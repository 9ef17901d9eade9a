"""What the compiler chooses by itself, what it says about it, and how it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memory.nets import NETS, model, step

from nntrainer_py.errors import PlanError
from nntrainer_py.memory.compile import FREE_SHARE, CompiledMemory, MemoryOptions, compile_memory
from nntrainer_py.memory.listing import Borders, Listing
from nntrainer_py.memory.order import derivative_first, frugal, is_valid
from nntrainer_py.memory.recompute import remake, repeatable, stable
from nntrainer_py.model import Model
from nntrainer_py.training.engine import persistent, transient

MODELS = Path(__file__).parents[2] / "benchmarks" / "models"
#: NNTrainer's planned MiB for the same description, tensors and weights (recorded)
NNTRAINER = {"vgg_small": (32, 11.08 + 11.08), "vgg": (32, 51.4 + 170.2), "resnet18_adam": (32, 182.1 + 128.4)}


def memory(lowered: Any, **options: Any) -> CompiledMemory:
    external, pinned = transient(lowered)
    return compile_memory(
        lowered.operations, external=external, pinned=pinned, persistent=persistent(lowered),
        options=MemoryOptions(**options),
    )  # fmt: skip


@pytest.mark.parametrize("name", NNTRAINER)
def test_plans_are_not_larger_than_nntrainers(name: str) -> None:
    batch, theirs = NNTRAINER[name]
    lowered = Model.from_ini(MODELS / f"{name}.ini").compile(batch, threads=2).lowered("train")
    assert memory(lowered, threads=2).report.total <= theirs * 2**20


@pytest.mark.parametrize("name", sorted(path.stem for path in MODELS.glob("*.ini")))
def test_placement_reaches_the_bound_on_every_benchmark_model(name: str) -> None:
    made = memory(Model.from_ini(MODELS / f"{name}.ini").compile(threads=2).lowered("train"), threads=2)
    assert made.plan.placement.ratio <= 1.02


@pytest.mark.parametrize("name", ["resnet", "dropout"])
def test_default_recomputation_lowers_the_peak_and_costs_little(name: str, tmp_path: Path) -> None:
    lowered = model(name, tmp_path).compile(64, threads=1).lowered("train", 64)
    plain, default = memory(lowered, recompute=False), memory(lowered)
    assert default.report.total <= plain.report.total
    assert default.report.predicted_slowdown <= 1.0 + FREE_SHARE + 1e-9
    if name == "resnet":
        assert default.report.total < plain.report.total
        assert default.report.taken("recompute")
    again = memory(lowered)
    assert [(move.kind, move.value.name) for move in again.report.moves] == [
        (move.kind, move.value.name) for move in default.report.moves
    ]
    assert again.plan.placement == default.plan.placement


@pytest.mark.parametrize("name", NETS)
def test_orders_are_valid_and_reported(name: str, tmp_path: Path) -> None:
    lowered = model(name, tmp_path).compile(8, threads=1).lowered("train")
    for order in (derivative_first, frugal):
        assert is_valid(lowered.operations, order(lowered.operations))
    report = memory(lowered).report
    assert set(report.orders) == {"canonical", "derivative first", "frugal"}
    assert report.order in report.orders
    assert any("canonical" in line for line in report.lines())
    only = memory(lowered, order="frugal").report
    assert only.orders.keys() == {"frugal"}


def test_a_refusal_names_the_smallest_budget_and_what_stands_in_the_way(tmp_path: Path) -> None:
    lowered = model("mlp", tmp_path).compile(8, threads=1).lowered("train")
    with pytest.raises(PlanError) as caught:
        memory(lowered, budget=1000)
    text = str(caught.value)
    assert "nothing fits a memory budget of 1000 B (1000 bytes)" in text
    assert f"the smallest that would do is {caught.value.smallest / 1024:.2f} KiB" in text
    assert "In the way: at a, " in text
    assert "a:weight" in text
    made = memory(lowered, budget=caught.value.smallest)
    assert made.report.total <= caught.value.smallest
    assert any(line.startswith("budget: ") for line in made.report.lines())


def test_without_swapping_the_floor_is_higher(tmp_path: Path) -> None:
    lowered = model("resnet", tmp_path).compile(8, threads=1).lowered("train")
    floors = {}
    for swap in (False, None):
        with pytest.raises(PlanError) as caught:
            memory(lowered, budget=1, swap=swap)
        floors[swap] = caught.value.smallest
    assert floors[None] < floors[False] < memory(lowered).report.total
    assert not memory(lowered, budget=floors[False], swap=False).swaps
    assert memory(lowered, budget=floors[None]).swaps


def test_other_bytes_count(tmp_path: Path) -> None:
    lowered = model("mlp", tmp_path).compile(8, threads=1).lowered("train")
    external, pinned = transient(lowered)
    plain = memory(lowered).report.total
    made = compile_memory(
        lowered.operations, external=external, pinned=pinned, persistent=persistent(lowered), other=5000
    )
    assert made.report.total == plain + 5000


def test_the_optimizers_state_counts_while_evaluating(tmp_path: Path) -> None:
    compiled = model("mlp", tmp_path).compile(8, threads=1, memory_budget=1 << 30, data_buffers=0).compiled
    training, evaluating = compiled.memory("train", 8).report, compiled.memory("evaluate", 8).report
    assert training.resident == evaluating.resident


def test_nothing_is_made_again_from_weights_that_have_changed(tmp_path: Path) -> None:
    """An activation that reads a weight cannot be computed again behind the update of that weight."""
    lowered = model("mlp", tmp_path).compile(8, threads=1).lowered("train")
    external, pinned = transient(lowered)
    listing = Listing(lowered.operations, Borders.of(lowered.operations, external, pinned))
    root = next(value for value in listing.writers if repeatable(listing, value) and not value.persistent)
    maker = listing.writers[root][0]
    weight = next(value for value in listing.operations[maker].reads.values() if value.persistent)
    update = listing.writers[weight.root][-1]
    assert stable(listing, maker, update)
    assert not stable(listing, maker, update + 1)
    made = remake(listing, [maker], update)
    assert made[update].recomputed
    assert len(made) == len(listing.operations) + 1


@pytest.mark.parametrize("keys", ["fsu = true\nfsu_lookahead = 2", "memory_swap = true\nmemory_swap_lookahead = 2"])
def test_the_keys_of_a_description_reach_the_compiler(keys: str, tmp_path: Path) -> None:
    path = tmp_path / "model.ini"
    text = NETS["mlp"].replace("[Model]\n", f"[Model]\n{keys}\nfsu_path = swap\nmemory_budget = 1GB\n", 1)
    path.write_text(text, encoding="utf-8")
    options = Model.from_ini(path).compile().compiled.options
    assert (options.swap, options.lookahead, options.memory_budget) == (True, 2, 1 << 30)
    assert options.swap_folder == str(tmp_path / "swap")


def test_no_memory_optimization_means_none(tmp_path: Path) -> None:
    path = tmp_path / "model.ini"
    path.write_text(NETS["mlp"].replace("[Model]\n", "[Model]\nmemory_optimization = false\n", 1), encoding="utf-8")
    made = Model.from_ini(path).compile().compiled.memory("train", 8)
    assert made.plan.arena == made.plan.without_reuse()
    assert not made.report.moves


def test_the_cost_is_predicted_and_measured(tmp_path: Path) -> None:
    made = model("mlp", tmp_path).compile(8, threads=1, swap=True, swap_folder=str(tmp_path))
    rng = np.random.default_rng(0)
    assert made.compiled.measured_cost("train", 8) is None
    for _ in range(4):
        step(made, 8, rng)
    cost = made.compiled.measured_cost("train", 8)
    assert cost is not None
    assert 0.0 < cost.swapped < cost.total
    assert cost.slowdown > 1.0
    assert "% swapping" in str(cost)
    assert made.compiled.memory("train", 8).report.predicted_slowdown > 1.0


@pytest.mark.parametrize("name", NETS)
def test_the_search_ends(name: str, tmp_path: Path) -> None:
    """Two values of the transformer block once had each other made again without end."""
    lowered = model(name, tmp_path).compile(8, threads=1).lowered("train")
    for swap in (False, None):
        with pytest.raises(PlanError) as caught:
            memory(lowered, budget=1, swap=swap)
        moves = memory(lowered, budget=caught.value.smallest, swap=swap).report.moves
        assert len(moves) < 100
        made_again = [move.value.name.split("/again")[0] for move in moves if move.kind == "recompute"]
        assert all(made_again.count(value) <= 4 for value in made_again)
