"""``shared_from``: the gradient is that of all users together, the update happens once, whatever the optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness import Case, Feeds, Projection, central_differences, close, compiled, interpreted, same_bytes, watched

from nntrainer_py.graph.lower import Lowered, Node, lower
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.input import Input
from nntrainer_py.memory.plan import plan
from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.registry import LAYERS, OPTIMIZERS
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import Phase, StepState
from nntrainer_py.training.engine import Engine, persistent, transient

#: keyword -> properties, shapes of the inputs (batch 2); the output has the shape of the first input
CHAINED: dict[str, tuple[dict[str, str], list[tuple[int, int, int]]]] = {
    "fully_connected": ({"unit": "4"}, [(2, 3, 4)]),
    "conv1d": ({"filters": "3", "kernel_size": "3", "padding": "causal"}, [(3, 1, 6)]),
    "conv2d": ({"filters": "3", "kernel_size": "3,3", "padding": "same"}, [(3, 4, 5)]),
    "conv2dtranspose": ({"filters": "3", "kernel_size": "1,1"}, [(3, 4, 5)]),
    "depthwiseconv2d": ({"kernel_size": "3,3", "padding": "same"}, [(3, 4, 5)]),
    "batch_normalization": ({}, [(3, 4, 5)]),
    "layer_normalization": ({"axis": "3"}, [(3, 4, 5)]),
    "rmsnorm": ({}, [(3, 4, 5)]),
    "rnn": ({"unit": "5", "return_sequences": "true"}, [(1, 4, 5)]),
    "lstm": ({"unit": "5", "return_sequences": "true"}, [(1, 4, 5)]),
    "gru": ({"unit": "5", "return_sequences": "true"}, [(1, 4, 5)]),
    "rnncell": ({"unit": "5"}, [(1, 1, 5), (1, 1, 5)]),
    "grucell": ({"unit": "5"}, [(1, 1, 5), (1, 1, 5)]),
    "lstmcell": ({"unit": "5"}, [(1, 1, 5), (1, 1, 5), (1, 1, 5)]),
    "multi_head_attention": ({"num_heads": "2"}, [(1, 3, 4), (1, 3, 4), (1, 3, 4)]),
}


def users(keyword: str, count: int, **more: Any) -> list[Node]:
    """``count`` layers in a row with the weights of the first; each reads the output of the one before it."""
    properties, shapes = CHAINED[keyword]
    nodes = [Node(f"in{i}", Input(), [], [TensorDim(1, *shape)]) for i, shape in enumerate(shapes)]
    for use in range(count):
        layer: Layer = LAYERS.load(keyword)(**properties, **({"shared_from": "first"} if use else {}), **more)
        inputs = [(i, 0) for i in range(len(shapes))]
        if use:
            inputs[0] = (len(nodes) - 1, 0)
        name = "first" if use == 0 else "layer" if use == count - 1 else f"between{use}"
        nodes.append(Node(name, layer, inputs))
    nodes.append(Node("loss", Projection(), [(len(nodes) - 1, 0)]))
    return nodes


def grown(nodes: list[Node], **options: Any) -> Lowered:
    return lower(nodes, batch=2, training=True, keep_gradients=True, **options)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("keyword", list(CHAINED))
def test_gradient_of_all_users(keyword: str, count: int) -> None:
    lowered = grown(users(keyword, count))
    feeds = Feeds(Case(lambda: LAYERS.load(keyword)(**CHAINED[keyword][0]), []))
    machine = interpreted(lowered, feeds)
    central_differences(feeds.case, lowered, feeds, machine, [False] * 3, most=8)
    results, _, _ = compiled(lowered, feeds, poison=True)
    of_all = max(float(np.abs(machine[value]).max()) for value in watched(lowered).values())
    for name, value in watched(lowered).items():
        close(name, results[name], machine[value], 2e-5, of_all * 1e-2)
    same_bytes(lowered, feeds, results)
    keys = {tuple(weight.key for weight in row.weights) for row in lowered.table if row.weights}
    assert len(keys) == 1


def test_gradient_of_a_shared_table() -> None:
    """embedding: rows that both users look up, one of them twice."""
    indices = [np.array([[0, 2, 2]]), np.array([[2, 1, 4]])]
    nodes = [Node(f"in{i}", Input(), [], [TensorDim(1, 1, 1, 3)]) for i in range(2)]
    make: Callable[..., Layer] = LAYERS.load("embedding")
    nodes += [
        Node("first", make(in_dim="5", out_dim="2"), [(0, 0)]),
        Node("layer", make(in_dim="5", out_dim="2", shared_from="first"), [(1, 0)]),
        Node("loss0", Projection(), [(2, 0)]),
        Node("loss1", Projection(), [(3, 0)]),
    ]
    lowered = lower(nodes, batch=1, training=True, keep_gradients=True)
    case = Case(Input, [], fill=lambda i, shape, rng: indices[i].reshape(shape))
    feeds = Feeds(case)
    machine = interpreted(lowered, feeds)
    central_differences(case, lowered, feeds, machine, [False])
    expected = np.zeros((5, 2))
    for k in range(2):
        np.add.at(expected, indices[k].reshape(-1), feeds.get(lowered.labels[k]).reshape(3, 2).astype(np.float64))
    results, _, _ = compiled(lowered, feeds, poison=True)
    np.testing.assert_allclose(results["gradient of first:Embedding"].reshape(5, 2), expected, rtol=1e-6)


@pytest.mark.parametrize("clip", [0.0, 0.05])
@pytest.mark.parametrize("optimizer", OPTIMIZERS.words())
@pytest.mark.parametrize("keyword", ["fully_connected", "conv2d", "gru", "lstmcell"])
def test_one_update_a_step(keyword: str, optimizer: str, clip: float) -> None:
    """Three steps; every weight is written by one operation, and moves as in float64."""
    made: Optimizer = OPTIMIZERS.load(optimizer)(learning_rate=0.02)
    lowered = lower(users(keyword, 3, clip_grad_by_norm=clip), batch=2, training=True, optimizer=made)
    for weight in lowered.weights:
        writers = [op for op in lowered.operations if any(v is weight.value for v in op.writes.values())]
        assert len(writers) == 1, weight.key
        assert writers[0].phase is Phase.UPDATE or writers[0].kind.name == "matmul_descent"
    feeds = Feeds(Case(Input, []))
    machine = interpreted(lowered, feeds, forward_only=True)  # feeds everything
    engine = Engine()
    external, pinned = transient(lowered)
    engine.store.ensure(persistent(lowered))
    program = engine.program(lowered, plan(lowered.operations, external=external, pinned=pinned))
    engine.arena.fill_nan()
    for state in (machine.state, engine.state):
        state.numbers[StepState.SAMPLES] = 2
        state.numbers[StepState.LEARNING_RATE] = 0.02
    live = {weight.key: program.array(weight.value) for weight in lowered.weights if weight.value is not None}
    for weight in lowered.weights:
        assert weight.value is not None
        live[weight.key][...] = feeds.get(weight.value)
    for _ in range(3):
        for value in (*lowered.inputs, *lowered.labels):
            program.array(value)[...] = feeds.get(value)
            machine[value] = feeds.get(value)
        engine.step(program)
        machine.run(lowered.operations)
        machine.state.counters[StepState.ITERATION] += 1
        machine.state.counters[StepState.STEP] += 1
    for weight in lowered.weights:
        assert weight.value is not None
        start = feeds.get(weight.value)
        moved = machine[weight.value] - start
        assert np.abs(moved).max() > 1e-4, weight.key
        close(weight.key, live[weight.key] - start, moved, 2e-3, float(np.abs(start).max()) * 1e-3)
