"""What the compiler chooses by itself, what it says about it, and how it refuses."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from memory.nets import NETS, model, step, trained

from nntrainer_py.errors import PlanError
from nntrainer_py.memory import compile as compile_module
from nntrainer_py.memory.compile import FREE_SHARE, MemoryOptions, compile_memory
from nntrainer_py.memory.listing import Borders, Listing
from nntrainer_py.memory.order import derivative_first, frugal, is_valid
from nntrainer_py.memory.outcome import CompiledMemory
from nntrainer_py.memory.plan import MemoryPlan
from nntrainer_py.memory.planner import validate
from nntrainer_py.memory.recompute import remake, repeatable, stable
from nntrainer_py.memory.search import State
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
    assert "In the way, where most is needed (at a, " in text
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
        lowered.operations, external=external, pinned=pinned, persistent=persistent(lowered), beside={"data": 5000}
    )
    assert made.report.total == plain + 5000


def test_tables_count(tmp_path: Path) -> None:
    description = tmp_path / "model.ini"
    rows = "[in]\ntype = input\ninput_shape = 1:40:24\n\n[at]\ntype = positional_encoding\nmax_timestep = 40\n"
    description.write_text(f"[Model]\nbatch_size = 2\n\n{rows}", encoding="utf-8")
    made = memory(Model.from_ini(description).compile(2, threads=1).lowered("predict"))
    assert made.report.resident == 4 * 40 * 24


def test_the_optimizers_state_counts_while_evaluating(tmp_path: Path) -> None:
    compiled = model("mlp", tmp_path).compile(8, threads=1, memory_budget=1 << 30, data_buffers=0).compiled
    training, evaluating = compiled.memory("train", 8).report, compiled.memory("evaluate", 8).report
    assert training.resident == evaluating.resident


def hopeless(name: str, folder: Path, batch: int = 8, **options: Any) -> PlanError:
    """The refusal of one byte."""
    with pytest.raises(PlanError) as caught:
        model(name, folder).compile(batch, threads=1, memory_budget=1, data_buffers=0, **options)
    return caught.value


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("swap", [False, None])
def test_every_budget_from_the_smallest_on_is_accepted(name: str, swap: bool | None, tmp_path: Path) -> None:
    made = model(name, tmp_path)
    floor = hopeless(name, tmp_path, swap=swap).smallest
    with pytest.raises(PlanError) as caught:
        made.compile(8, threads=1, memory_budget=floor - 1, data_buffers=0, swap=swap)
    assert caught.value.smallest == floor
    plain = made.compile(8, threads=1, data_buffers=0).compiled.memory("train", 8).report.total
    for percent in range(0, 101, 10):
        budget = floor + (plain - floor) * percent // 100
        compiled = made.compile(8, threads=1, memory_budget=budget, data_buffers=0, swap=swap).compiled
        for mode in ("train", "evaluate", "predict"):
            assert compiled.memory(mode, 8).report.total <= budget


@pytest.mark.parametrize("name", NETS)
def test_a_smaller_batch_never_needs_more_whatever_came_before(name: str, tmp_path: Path) -> None:
    floor = hopeless(name, tmp_path).smallest
    for options in ({}, {"memory_budget": floor}, {"swap": True, "swap_folder": str(tmp_path)}):
        made = model(name, tmp_path).compile(8, threads=1, data_buffers=0, **options).compiled
        for mode in ("train", "evaluate", "predict"):
            small = [made.memory(mode, batch) for batch in range(1, 8)]  # before the full batch is asked for
            full = made.memory(mode, 8)
            assert all(one.report.total <= full.report.total for one in small)
            assert [[move.kind for move in one.report.moves] for one in small] == [
                [move.kind for move in full.report.moves]
            ] * 7
            for one in small:
                validate(one.plan.requests, one.plan.placement)


def test_the_places_of_the_larger_batch_serve_where_no_better_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = model("resnet", tmp_path).compile(8, threads=1, swap=True, swap_folder=str(tmp_path), poison=True)
    full = whole.compiled.memory("train", 8)
    place = compile_module.plan

    def wasteful(operations: Any, **given: Any) -> MemoryPlan:
        return place(operations, **{**given, "reuse": False})

    monkeypatch.setattr(compile_module, "plan", wasteful)
    small = whole.compiled.memory("train", 5)
    assert small.plan.placement.method == "that of the larger batch"
    assert small.plan.arena <= full.plan.arena
    validate(small.plan.requests, small.plan.placement)
    offsets = [small.plan.offsets[id(buffer)] for buffer in small.plan.buffers]
    assert offsets == [full.plan.offsets[id(buffer)] for buffer in full.plan.buffers]
    monkeypatch.undo()
    apart = model("resnet", tmp_path).compile(8, threads=1, reuse=False, in_place=False, recompute=False)
    assert trained(whole, batches=(5, 5)) == trained(apart, batches=(5, 5))


def test_a_budget_holds_for_evaluation_after_training(tmp_path: Path) -> None:
    """Which weights live on file is settled for all modes together."""
    floor = hopeless("lstm", tmp_path).smallest
    made = model("lstm", tmp_path)
    made.compile(8, threads=1, memory_budget=floor, data_buffers=0, swap_folder=str(tmp_path))
    rng = np.random.default_rng(0)
    step(made, 8, rng)
    step(made, 3, rng)
    x = rng.standard_normal((20, 1, 9, 24)).astype(np.float32)
    made.evaluate(x, np.arange(20) % 10)
    made.predict(x)
    engine = made.compiled.engine
    assert engine.store.nbytes + engine.arena.size <= floor


def test_a_larger_batch_may_be_refused(tmp_path: Path) -> None:
    made = model("mlp", tmp_path)
    made.compile(8, threads=1, memory_budget=hopeless("mlp", tmp_path).smallest, data_buffers=0)
    x = np.zeros((4096, 96), np.float32)
    assert made.predict(x).shape[0] == 4096  # in batches of 8
    with pytest.raises(PlanError, match="The budget was kept for batches of up to 8, this one has 4096"):
        made.predict(x, batch_size=4096)
    assert made.predict(x[:3]).shape[0] == 3


def test_a_budget_for_inference_alone(tmp_path: Path) -> None:
    """Training needs more: it is left out by the option, or where nobody compiled the model for training."""
    least = hopeless("mlp", tmp_path, training=False).smallest
    assert least < hopeless("mlp", tmp_path).smallest
    made = model("mlp", tmp_path)
    made.compile(8, threads=1, memory_budget=least, data_buffers=0, training=False, swap_folder=str(tmp_path))
    x = np.zeros((8, 96), np.float32)
    assert np.isfinite(made.predict(x)).all()
    with pytest.raises(PlanError):
        made.compiled.memory("train", 8)
    path = tmp_path / "budget.ini"
    path.write_text(NETS["mlp"].replace("[Model]\n", f"[Model]\nmemory_budget = {least + 8000}\n", 1), encoding="utf-8")
    opened = Model.from_ini(path)
    assert np.isfinite(opened.predict(x)).all()
    with pytest.raises(PlanError):
        opened.train_on_batch(x, np.zeros(8, int))
    with pytest.raises(PlanError, match=r"budget.ini:2: \[Model\] memory_budget: nothing fits"):
        Model.from_ini(path).compile()


def test_weights_in_memory_do_not_go_to_the_file_later(tmp_path: Path) -> None:
    """Layers that are freed make a new plan beside weights that are where they are."""
    made = model("mlp", tmp_path)
    floor = hopeless("mlp", tmp_path).smallest
    made.set_trainable(False, "a", "b")
    made.compile(8, threads=1, memory_budget=floor + 60000, data_buffers=0, swap_folder=str(tmp_path))
    rng = np.random.default_rng(0)
    step(made, 8, rng)
    assert made.compiled.plans.planning.file is None
    made.set_trainable(True)
    memory = made.compiled.memory("train", 8)
    on_file = {value.name for value in memory.on_file}
    assert on_file
    assert not on_file & set(made.compiled.engine.store.arrays)
    expected = model("mlp", tmp_path)
    expected.set_trainable(False, "a", "b")
    expected.compile(8, threads=1)
    again = np.random.default_rng(0)
    step(expected, 8, again)
    expected.set_trainable(True)
    assert step(made, 8, rng) == step(expected, 8, again)
    for name, array in expected.weights().items():
        assert made.weights()[name].tobytes() == array.tobytes(), name
    engine = made.compiled.engine
    assert engine.store.nbytes + engine.arena.size <= memory.report.budget


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


def test_a_search_keeps_little_of_what_it_has_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Analyses are many times as large as the lists; those of states that are behind are given back."""
    seen: list[State] = []
    way_down = compile_module._way_down

    def watched(*given: Any) -> Iterator[State]:
        for state in way_down(*given):
            seen.append(state)
            yield state

    monkeypatch.setattr(compile_module, "_way_down", watched)
    with pytest.raises(PlanError):
        model("resnet", tmp_path).compile(64, threads=1, memory_budget=1)
    listings = {id(course.listing): course.listing for state in seen for course in state.courses}.values()
    kept = [listing for listing in listings if {"lives", "uses", "writers", "loads"} & listing.__dict__.keys()]
    assert len(listings) > 10
    assert len(kept) <= 2 * len(seen[0].courses)


def test_what_was_forgotten_is_worked_out_again(tmp_path: Path) -> None:
    lowered = model("resnet", tmp_path).lowered("train", 8)
    listing = Listing(lowered.operations, Borders.of(lowered.operations, *transient(lowered)))
    before = listing.peak, listing.moment, listing.loads, listing.lives, listing.uses, listing.writers
    listing.forget()
    assert before == (listing.peak, listing.moment, listing.loads, listing.lives, listing.uses, listing.writers)


def test_a_deep_network_is_planned_in_little_memory(tmp_path: Path) -> None:
    """What must come before what grows with the operations, not with their square."""
    layers = "".join(f"[l{k}]\ntype = fully_connected\nunit = 8\nactivation = relu\n" for k in range(400))
    path = tmp_path / "deep.ini"
    head = "[Model]\ntype = NeuralNetwork\nloss = mse\n[Optimizer]\ntype = sgd\n"
    path.write_text(f"{head}[in]\ntype = input\ninput_shape = 1:1:8\n{layers}")
    lowered = Model.from_ini(path).compile(4, threads=1).lowered("train")
    tracemalloc.start()
    try:
        for order in (derivative_first, frugal):
            assert is_valid(lowered.operations, order(lowered.operations))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2000 * len(lowered.operations)
