"""The design, proved on fully_connected, conv2d, batch_normalization, dropout and a user's layer in the middle.

Recomputation, another order, a frozen middle layer: the same bits, running statistics included. And without the user's
layer the network trains in stock ONNX Runtime from a graph of standard operators, alike to what float32 can tell.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import close
from onnx_runs import NEEDS_ONNX, Session
from reference import Interpreter

from nntrainer_py import Layer, Model
from nntrainer_py.errors import DescriptionError
from nntrainer_py.formats.onnx import step_graph, training_graph
from nntrainer_py.graph.lower import Lowered, Node, lower
from nntrainer_py.layers.activation import Activation
from nntrainer_py.layers.batch_normalization import BatchNormalization
from nntrainer_py.layers.context import RunContext
from nntrainer_py.layers.conv2d import Conv2D
from nntrainer_py.layers.dropout import Dropout
from nntrainer_py.layers.flatten import Flatten
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.losses.cross_softmax import CrossSoftmax
from nntrainer_py.memory.listing import forward_end
from nntrainer_py.memory.order import apply, frugal, is_valid, schedule
from nntrainer_py.memory.plan import plan
from nntrainer_py.memory.recompute import candidates, recompute
from nntrainer_py.optimizers.adam import Adam
from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.optimizers.sgd import Sgd
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.initializers import fill
from nntrainer_py.tensor.operations.record import Operation, StepState
from nntrainer_py.tensor.rng import Stream
from nntrainer_py.training.engine import Engine, persistent, transient

BATCH = 6


class Halve(Layer):
    """A user's layer: NumPy, no weights."""

    pure = True

    def forward(self, ctx: RunContext) -> None:
        np.multiply(ctx.inputs[0], 0.5, out=ctx.outputs[0])

    def calc_derivative(self, ctx: RunContext) -> None:
        np.multiply(ctx.incoming[0], 0.5, out=ctx.derivatives[0])


def chain(*, frozen: bool = False, users: bool = True, bias: bool = True) -> list[Node]:
    layers: list[Layer] = [
        Input(),
        Conv2D(filters=8, kernel_size=(3, 3), padding="same", disable_bias=not bias),
        BatchNormalization(),
        Activation(activation="relu"),
        Conv2D(filters=8, kernel_size=(3, 3), padding="same", trainable=not frozen, disable_bias=not bias),
        BatchNormalization(trainable=not frozen),
        Activation(activation="relu"),
        *([Halve()] if users else []),
        Dropout(dropout_rate=0.3),
        Flatten(),
        FullyConnected(unit=10),
        CrossSoftmax(),
    ]
    nodes = [Node(f"n{i}", layer, [(i - 1, 0)] if i else []) for i, layer in enumerate(layers)]
    nodes[0].input_dims = [TensorDim(1, 2, 8, 8)]
    return nodes


def train(lowered: Lowered, operations: Sequence[Operation] | None = None, **options: Any) -> dict[str, bytes]:
    """Five steps; every persistent tensor and every loss as bytes."""
    lowered.operations = list(operations or lowered.operations)
    external, pinned = transient(lowered)
    engine = Engine()
    made = plan(lowered.operations, external=external, pinned=pinned, **options)
    engine.store.ensure(persistent(lowered))
    stream = Stream(0)
    for weight in lowered.weights:
        fill(weight.initializer, weight.dim, stream, engine.store.arrays[weight.key])
    program = engine.program(lowered, made)
    engine.state.numbers[StepState.LEARNING_RATE] = 0.01
    engine.state.numbers[StepState.SAMPLES] = BATCH
    rng, losses = np.random.default_rng(0), []
    for _ in range(5):
        engine.arena.fill_nan()
        program.inputs[0][...] = rng.standard_normal(program.inputs[0].shape)
        program.labels[0][...] = np.eye(10, dtype=np.float32)[rng.integers(0, 10, BATCH)].reshape(BATCH, 1, 1, 10)
        losses.append(engine.step(program))
    assert np.isfinite(losses).all()
    assert losses[-1] != losses[0]
    result = {name: array.tobytes() for name, array in engine.store.arrays.items()}
    return result | {"losses": np.array(losses).tobytes()}


def lowered(*, frozen: bool = False) -> Lowered:
    return lower(chain(frozen=frozen), batch=BATCH, training=True, optimizer=Adam())


def test_memory_options_change_no_bit() -> None:
    expected = train(lowered())
    assert train(lowered(), in_place=False) == expected
    assert train(lowered(), reuse=False) == expected


@pytest.mark.parametrize("part", ["all", "every second", "one"])
def test_recompute_changes_no_bit(part: str) -> None:
    expected = train(lowered())
    made = lowered()
    found = candidates(made.operations)
    assert len(found) >= 4
    chosen = {"all": found, "every second": found[::2], "one": found[-1:]}[part]
    operations = recompute(made.operations, chosen)
    boundary = forward_end(operations)
    read = {value.root for operation in operations[boundary:] for value in operation.reads.values()}
    assert not read & set(chosen)  # nothing is kept of them: the way back reads copies
    # one operation may make several of them (mean and variance): it runs again once
    makers = {id(operation) for operation in made.operations if set(chosen) & set(operation.writes.values())}
    assert sum(operation.recomputed for operation in operations) >= len(makers)
    assert train(made, operations) == expected


def test_any_valid_order_changes_no_bit() -> None:
    expected = train(lowered())
    for seed in range(5):
        made, source = lowered(), random.Random(seed)
        order = schedule(made.operations, source.choice)
        assert is_valid(made.operations, order)
        assert order != sorted(order)
        assert train(made, apply(made.operations, order)) == expected
    made = lowered()
    order = frugal(made.operations)
    assert is_valid(made.operations, order)
    assert train(made, apply(made.operations, order)) == expected


def test_recompute_and_another_order_together() -> None:
    expected = train(lowered())
    made = lowered()
    operations = recompute(made.operations, candidates(made.operations))
    order = schedule(operations, random.Random(1).choice)
    assert train(made, apply(operations, order), in_place=False) == expected


def test_u028_frozen_middle_keeps_its_tensors_and_passes_derivatives() -> None:
    made = lowered(frozen=True)
    before = {weight.key: weight for weight in made.weights}
    after = train(made)
    stream = Stream(0)
    changed = set()
    for key, weight in before.items():
        start = np.empty(weight.dim.shape, np.float32)
        fill(weight.initializer, weight.dim, stream, start)
        if start.tobytes() != after[key]:
            changed.add(key.split(":")[0])
    assert changed == {"n1", "n2", "n10"}
    assert not any(name.startswith(("n4:", "n5:")) and name.count(":") > 1 for name in after)


def test_order_is_refused_when_it_breaks_a_dependency() -> None:
    made = lowered()
    order = list(range(len(made.operations)))
    assert is_valid(made.operations, order)
    assert not is_valid(made.operations, order[::-1])
    assert not is_valid(made.operations, order[:-1])


RATE = 0.01
STEPS = 6


def in_onnx_runtime(lowered: Lowered) -> tuple[Session, dict[str, str]]:
    """The step of a lowering in stock ONNX Runtime, and its inputs that a step changes with their new contents."""
    model = step_graph(lowered, gradients=True)
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    assert metadata["nntrainer_py.batch"] == str(BATCH)
    return Session(model), json.loads(metadata["nntrainer_py.updates"])


def batches() -> list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]]:
    rng, made = np.random.default_rng(0), []
    for _ in range(STEPS):
        x = rng.standard_normal((BATCH, 2, 8, 8)).astype(np.float32)
        t = np.eye(10, dtype=np.float32)[rng.integers(0, 10, BATCH)].reshape(BATCH, 1, 1, 10)
        made.append((x, t))
    return made


def numbers(names: Sequence[str]) -> dict[str, Any]:
    """The numbers of the first step that a graph asks for."""
    first = {"learning_rate": RATE, "samples": float(BATCH), "loss_scale": 1.0, "iteration": 0, "step": 0, "offset": 0}
    return {name: np.array([value]) for name, value in first.items() if name in names}


def without_effect(key: str, bias: bool) -> bool:
    """A bias before batch normalization, which takes it out again: its gradient is rounding alone."""
    return bias and key.split(":")[0] in ("n1", "n4") and ":bias" in key


@NEEDS_ONNX
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("frozen", [False, True], ids=["trained", "frozen middle"])
@pytest.mark.parametrize("optimizer", [Sgd(), Adam()], ids=["sgd", "adam"])
def test_trains_alike_in_stock_onnx_runtime(optimizer: Optimizer, frozen: bool, bias: bool) -> None:
    """Losses, gradients, weights, optimizer state and running statistics of six steps, dropout included.

    Float32 sums in another order: gradients differ by at most 1.2e-6 of the largest value, with sgd weights by less;
    allowed are 5e-6. Adam divides by the root of the second moment, so that a weight whose gradient is near zero, and
    so mostly rounding, still moves by up to the learning rate: measured 1e-5, allowed 5e-5. The bias of a convolution
    before batch normalization has only such gradients: with Adam it may be where one or the other rounding led it, and
    so may the running mean, which it shifts.
    """
    made = lower(
        chain(frozen=frozen, users=False, bias=bias),
        batch=BATCH,
        training=True,
        optimizer=optimizer,
        keep_gradients=True,
    )
    session, updates = in_onnx_runtime(made)
    external, pinned = transient(made)
    pinned |= dict.fromkeys(made.gradients.values(), len(made.operations))
    engine = Engine()
    planned = plan(made.operations, external=external, pinned=pinned)
    engine.store.ensure(persistent(made))
    stream = Stream(0)
    for weight in made.weights:
        fill(weight.initializer, weight.dim, stream, engine.store.arrays[weight.key])
    program = engine.program(made, planned)
    engine.state.numbers[StepState.LEARNING_RATE] = RATE
    engine.state.numbers[StepState.SAMPLES] = BATCH
    held = {key: array.copy() for key, array in engine.store.arrays.items()} | numbers(session.required)
    start = {key: array.copy() for key, array in held.items()}
    adam = isinstance(optimizer, Adam)
    tolerance = 5e-5 if adam else 5e-6
    for x, t in batches():
        program.inputs[0][...], program.labels[0][...] = x, t
        loss = engine.step(program)
        results = session.run({**held, made.inputs[0].name: x, made.labels[0].name: t})
        assert results["loss"][0] == pytest.approx(loss, rel=1e-6)
        for key, value in made.gradients.items():
            beside = key.replace("bias", "filter") if without_effect(key, bias) else key
            least = float(np.abs(program.array(made.gradients[beside])).max())
            close(value.name, results[value.name], program.array(value), 5e-6, least)
        held |= {key: results[name] for key, name in updates.items()}
    for key, array in engine.store.arrays.items():
        if adam and (without_effect(key, bias) or (bias and key.endswith("moving_mean"))):
            assert np.abs(held[key] - array).max() <= 2 * RATE * STEPS
            continue
        close(key, held[key], array, tolerance, RATE if without_effect(key, bias) else 1e-6)
    left_alone = {key for key in engine.store.arrays if frozen and key.startswith(("n4:", "n5:"))}
    assert set(engine.store.arrays) - set(updates) == left_alone
    assert all(held[key].tobytes() != start[key].tobytes() for key in updates)


@NEEDS_ONNX
def test_gradients_in_onnx_runtime_are_those_of_float64() -> None:
    """The first step against the float64 twins of the operations, which harness.py holds to central differences."""
    made = lower(chain(users=False, bias=False), batch=BATCH, training=True, optimizer=Sgd(), keep_gradients=True)
    session, _ = in_onnx_runtime(made)
    machine, stream = Interpreter(), Stream(0)
    machine.state.numbers[StepState.LEARNING_RATE] = RATE
    machine.state.numbers[StepState.SAMPLES] = BATCH
    held: dict[str, Any] = numbers(session.required)
    for weight in made.weights:
        held[weight.key] = np.empty(weight.dim.shape, np.float32)
        fill(weight.initializer, weight.dim, stream, held[weight.key])
        assert weight.value is not None
        machine[weight.value] = held[weight.key]
    x, t = batches()[0]
    machine[made.inputs[0]], machine[made.labels[0]] = x, t
    machine.run(made.operations)
    results = session.run({**held, made.inputs[0].name: x, made.labels[0].name: t})
    assert results["loss"][0] == pytest.approx(machine[made.losses[0]].item(), rel=1e-6)
    for value in made.gradients.values():
        close(value.name, results[value.name], machine[value], 1e-5)
    for weight in made.weights:
        assert weight.value is not None
        close(weight.key, results[f"{weight.key}/next"], machine[weight.value], 1e-5)


def test_a_users_layer_cannot_leave_and_is_named() -> None:
    with pytest.raises(DescriptionError, match=r"\[n7\] a user's own code cannot be written as standard ONNX"):
        step_graph(lowered())


@NEEDS_ONNX
def test_digits_example_trains_alike_in_stock_onnx_runtime() -> None:
    """Five steps of the example on its data; the initial weights are those in the graph's file.

    Adam, as above: a few weights with gradients near zero go another way (measured 6.5e-5), the others do not.
    """
    folder = Path(__file__).resolve().parent.parent / "examples" / "digits"
    model = Model.from_ini(folder / "model.ini")
    model.compile(threads=1)
    rows = np.fromfile(folder / "digits_train.dat", np.float32).reshape(-1, 64 + 10)[: 5 * model.batch_size]
    x = rows[:, :64].reshape(5, model.batch_size, 1, 8, 8)
    t = rows[:, 64:].reshape(5, model.batch_size, 1, 1, 10)
    graph = training_graph(model)
    updates = json.loads({entry.key: entry.value for entry in graph.metadata_props}["nntrainer_py.updates"])
    session = Session(graph)
    pixels, label = model.lowered().inputs[0].name, model.lowered().labels[0].name
    assert set(session.required) == {pixels, label}
    held: dict[str, Any] = {}
    for step in range(5):
        loss = model.train_on_batch(x[step], t[step])
        held["learning_rate"] = np.array([model.learning_rate(step)])
        results = session.run({pixels: x[step], label: t[step], **held})
        held |= {key: results[name] for key, name in updates.items()}
        assert results["loss"][0] == pytest.approx(loss, rel=2e-6)
    assert held["iteration"] == 5
    for key, array in model.weights().items():
        close(key, held[key], array, 3e-4)
        assert np.quantile(np.abs(held[key] - array), 0.98) <= 1e-5 * np.abs(array).max(), key
