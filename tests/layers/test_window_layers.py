"""conv1d, depthwiseconv2d, conv2dtranspose and upsample2d over kernels, strides, dilations, paddings and groups."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from harness import Case, Feeds, build, case_id, check, compiled
from scipy import signal

from nntrainer_py.errors import DescriptionError, UsageError
from nntrainer_py.graph.lower import Node, lower
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.conv1d import Conv1D
from nntrainer_py.layers.conv2dtranspose import Conv2DTranspose
from nntrainer_py.layers.depthwiseconv2d import DepthwiseConv2D
from nntrainer_py.layers.upsample2d import Upsample2D
from nntrainer_py.tensor.dim import TensorDim

ONE: list[dict[str, Any]] = [
    {"kernel_size": 3},
    {"kernel_size": 3, "padding": "same", "stride": 2},
    {"kernel_size": 2, "padding": "causal", "dilation": 2},
    {"kernel_size": 4, "padding": "causal", "stride": 3},
    {"kernel_size": 7, "padding": (3, 3), "stride": 2},
    {"kernel_size": 1, "stride": 3},
    {"kernel_size": 3, "padding": (0, 2), "groups": 2, "disable_bias": True},
]
TWO: list[dict[str, Any]] = [
    {"kernel_size": (3, 3)},
    {"kernel_size": (3, 2), "stride": (2, 1), "padding": "same"},
    {"kernel_size": (2, 3), "dilation": (2, 1), "padding": (1, 0, 2, 1)},
    {"kernel_size": (7, 7), "stride": (2, 2), "padding": 3},
    {"kernel_size": (1, 1), "stride": (2, 3)},
]
TRANSPOSED: list[dict[str, Any]] = [
    *TWO[:3],
    {"kernel_size": (4, 4), "stride": (2, 2), "padding": 1},
    {"kernel_size": (2, 2), "stride": (3, 3)},
    {"kernel_size": (3, 3), "stride": (2, 2), "groups": 2, "disable_bias": True},
    {"kernel_size": (1, 5), "stride": (1, 2), "dilation": (1, 2)},
]


def _name(keyword: str, options: dict[str, Any], shape: tuple[int, ...]) -> str:
    return f"{keyword} {' '.join(f'{k}={v}' for k, v in options.items())} {shape}"


CASES = [
    Case(lambda o=o: Conv1D(filters=4, **o), [shape], _name("conv1d", o, shape))
    for o, shape in itertools.product(ONE, [(2, 2, 1, 11), (1, 4, 1, 8)])
]
CASES += [
    Case(lambda o=o: DepthwiseConv2D(**o), [shape], _name("depthwise", o, shape))
    for o, shape in itertools.product(TWO, [(2, 3, 8, 7), (1, 1, 5, 9)])
]
CASES += [
    Case(
        lambda: DepthwiseConv2D(kernel_size=(3, 3), filters=6, disable_bias=True), [(2, 3, 5, 6)], "depthwise times two"
    ),
]
CASES += [
    Case(lambda o=o: Conv2DTranspose(filters=4, **o), [shape], _name("transpose", o, shape))
    for o, shape in itertools.product(TRANSPOSED, [(2, 2, 5, 7), (1, 6, 3, 4)])
]
CASES += [
    Case(lambda k=kind, s=scale: Upsample2D(upsample=k, kernel_size=s), [shape], f"{kind} {scale} {shape}")
    for kind, scale, shape in itertools.product(
        ("nearest", "bilinear"), [(2, 2), (1, 3), (4, 1), (3, 2)], [(2, 3, 4, 5), (1, 1, 1, 1), (1, 2, 3, 1)]
    )
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("n", range(1, 13))
@pytest.mark.parametrize("k", range(1, 8))
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("dilation", [1, 2])
def test_conv1d_same(n: int, k: int, stride: int, dilation: int) -> None:
    """U025: ceil(n / stride) outputs, and the values of a slow loop with the odd cell of padding on the right."""
    layer = lambda: Conv1D(filters=1, kernel_size=k, stride=stride, dilation=dilation, padding="same")  # noqa: E731
    case = Case(layer, [(1, 1, 1, n)])
    nodes, _ = build(case, training=False)
    feeds = Feeds(case)
    lowered = lower(nodes, batch=1, training=False)
    results, _, _ = compiled(lowered, feeds)
    x, w, bias = (feeds.values[name].reshape(-1) for name in ("in0:input0", "layer:filter", "layer:bias"))
    count = -(-n // stride)
    before = max((count - 1) * stride + (k - 1) * dilation + 1 - n, 0) // 2
    expected = [
        bias[0] + sum(w[c] * x[p] for c in range(k) if 0 <= (p := i * stride + c * dilation - before) < n)
        for i in range(count)
    ]
    np.testing.assert_allclose(results["output 0"].reshape(-1), expected, rtol=1e-5, atol=1e-5)


def _slow_transpose(x: Any, w: Any, stride: int, padding: int) -> Any:
    """SciPy: zeros between the input's cells, then a full convolution, one pair of channels at a time."""
    batch, channels, height, width = x.shape
    spread = np.zeros((batch, channels, (height - 1) * stride + 1, (width - 1) * stride + 1))
    spread[:, :, ::stride, ::stride] = x
    made = np.array(
        [
            [sum(signal.convolve2d(spread[n, c], w[o, c]) for c in range(channels)) for o in range(w.shape[0])]
            for n in range(batch)
        ]
    )
    end = -padding or None
    return made[:, :, padding:end, padding:end]


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"), [(5, 3, 1, 0), (5, 3, 2, 1), (7, 4, 3, 2), (3, 3, 1, 1)]
)
def test_transposed_convolution_against_scipy(size: int, kernel: int, stride: int, padding: int) -> None:
    def layer() -> Layer:
        return Conv2DTranspose(filters=3, kernel_size=(kernel, kernel), stride=(stride, stride), padding=padding)

    case = Case(
        layer, [(2, 2, size, size)], weights=lambda name, shape, rng: np.zeros(shape) if name == "bias" else None
    )
    nodes, _ = build(case, training=False)
    feeds = Feeds(case)
    results, _, _ = compiled(lower(nodes, batch=2, training=False), feeds)
    expected = _slow_transpose(feeds.values["in0:input0"], feeds.values["layer:filter"], stride, padding)
    assert results["output 0"].shape == expected.shape == (2, 3, *[(size - 1) * stride + kernel - 2 * padding] * 2)
    np.testing.assert_allclose(results["output 0"], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (lambda: Conv1D(filters=2, kernel_size=3), (1, 1, 2, 5), "expected a height of 1"),
        (lambda: Conv1D(filters=2, kernel_size=6), (1, 1, 1, 5), "a window of 6 does not fit: the width is 5"),
        (lambda: Conv1D(filters=4, kernel_size=3, groups=2), (1, 3, 1, 5), "groups: expected a divisor of the 3"),
        (lambda: DepthwiseConv2D(filters=4, kernel_size=(1, 1)), (1, 3, 5, 5), "filters: expected a multiple of the 3"),
        (lambda: Conv2DTranspose(filters=1, kernel_size=(2, 2), padding=3), (1, 1, 3, 3), "leave nothing of 4 cells"),
    ],
)
def test_what_does_not_fit_is_refused(layer: Any, shape: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(DescriptionError, match=message):
        lower([Node("l", layer(), [], [TensorDim(*shape)])], batch=1, training=False)


def test_groups_divide_the_filters() -> None:
    for cls, kernel in ((Conv1D, 1), (Conv2DTranspose, (1, 1))):
        with pytest.raises(UsageError, match="groups"):
            cls(filters=3, kernel_size=kernel, groups=2)
