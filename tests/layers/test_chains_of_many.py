"""U022 for layers that want a certain shape or several inputs: between any two neighbours, in place and not."""

from __future__ import annotations

import numpy as np
import pytest
from harness import Case, Feeds, Projection, compiled

from nntrainer_py.graph.lower import Lowered, Node, lower
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.identity import Identity
from nntrainer_py.layers.input import Input
from nntrainer_py.registry import LAYERS
from nntrainer_py.tensor.dim import TensorDim

#: layers that keep the shape, and may or may not run in place
NEIGHBOURS: dict[str, tuple[str, dict[str, str]]] = {
    "batch_normalization": ("batch_normalization", {"axis": "3"}),
    "dropout": ("dropout", {"dropout_rate": "0.4"}),
    "identity": ("identity", {}),
    "layer_normalization": ("layer_normalization", {"axis": "3"}),
    "relu": ("activation", {"activation": "relu"}),
    "sin": ("sin", {}),
    "softmax": ("activation", {"activation": "softmax"}),
    "swish": ("activation", {"activation": "swish"}),
}
SEQUENCE, SQUARE, CHANNELS = (1, 4, 6), (2, 4, 4), (4, 3, 3)
#: word, properties, number of inputs, shape of the input
MIDDLE: dict[str, tuple[str, dict[str, str], int, tuple[int, int, int]]] = {
    "add": ("add", {}, 2, SQUARE),
    "addition": ("addition", {}, 3, SQUARE),
    "attention": ("attention", {}, 3, SEQUENCE),
    "channel_shuffle": ("channel_shuffle", {"split_number": "2"}, 1, CHANNELS),
    "concat": ("concat", {"axis": "2"}, 2, SQUARE),
    "conv1d": ("conv1d", {"filters": "3", "kernel_size": "2", "padding": "same"}, 1, (3, 1, 6)),
    "divide": ("divide", {}, 2, SQUARE),
    "gru": ("gru", {"unit": "5", "return_sequences": "true"}, 1, SEQUENCE),
    "lstm": ("lstm", {"unit": "5", "bidirectional": "true", "return_sequences": "true"}, 1, SEQUENCE),
    "matmul": ("matmul", {}, 2, SQUARE),
    "multi_head_attention": ("multi_head_attention", {"num_heads": "2"}, 3, SEQUENCE),
    "multiply": ("multiply", {}, 2, SQUARE),
    "rnn": ("rnn", {"unit": "5", "return_sequences": "true", "dropout_rate": "0.3"}, 1, SEQUENCE),
    "rnncell": ("rnncell", {"unit": "6"}, 2, (1, 1, 6)),
    "grucell": ("grucell", {"unit": "6"}, 2, (1, 1, 6)),
    "split": ("split", {"axis": "2", "split_number": "1"}, 1, SQUARE),
    "subtract": ("subtract", {}, 2, SQUARE),
    "swiglu": ("swiglu", {}, 2, SEQUENCE),
}


def _load(word: str, properties: dict[str, str]) -> Layer:
    layer: Layer = LAYERS.load(word)(**properties)
    return layer


def _chain(before: str, middle: str, after: str) -> Lowered:
    word, properties, inputs, shape = MIDDLE[middle]
    nodes = [
        Node("in0", Input(), [], [TensorDim(3, *shape)]),
        Node("before", _load(*NEIGHBOURS[before]), [(0, 0)]),
        Node("many", _load("multiout", {}), [(1, 0)], outputs=inputs),
        Node("middle", _load(word, properties), [(2, index) for index in range(inputs)]),
        Node("layer", _load(*NEIGHBOURS[after]), [(3, 0)]),
        Node("loss", Projection(), [(4, 0)]),
    ]
    return lower(nodes, batch=3, training=True, input_derivatives=True, keep_gradients=True)


@pytest.mark.parametrize("middle", sorted(MIDDLE))
def test_u022_between_any_two_neighbours(middle: str) -> None:
    for before in NEIGHBOURS:
        if middle == "divide" and before in ("dropout", "relu"):
            continue  # these make zeros, and 0 / 0 is no number
        for after in NEIGHBOURS:
            lowered = _chain(before, middle, after)
            feeds = Feeds(Case(Identity, []))
            expected, _, plain = compiled(lowered, feeds, in_place=False, reuse=False, poison=True)
            results, _, loss = compiled(lowered, feeds, poison=True)
            assert np.isfinite(loss), (before, after)
            assert loss == plain, (before, after)
            for key, array in results.items():
                assert array.tobytes() == expected[key].tobytes(), (before, after, key)


@pytest.mark.parametrize("after", sorted(NEIGHBOURS))
def test_u022_behind_an_embedding(after: str) -> None:
    nodes = [
        Node("in0", Input(), [], [TensorDim(3, 1, 1, 5)]),
        Node("table", _load("embedding", {"in_dim": "7", "out_dim": "4"}), [(0, 0)]),
        Node("layer", _load(*NEIGHBOURS[after]), [(1, 0)]),
        Node("loss", Projection(), [(2, 0)]),
    ]
    lowered = lower(nodes, batch=3, training=True, keep_gradients=True)
    feeds = Feeds(Case(Identity, [], fill=lambda i, shape, rng: rng.integers(0, 7, shape)))
    expected, _, plain = compiled(lowered, feeds, in_place=False, reuse=False, poison=True)
    results, _, loss = compiled(lowered, feeds, poison=True)
    assert loss == plain
    assert {key: array.tobytes() for key, array in results.items()} == {
        key: array.tobytes() for key, array in expected.items()
    }
