"""The design, proved on fully_connected, conv2d, batch_normalization, dropout and a user's layer in the middle.

Recomputation, another order, a frozen middle layer: the same bits, running statistics included.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from nntrainer_py import Layer
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


def chain(*, frozen: bool = False) -> list[Node]:
    layers = [
        Input(),
        Conv2D(filters=8, kernel_size=(3, 3), padding="same"),
        BatchNormalization(),
        Activation(activation="relu"),
        Conv2D(filters=8, kernel_size=(3, 3), padding="same", trainable=not frozen),
        BatchNormalization(trainable=not frozen),
        Activation(activation="relu"),
        Halve(),
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
