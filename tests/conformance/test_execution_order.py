"""NNTrainer's own order numbers and lifetimes: published ones, and further graphs worked out by hand from the rules."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from kit import Case, cases, ini_of

from nntrainer_py.graph.description import load_ini, load_text
from nntrainer_py.graph.nntrainer_stages import stages
from nntrainer_py.graph.order import nodes
from nntrainer_py.memory.nntrainer_lifetimes import END, execution_orders, in_place, requests
from nntrainer_py.memory.nntrainer_planners import PLANNERS
from nntrainer_py.memory.planner import validate

HEAD = "[Model]\nbatch_size = 2\n[Optimizer]\ntype = sgd\n"
DENSE = "[in]\ntype = input\ninput_shape = 3\n[a]\ntype = fully_connected\nunit = 4\n"


def orders_of(text: str, training: bool = True, reuse: bool = True) -> dict[str, list[int]]:
    made = stages(nodes(load_text(HEAD + text), training), 2, training)
    return {name: list(found) for name, found in execution_orders(made, training=training, reuse=reuse).items()}


@pytest.mark.parametrize("case", cases("exec_order"), ids=lambda case: case["name"])
def test_published_orders(case: Case) -> None:
    made = stages(nodes(load_ini(ini_of(case)), True), 1)
    assert {name: list(found) for name, found in execution_orders(made).items()} == case["orders"]


@pytest.mark.parametrize("case", cases("exec_order"), ids=lambda case: case["name"])
def test_planners_take_the_published_orders(case: Case) -> None:
    """Each tensor lies alone in its place from the first of its moments to the last."""
    made = requests(stages(nodes(load_ini(ini_of(case)), True), 4))
    arenas = {}
    for name in ("basic", "optimized_v1", "optimized_v3", "search"):
        placement = PLANNERS[name](made)
        validate(made, placement)
        arenas[name] = placement.arena
    assert arenas["optimized_v1"] < arenas["basic"]
    assert arenas["search"] <= min(arenas.values())


def test_a_frozen_layer_has_one_moment_on_the_way_back() -> None:
    text = DENSE + "[b]\ntype = fully_connected\nunit = 2\ntrainable = false\n[loss]\ntype = mse\n"
    found = orders_of(text)
    # forward 0..3; loss 4 5 6, b 7, a 8 9 10, in 11 12 13
    assert found["b:weight"] == [2, 7]
    assert "b:weight:grad" not in found
    assert found["a:out0"] == [1, 2]
    assert found["a:out0:grad"] == [7, 8, 9]
    assert found["b:out0:grad"] == [5, 7]


def test_frozen_layers_at_the_start_end_behind_the_last_moment() -> None:
    text = (
        "[in]\ntype = input\ninput_shape = 3\n[a]\ntype = fully_connected\nunit = 4\ntrainable = false\n"
        "[b]\ntype = fully_connected\nunit = 4\ntrainable = false\n"
        "[c]\ntype = fully_connected\nunit = 2\n[loss]\ntype = mse\n"
    )
    found = orders_of(text)
    assert found["a:weight"] == [1, END]
    assert found["b:weight"] == [2, END]
    # forward 0..4; loss 5 6 7, c 8 9 10
    assert found["c:weight"] == [3, 8, 9, 10]
    assert found["c:weight:grad"] == [8, 10]
    assert found["b:out0"] == [2, 3, 8]


def test_running_statistics_have_no_gradient() -> None:
    found = orders_of(DENSE + "[n]\ntype = batch_normalization\n[loss]\ntype = mse\n")
    # forward 0..3; loss 4 5 6, n 7 8 9, a 10 11 12; n in place of a
    assert found["n:moving_mean"] == [2, 7, 8, 9]
    assert "n:moving_mean:grad" not in found
    assert found["n:gamma:grad"] == [7, 9]
    assert found["a:out0"] == found["n:out0"] == [1, 2, 3, 5]


def test_branches_share_their_input_but_not_its_gradient() -> None:
    text = DENSE + (
        "[b]\ntype = fully_connected\nunit = 2\ninput_layers = a\n"
        "[c]\ntype = fully_connected\nunit = 2\ninput_layers = a\n"
        "[sum]\ntype = addition\ninput_layers = b, c\n[loss]\ntype = mse\n"
    )
    found = orders_of(text)
    # forward in 0, a 1, multiout 2, c 3, b 4, sum 5, loss 6;
    # back loss 7 8 9, sum 10.., b 13.., c 16.., multiout 19.., a 22..
    shared = [1, 2, 3, 4, 13, 16]
    assert found["a:out0"] == found["a/generated_out_0:out0"] == found["a/generated_out_0:out1"] == shared
    assert found["a/generated_out_0:out0:grad"] == [14, 19, 20]
    assert found["a/generated_out_0:out1:grad"] == [17, 19, 20]
    assert found["a:out0:grad"] == [20, 22, 23]


def test_a_shared_weight_lives_for_all_its_users() -> None:
    text = (
        DENSE + "[b]\ntype = fully_connected\nunit = 4\n"
        "[c]\ntype = fully_connected\nunit = 4\nshared_from = b\n[loss]\ntype = mse\n"
    )
    found = orders_of(text)
    # forward in 0, a 1, b 2, c 3, loss 4; back loss 5 6 7, c 8 9 10, b 11 12 13
    assert found["b:weight"] == [2, 3, 8, 9, 10, 11, 12, 13]
    assert found["b:weight:grad"] == [8, 10, 11, 13]
    assert "c:weight" not in found


def test_clipped_gradients_stay_to_the_end() -> None:
    found = orders_of(DENSE + "clip_grad_by_norm = 1\n[loss]\ntype = mse\n")
    assert found["a:weight:grad"][-1] == END


def test_inference_has_forward_moments_only() -> None:
    found = orders_of(DENSE + "activation = relu\n[b]\ntype = fully_connected\nunit = 2\n", training=False)
    assert found == {
        "a:weight": [1], "a:bias": [1], "b:weight": [3], "b:bias": [3],
        "in:out0": [0, 1], "a:out0": [1, 2, 3], "a/activation_realized:out0": [1, 2, 3], "b:out0": [3],
    }  # fmt: skip


def test_nothing_is_shared_without_memory_optimization() -> None:
    found = orders_of(DENSE + "activation = relu\n[loss]\ntype = mse\n", reuse=False)
    # forward in 0, a 1, act 2, loss 3; back loss 4 5 6, act 7 8 9, a 10 11 12
    assert found["a:out0"] == [1, 2]
    assert found["a/activation_realized:out0"] == [2, 3, 5, 8]


def test_layers_behind_a_view_do_not_modify_it() -> None:
    text = DENSE + (
        "[b]\ntype = activation\nactivation = relu\ninput_layers = a\n"
        "[c]\ntype = activation\nactivation = tanh\ninput_layers = a\n"
        "[flat]\ntype = flatten\ninput_layers = b\n[sum]\ntype = addition\ninput_layers = flat, c\n[loss]\ntype = mse\n"
    )
    made = stages(nodes(load_text(HEAD + text), True), 2)
    decided = dict(zip((stage.name for stage in made), in_place(made), strict=True))
    assert decided["a/generated_out_0"] == "view"
    assert decided["b"] == decided["c"] == "no"
    assert decided["flat"] == "modifying"
