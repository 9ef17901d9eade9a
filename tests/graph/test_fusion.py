"""Fused lists make the numbers of unfused ones, and fuse only where nobody could notice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from harness import Case, Feeds, Projection, close, compiled, interpreted, same_bytes, watched
from reference import Interpreter

from nntrainer_py.graph.fusion import PASSES, descend, fuse, pool_first, rectify_normalization
from nntrainer_py.graph.lower import Lowered, Node, lower
from nntrainer_py.layers.activation import Activation
from nntrainer_py.layers.addition import Addition
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.batch_normalization import BatchNormalization
from nntrainer_py.layers.conv2d import Conv2D
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.identity import Identity
from nntrainer_py.layers.input import Input
from nntrainer_py.layers.pooling2d import Pooling2D
from nntrainer_py.memory.plan import plan
from nntrainer_py.optimizers.adam import Adam
from nntrainer_py.optimizers.sgd import Sgd
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.training.engine import Engine, Program, persistent, transient

#: fused against unfused in float32, of the largest value of a tensor; the pooling and the products differ in no bit
TOLERANCE = 2e-6

Rows = Sequence[tuple[str, Callable[[], Layer], Sequence[str]]]


def relu() -> Layer:
    return Activation(activation="relu")


PRODUCT: Rows = (("dense", lambda: FullyConnected(unit=5), ["in0"]), ("layer", relu, ["dense"]))
NORMALIZED: Rows = (
    ("conv", lambda: Conv2D(filters=3, kernel_size=(3, 3), padding="same"), ["in0"]),
    ("bn", BatchNormalization, ["conv"]),
    ("relu", relu, ["bn"]),
    ("layer", lambda: Conv2D(filters=2, kernel_size=(1, 1)), ["relu"]),
)
ADDED: Rows = (
    ("conv", lambda: Conv2D(filters=2, kernel_size=(3, 3), padding="same"), ["in0"]),
    ("bn", BatchNormalization, ["conv"]),
    ("sum", Addition, ["bn", "in0"]),
    ("relu", relu, ["sum"]),
    ("layer", lambda: Conv2D(filters=2, kernel_size=(1, 1)), ["relu"]),
)
POOLED: Rows = (
    ("conv", lambda: Conv2D(filters=3, kernel_size=(2, 2)), ["in0"]),
    ("relu", relu, ["conv"]),
    ("pool", lambda: Pooling2D(pooling="max", pool_size=(2, 2), stride=(1, 1), padding="same"), ["relu"]),
    ("layer", lambda: Conv2D(filters=2, kernel_size=(1, 1)), ["pool"]),
)
CONVOLVED: Rows = (  # by the kernel for few filters, by gathering, by Winograd's transforms, with a stride
    ("few", lambda: Conv2D(filters=3, kernel_size=(3, 3), padding="same"), ["in0"]),
    ("relu1", relu, ["few"]),
    ("many", lambda: Conv2D(filters=32, kernel_size=(2, 2), padding="same"), ["relu1"]),
    ("relu2", relu, ["many"]),
    ("tiles", lambda: Conv2D(filters=32, kernel_size=(3, 3), padding="same"), ["relu2"]),
    ("relu3", relu, ["tiles"]),
    ("strided", lambda: Conv2D(filters=20, kernel_size=(3, 3), stride=(2, 2)), ["relu3"]),
    ("layer", relu, ["strided"]),
)
NETS = {"product": PRODUCT, "convolved": CONVOLVED, "normalized": NORMALIZED, "added": ADDED, "pooled": POOLED}
FUSED = {
    "product": {"activation": 0},
    "convolved": {"conv2d": 4, "activation": 0, "activation_derivative": 4},
    "normalized": {
        "batch_normalize_relu": 1, "batch_normalize_relu_sums": 1, "batch_normalize_relu_derivative": 1,
        "activation": 0, "activation_derivative": 0, "batch_normalize": 0,
    },
    "added": {"batch_normalize_relu": 1, "batch_normalize": 0, "activation": 0},
    "pooled": {"max_pool": 1, "max_pool_derivative": 1},
}  # fmt: skip


def nodes_of(rows: Rows, batch: int, training: bool) -> list[Node]:
    names = {"in0": 0} | {name: position for position, (name, _, _) in enumerate(rows, 1)}
    nodes = [Node("in0", Input(), [], [TensorDim(batch, 2, 5, 6)])]
    nodes += [Node(name, make(), [(names[source], 0) for source in sources]) for name, make, sources in rows]
    return [*nodes, Node("loss", Projection(), [(len(rows), 0)])] if training else nodes


def lowered(rows: Rows, batch: int = 2, *, training: bool = True, fusion: bool = True) -> Lowered:
    """A list with everything that the harness watches, and only that, for the fusion to respect."""
    nodes = nodes_of(rows, batch, training)
    made = lower(
        nodes, batch=batch, training=training, input_derivatives=training, keep_gradients=training, fusion=False
    )
    if fusion:
        wanted = [*made.outputs, *made.losses, *made.predictions, *watched(made).values()]
        made.operations = fuse(made.operations, wanted)
    return made


def with_updates(rows: Rows, **options: Any) -> Lowered:
    """A list as training has it."""
    return lower(nodes_of(rows, 2, True), batch=2, training=True, **options)


def kinds(made: Lowered) -> Counter[str]:
    return Counter(operation.kind.name for operation in made.operations)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("net", NETS)
def test_fused_lists_make_the_same_numbers(net: str, training: bool) -> None:
    plain, fused = (lowered(NETS[net], training=training, fusion=fusion) for fusion in (False, True))
    feeds = Feeds(Case(Identity, []))
    expected, _, _ = compiled(plain, feeds, poison=True)
    found, _, _ = compiled(fused, feeds, poison=True)
    assert found.keys() == expected.keys()
    for name, array in found.items():
        if net in ("product", "convolved", "pooled"):
            assert array.tobytes() == expected[name].tobytes(), name
        close(name, array, expected[name].astype(np.float64), TOLERANCE, 1.0)


@pytest.mark.parametrize("net", NETS)
def test_fused_kernels_against_float64(net: str) -> None:
    made = lowered(NETS[net])
    assert {name: kinds(made)[name] for name in FUSED[net]} == FUSED[net]
    feeds = Feeds(Case(Identity, []))
    machine = interpreted(made, feeds)
    exact = interpreted(lowered(NETS[net], fusion=False), feeds)
    found, _, _ = compiled(made, feeds, poison=True)
    unfused = watched(lowered(NETS[net], fusion=False))
    for name, value in watched(made).items():
        close(name, found[name], machine[value], 1e-5, 1.0)
        assert unfused.keys() == found.keys()
    # the rewriting itself, without any rounding to speak of
    for (name, mine), theirs in zip(watched(made).items(), _values(exact, name_of=net), strict=True):
        close(name, machine[mine], theirs, 1e-12, 1.0)
    same_bytes(made, feeds, found)


def _values(machine: Any, name_of: str) -> list[Any]:
    by_name = {value.name: array for value, array in machine.memory.items()}
    return [by_name[value.root.name].reshape(value.shape) for value in watched(lowered(NETS[name_of])).values()]


@pytest.mark.parametrize("net", NETS)
def test_fusion_does_not_look_at_the_batch(net: str) -> None:
    assert kinds(lowered(NETS[net], 1)) == kinds(lowered(NETS[net], 40))


def test_relu_goes_behind_the_pooling_and_its_output_is_not_kept() -> None:
    made = lowered(POOLED)
    order = [op.kind.name for op in made.operations if not op.phase.backward and op.layer in ("relu", "pool")]
    assert order == ["max_pool", "activation"]
    backward = [op.kind.name for op in made.operations if op.phase.backward and op.layer in ("relu", "pool")]
    assert backward == ["activation_derivative", "max_pool_derivative"]


def test_pooling_first_passes_nothing_back_from_windows_without_a_positive_element() -> None:
    rows = (("relu", relu, ["in0"]), ("layer", lambda: Pooling2D(pooling="max", pool_size=(2, 2)), ["relu"]))
    feeds = Feeds(Case(Identity, []))
    x = np.array([0.0, -1.0, -0.0, 2.0, 2.0, -3.0], np.float32)
    feeds.values["in0:input0"] = np.resize(x, (2, 2, 5, 6))
    results = [compiled(lowered(rows, fusion=fusion), feeds, poison=True)[0] for fusion in (False, True)]
    for name in results[0]:
        assert results[0][name].tobytes() == results[1][name].tobytes(), name


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        # somebody else reads the rectified tensor, the normalized one, or the product
        ((*POOLED[:3], ("sum", Addition, ["relu", "pool", "conv"]), ("layer", Identity, ["sum"])), "activation"),
        ((*NORMALIZED[:3], ("sum", Addition, ["bn", "relu"]), ("layer", Identity, ["sum"])), "batch_normalize"),
        ((PRODUCT[0], ("relu", relu, ["dense"]), ("layer", Addition, ["relu", "dense"])), "activation"),
    ],
)
def test_what_others_read_is_left(rows: Rows, kept: str) -> None:
    rows = [(name, make, sources) for name, make, sources in rows]
    if kept == "activation" and rows[0][0] == "conv":
        rows[2] = ("pool", lambda: Pooling2D(pooling="max", pool_size=(1, 1)), ["relu"])
    plain, fused = (lowered(rows, fusion=fusion) for fusion in (False, True))
    assert kinds(fused)[kept] == kinds(plain)[kept] > 0
    feeds = Feeds(Case(Identity, []))
    expected, found = (compiled(made, feeds, poison=True)[0] for made in (plain, fused))
    for name, array in found.items():
        assert array.tobytes() == expected[name].tobytes(), name


def test_wanted_values_are_left() -> None:
    made = lowered(POOLED, fusion=False)
    relus = [operation for operation in made.operations if operation.kind.name == "activation"]
    assert fuse(made.operations, [relus[0].writes["out"]], [pool_first]) == made.operations


def test_normalization_of_features_is_not_fused() -> None:
    rows: Rows = (("bn", lambda: BatchNormalization(axis=3), ["in0"]), ("layer", relu, ["bn"]))
    assert kinds(lowered(rows))["batch_normalize"] == 1


def test_a_normalization_added_to_itself_is_not_fused() -> None:
    rows = (*ADDED[:2], ("sum", Addition, ["bn", "bn"]), *ADDED[3:])
    found = kinds(lowered(rows, training=False))
    assert found["batch_normalize"] == found["add_n"] == 1
    plain, fused = (lowered(rows, training=False, fusion=fusion) for fusion in (False, True))
    feeds = Feeds(Case(Identity, []))
    assert compiled(plain, feeds)[0]["output 0"].tobytes() == compiled(fused, feeds)[0]["output 0"].tobytes()


def test_a_frozen_normalization_is_masked_on_its_own() -> None:
    rows = [*NORMALIZED]
    rows[1] = ("bn", lambda: BatchNormalization(trainable=False), ["conv"])
    made = lowered(rows)
    assert kinds(made)["batch_normalize_relu"] == 1
    assert kinds(made)["activation_derivative"] == 1
    feeds = Feeds(Case(Identity, []))
    expected, found = (compiled(lowered(rows, fusion=fusion), feeds, poison=True)[0] for fusion in (False, True))
    for name, array in found.items():
        close(name, array, expected[name].astype(np.float64), TOLERANCE, 1.0)


def test_nan_and_infinity_travel_through_the_fused_normalization() -> None:
    rows: Rows = (("bn", BatchNormalization, ["in0"]), ("layer", relu, ["bn"]))
    for bad in (np.nan, np.inf):
        feeds = Feeds(Case(Identity, []))
        feeds.values["in0:input0"] = np.ones((2, 2, 5, 6), np.float32)
        feeds.values["in0:input0"][1, 1, 2, 3] = bad
        found, _, _ = compiled(lowered(rows), feeds, poison=True)
        assert np.isnan(found["output 0"][:, 1]).all()
        assert np.isfinite(found["output 0"][:, 0]).all()


DENSE: Rows = (
    ("hidden", lambda: FullyConnected(unit=40), ["in0"]),
    ("relu", relu, ["hidden"]),
    ("layer", lambda: FullyConnected(unit=3), ["relu"]),
)


def _trained(rows: Rows, fusion: bool, feeds: Feeds) -> tuple[dict[str, Any], Counter[str]]:
    """Weights after one step at the rate 0.1, and the kinds of the list."""
    made = with_updates(rows, fusion=fusion, optimizer=Sgd(learning_rate=0.1))
    engine = Engine()
    program = _bound(engine, made, feeds)
    engine.state.numbers[StepState.LEARNING_RATE] = 0.1
    engine.forward(program)
    engine.backward(program)
    return {w.key: program.array(w.value).copy() for w in made.weights if w.value is not None}, kinds(made)


def _bound(engine: Engine, made: Lowered, feeds: Feeds) -> Program:
    external, pinned = transient(made)
    engine.store.ensure(persistent(made))
    program = engine.program(made, plan(made.operations, external=external, pinned=pinned))
    engine.state.numbers[StepState.SAMPLES] = made.batch
    for value in (*made.inputs, *made.labels, *(w.value for w in made.weights if w.value is not None)):
        program.array(value)[...] = feeds.get(value)
    return program


def test_descent_without_a_gradient() -> None:
    feeds = Feeds(Case(Identity, []))
    plain, _ = _trained(DENSE, False, feeds)
    found, counted = _trained(DENSE, True, feeds)
    assert counted["matmul_descent"] == 2
    assert counted["matmul_gradient"] == 0
    for name, array in found.items():
        close(name, array, plain[name].astype(np.float64), TOLERANCE, 1.0)


def test_descent_against_float64() -> None:
    made = with_updates(DENSE, optimizer=Sgd(learning_rate=0.1))
    feeds = Feeds(Case(Identity, []))
    found, _ = _trained(DENSE, True, feeds)
    machine = Interpreter()
    machine.state.numbers[StepState.SAMPLES] = made.batch
    machine.state.numbers[StepState.LEARNING_RATE] = 0.1
    for value in (*made.inputs, *made.labels, *(w.value for w in made.weights if w.value is not None)):
        machine[value] = feeds.get(value)
    machine.run(made.operations)
    for weight in made.weights:
        assert weight.value is not None
        close(weight.key, found[weight.key], machine[weight.value], 1e-5, 1.0)


@pytest.mark.parametrize(
    ("change", "optimizer", "options"),
    [
        ({"weight_decay": 0.1}, "sgd", {}),
        ({"clip_grad_by_norm": 1.0}, "sgd", {}),
        ({}, "sgd", {"accumulate_gradients": True}),
        ({}, "adam", {}),
        ({}, "sgd", {"keep_gradients": True}),
    ],
)
def test_the_gradient_is_kept_where_it_is_needed(change: dict[str, Any], optimizer: str, options: Any) -> None:
    rows: Rows = (("layer", lambda: FullyConnected(unit=3, **change), ["in0"]),)
    chosen = Sgd(learning_rate=0.1) if optimizer == "sgd" else Adam(learning_rate=0.1)
    made = with_updates(rows, optimizer=chosen, **options)
    assert kinds(made)["matmul_descent"] == 0
    assert kinds(made)["matmul_gradient"] == 1


def test_the_gradient_of_a_shared_weight_is_collected() -> None:
    rows: Rows = (
        ("first", lambda: FullyConnected(unit=6), ["in0"]),
        ("layer", lambda: FullyConnected(unit=6, shared_from="first"), ["first"]),
    )
    made = with_updates(rows, optimizer=Sgd(learning_rate=0.1))
    assert kinds(made)["matmul_descent"] == 0
    assert kinds(made)["matmul_gradient"] == 2


def test_passes_are_named_and_each_leaves_a_list_without_its_pattern_alone() -> None:
    assert len({rewrite.__name__ for rewrite in PASSES}) == len(PASSES)
    made = lowered((("layer", Identity, ["in0"]),), fusion=False)
    for rewrite in (pool_first, rectify_normalization, descend):
        assert rewrite(made.operations, frozenset()) == made.operations
