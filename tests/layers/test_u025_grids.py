"""U025 for grouped, depthwise and transposed convolution: sizes over a whole grid, values against a slow loop."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from harness import Feeds, compiled, interpreted, watched

from nntrainer_py.graph.lower import Lowered, Node, lower
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.input import Input
from nntrainer_py.registry import LAYERS
from nntrainer_py.tensor.dim import TensorDim

KINDS: dict[str, dict[str, Any]] = {
    "conv2d": {"filters": 4, "groups": 2},
    "depthwiseconv2d": {},
    "conv2dtranspose": {"filters": 3},
}
PADDINGS = ("valid", "same", "1", "0,2", "1,0,2,1")


def layer_of(kind: str, kernel: int, stride: int, dilation: int, padding: str) -> Layer:
    made: Layer = LAYERS.load(kind)(
        kernel_size=(kernel, kernel), stride=(stride, 1), dilation=(dilation, 1), padding=padding, **KINDS[kind]
    )
    return made


def lowered_of(layer: Layer, size: int) -> Lowered:
    nodes = [Node("in0", Input(), [], [TensorDim(1, 4, size, 6)]), Node("layer", layer, [(0, 0)])]
    return lower(nodes, batch=2, training=False)


def sides(padding: str, size: int, kernel: int, stride: int, dilation: int) -> tuple[int, int]:
    """Cells added above and below, from the specification's words."""
    if padding == "valid":
        return 0, 0
    if padding == "same":
        total = max((-(-size // stride) - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)
        return total // 2, total - total // 2
    numbers = [int(number) for number in padding.split(",")]
    return (numbers[0], numbers[1]) if len(numbers) == 4 else (numbers[0], numbers[0])


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("padding", PADDINGS)
def test_u025_output_sizes(kind: str, padding: str) -> None:
    checked = 0
    for size, kernel, stride, dilation in itertools.product(range(1, 13), range(1, 6), (1, 2, 3), (1, 2)):
        extent = (kernel - 1) * dilation + 1
        before, after = sides(padding, size, kernel, stride, dilation)
        if kind == "conv2dtranspose":
            expected = (size - 1) * stride + extent - before - after
            across = 5 + kernel - sum(sides(_across(padding), 6, kernel, 1, 1))
        else:
            expected = (size + before + after - extent) // stride + 1
            across = 6 + sum(sides(_across(padding), 6, kernel, 1, 1)) - kernel + 1
        if expected < 1 or across < 1 or size + before + after < extent:
            continue
        row = lowered_of(layer_of(kind, kernel, stride, dilation, padding), size).table[1]
        assert row.outputs[0].shape[2:] == (expected, across), (kind, size, kernel, stride, dilation)
        if padding == "same" and kind != "conv2dtranspose":
            assert expected == -(-size // stride)
        checked += 1
    assert checked > 100


def _across(padding: str) -> str:
    """The same padding as it applies to the width, written for `sides`."""
    numbers = padding.split(",")
    if len(numbers) == 2:
        return numbers[1]
    return f"{numbers[2]},{numbers[3]},0,0" if len(numbers) == 4 else padding


@pytest.mark.parametrize("kind", list(KINDS))
def test_u025_values(kind: str) -> None:
    for size, kernel, stride, dilation, padding in itertools.product((3, 8), (1, 2, 4), (1, 3), (1, 2), PADDINGS):
        layer = layer_of(kind, kernel, stride, dilation, padding)
        refusal = ""
        try:
            lowered = lowered_of(layer, size)
        except Exception as error:  # a window that does not fit is refused in words
            refusal = str(error) or "nothing said"
        if refusal:
            assert "fit" in refusal or "output" in refusal or "at least 1" in refusal, refusal
            continue
        feeds = Feeds(_Case())
        machine = interpreted(lowered, feeds)
        results, _, _ = compiled(lowered, feeds, poison=True)
        for name, value in watched(lowered).items():
            largest = max(float(np.abs(machine[value]).max()), 1e-3)
            error = float(np.abs(results[name] - machine[value]).max())
            assert error <= 1e-5 * largest, (size, kernel, stride, dilation, padding)


class _Case:
    """What `Feeds` asks of a case."""

    fill = None
    weights = None
    label = None
