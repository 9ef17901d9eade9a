"""U022: every order of convolution, normalization, activation, dropout, flatten and pooling, in place and not.

Each stack of up to four of them, between an input and a classifier: the same loss and the same gradients to the bit.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from nntrainer_py.graph.lower import Node, lower
from nntrainer_py.layers.base import Layer
from nntrainer_py.memory.lifetimes import taken_in_place
from nntrainer_py.memory.plan import plan
from nntrainer_py.registry import LAYERS, LOSSES
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.training.engine import Engine, persistent, transient

PIECES = {
    "conv2d": {"filters": "4", "kernel_size": "3,3", "padding": "same"},
    "batch_normalization": {},
    "activation": {"activation": "relu"},
    "dropout": {"dropout_rate": "0.3"},
    "flatten": {},
    "pooling2d": {"pooling": "max", "pool_size": "1,2", "stride": "1,2"},
}


def stacks(length: int) -> list[tuple[str, ...]]:
    return list(itertools.permutations(PIECES, length))


def build(stack: tuple[str, ...]) -> list[Node]:
    layers: list[Layer] = [LAYERS.load("input")()]
    layers += [LAYERS.load(word)(**PIECES[word]) for word in stack]
    layers += [LAYERS.load("flatten")(), LAYERS.load("fully_connected")(unit="3"), LOSSES.load("cross_softmax")()]
    nodes = [Node(f"n{i}", layer, [(i - 1, 0)] if i else []) for i, layer in enumerate(layers)]
    nodes[0].input_dims = [TensorDim(1, 2, 4, 4)]
    return nodes


def run(stack: tuple[str, ...], *, in_place: bool) -> tuple[float, dict[str, bytes], int]:
    """Loss, gradients as bytes, and how many values took over the memory of another one."""
    lowered = lower(build(stack), batch=3, training=True, keep_gradients=True)
    external, pinned = transient(lowered)
    pinned |= dict.fromkeys(lowered.gradients.values(), len(lowered.operations))
    made = plan(lowered.operations, external=external, pinned=pinned, in_place=in_place)
    engine = Engine()
    engine.store.ensure(persistent(lowered))
    program = engine.program(lowered, made)
    engine.arena.fill_nan()
    rng = np.random.default_rng(0)
    for weight in lowered.weights:
        array = engine.store.arrays[weight.key]
        array[...] = rng.standard_normal(array.shape) * 0.4 + (1.0 if "gamma" in weight.name else 0.0)
    program.inputs[0][...] = rng.standard_normal(program.inputs[0].shape)
    program.labels[0][...] = np.eye(3, dtype=np.float32).reshape(3, 1, 1, 3)
    engine.state.numbers[StepState.SAMPLES] = 3
    loss = engine.forward(program)
    engine.backward(program)
    gradients = {name: program.array(value).tobytes() for name, value in lowered.gradients.items()}
    return loss, gradients, len(taken_in_place(made.where))


@pytest.mark.parametrize("first", list(PIECES))
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_u022_in_place_changes_nothing(length: int, first: str) -> None:
    happened = 0
    for stack in stacks(length):
        if stack[0] != first:
            continue
        loss, gradients, taken = run(stack, in_place=True)
        expected_loss, expected, none = run(stack, in_place=False)
        assert np.isfinite(loss), stack
        assert loss == expected_loss, stack
        assert gradients == expected, stack
        assert none == 0
        happened += taken
    assert happened > 0
