"""U026: weight gradients of every convolution over a grid of kernels, strides, paddings, dilations and groups.

Each has the shape of its weight, equals the sum over samples computed alone (no batch size in it), and agrees with the
float64 reference, which agrees with central differences.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Arrays, Case, Feeds, build, central_differences, close, compiled, interpreted, watched

from nntrainer_py.graph.lower import Lowered, lower
from nntrainer_py.layers.base import Layer
from nntrainer_py.registry import LAYERS

BATCH, SIZE = 3, 9
#: name -> keyword, properties, shape of a sample
KINDS: dict[str, tuple[str, dict[str, str], tuple[int, int, int]]] = {
    "conv1d": ("conv1d", {"filters": "4"}, (2, 1, SIZE)),
    "conv1d in groups": ("conv1d", {"filters": "4", "groups": "2"}, (2, 1, SIZE)),
    "conv2d in groups": ("conv2d", {"filters": "4", "groups": "2"}, (4, 7, SIZE)),
    "depthwise": ("depthwiseconv2d", {}, (3, 7, SIZE)),
    "transpose": ("conv2dtranspose", {"filters": "3"}, (2, 5, 4)),
    "transpose in groups": ("conv2dtranspose", {"filters": "4", "groups": "2"}, (2, 4, 5)),
}


def layer_of(kind: str, kernel: int, stride: int, dilation: int, padding: str) -> Layer:
    """A layer with that kernel; along the height one row or two, so that the axes differ."""
    keyword, properties, _ = KINDS[kind]
    one = keyword == "conv1d"
    sizes = {
        "kernel_size": f"{kernel}" if one else f"{min(kernel, 2)},{kernel}",
        "stride": f"{stride}" if one else f"1,{stride}",
        "dilation": f"{dilation}" if one else f"1,{dilation}",
        "padding": padding if one or not padding.isdigit() else f"0,{padding}",
    }
    layer: Layer = LAYERS.load(keyword)(**properties, **sizes)
    return layer


def lowered_case(case: Case, batch: int) -> Lowered:
    nodes, _ = build(case)
    return lower(nodes, batch=batch, training=True, keep_gradients=True, input_derivatives=True)


@pytest.mark.parametrize("kernel", range(1, 8))
@pytest.mark.parametrize("kind", list(KINDS))
def test_u026_gradients(kind: str, kernel: int) -> None:
    for padding in ("valid", "same", "3"):
        for stride, dilation in ((1, 1), (2, 1), (3, 2)):
            if _fits(kind, kernel, dilation, padding):
                _check(kind, kernel, stride, dilation, padding)


def _fits(kind: str, kernel: int, dilation: int, padding: str) -> bool:
    window, pads = (kernel - 1) * dilation + 1, 6 if padding == "3" else 0
    if kind.startswith("transpose"):
        return (KINDS[kind][2][2] - 1) + window - pads >= 1
    return padding == "same" or window <= SIZE + pads


def _check(kind: str, kernel: int, stride: int, dilation: int, padding: str) -> None:
    case = Case(lambda: layer_of(kind, kernel, stride, dilation, padding), [(BATCH, *KINDS[kind][2])])
    lowered = lowered_case(case, BATCH)
    for weight in lowered.weights:
        assert lowered.gradients[weight.key].shape == weight.dim.shape
    feeds = Feeds(case)
    machine = interpreted(lowered, feeds)
    if stride == 2 and padding == "same":
        central_differences(case, lowered, feeds, machine, [False], most=3)
    results, _, _ = compiled(lowered, feeds)
    for name, value in watched(lowered).items():
        close(f"{kind} {kernel} {stride} {dilation} {padding}: {name}", results[name], machine[value], 1e-5)
    alone = [_alone(case, feeds, lowered, sample) for sample in range(BATCH)]
    for weight in lowered.weights:
        name = f"gradient of {weight.key}"
        total = np.sum([run[name] for run in alone], axis=0, dtype=np.float64)
        close(f"sum of samples: {name}", results[name], total, 1e-5)


def _alone(case: Case, feeds: Feeds, whole: Lowered, sample: int) -> Arrays:
    """One sample as a batch of its own, with the same weights."""
    made = lowered_case(case, 1)
    one = Feeds(case)
    for weight in whole.weights:
        assert weight.value is not None
        one.values[weight.value.name] = feeds.get(weight.value)
    pairs: Any = zip((*whole.inputs, *whole.labels), (*made.inputs, *made.labels), strict=True)
    for value, own in pairs:
        one.values[own.name] = feeds.get(value)[sample : sample + 1]
    results, _, _ = compiled(made, one)
    return results
