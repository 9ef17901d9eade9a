"""A sample's result in a recurrent or attention layer depends on that sample only, bit by bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from harness import Case, Feeds, build, compiled, lower

from nntrainer_py.layers.attention import Attention
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.gru import Gru
from nntrainer_py.layers.lstm import Lstm
from nntrainer_py.layers.multi_head_attention import MultiHeadAttention
from nntrainer_py.layers.rnn import Rnn

BATCH = 11
LAYERS: dict[str, tuple[Callable[[], Layer], list[tuple[int, int, int]]]] = {
    "rnn": (lambda: Rnn(unit=37, return_sequences=True), [(1, 9, 13)]),
    "lstm": (lambda: Lstm(unit=37, bidirectional=True, return_sequences=True), [(1, 9, 13)]),
    "gru": (lambda: Gru(unit=37, return_sequences=True), [(1, 9, 13)]),
    "gru, reset before": (lambda: Gru(unit=37, reset_after=False), [(1, 9, 13)]),
    "attention": (lambda: Attention(), [(1, 9, 13), (1, 5, 13)]),
    "multi_head_attention": (lambda: MultiHeadAttention(num_heads=3), [(1, 9, 15)] * 3),
}


def run(make: Callable[[], Layer], shapes: list[tuple[int, int, int]], rows: slice, threads: int) -> np.ndarray:
    """The output for some samples of a fixed batch."""
    rng = np.random.default_rng(4)
    whole = [rng.standard_normal((BATCH, *shape)).astype(np.float32) for shape in shapes]
    count = len(range(BATCH)[rows])
    case = Case(make, [(count, *shape) for shape in shapes])
    nodes, _ = build(case, training=False)
    lowered, feeds = lower(nodes, batch=count, training=False), Feeds(case)
    for weight in lowered.weights:
        assert weight.value is not None
        feeds.values[weight.value.name] = (rng.standard_normal(weight.dim.shape) * 0.3).astype(np.float32)
    for value, array in zip(lowered.inputs, whole, strict=True):
        feeds.values[value.name] = array[rows]
    return compiled(lowered, feeds, threads=threads)[0]["output 0"]


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_alone_and_in_a_batch(name: str) -> None:
    make, shapes = LAYERS[name]
    whole = run(make, shapes, slice(None), 1)
    for rows in (slice(0, 1), slice(7, 8), slice(3, 6), slice(0, 10)):
        assert run(make, shapes, rows, 2).tobytes() == whole[rows].tobytes()
