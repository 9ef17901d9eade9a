"""A second, independent oracle for the forward pass: ONNX Runtime on single nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness import Case, Feeds, build, compiled

from nntrainer_py.graph.lower import lower
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.conv1d import Conv1D
from nntrainer_py.layers.conv2dtranspose import Conv2DTranspose
from nntrainer_py.layers.depthwiseconv2d import DepthwiseConv2D
from nntrainer_py.layers.divide import Divide
from nntrainer_py.layers.gather import Gather
from nntrainer_py.layers.layer_normalization import LayerNormalization
from nntrainer_py.layers.matmul import Matmul
from nntrainer_py.layers.pooling2d import Pooling2D
from nntrainer_py.layers.upsample2d import Upsample2D

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")

Arrays = list[Any]
Weights = dict[str, Any]


def run_node(kind: str, arrays: Arrays, attributes: dict[str, Any]) -> Any:
    """One ONNX node on these inputs; None leaves an optional input out."""
    names = ["" if array is None else f"x{i}" for i, array in enumerate(arrays)]
    given = {f"x{i}": array for i, array in enumerate(arrays) if array is not None}
    helper = onnx.helper
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node(kind, names, ["y"], **attributes)], "one", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, given)[0]


def _filter(x: Arrays, w: Weights) -> Arrays:
    return [x[0], w["filter"], w["bias"].reshape(-1)]


def _turned(groups: int) -> Callable[[Arrays, Weights], Arrays]:
    def operands(x: Arrays, w: Weights) -> Arrays:
        f = w["filter"]
        split = f.reshape(groups, f.shape[0] // groups, *f.shape[1:]).swapaxes(1, 2)
        return [x[0], np.ascontiguousarray(split.reshape(-1, *split.shape[2:])), w["bias"].reshape(-1)]

    return operands


def _plain(x: Arrays, w: Weights) -> Arrays:
    return list(x)


def _scales(x: Arrays, w: Weights) -> Arrays:
    return [x[0], None, np.array([1, 1, 3, 2], np.float32)]


Row = tuple[
    Callable[[], Layer], list[tuple[int, int, int, int]], str, dict[str, Any], Callable[[Arrays, Weights], Arrays]
]
ROWS: dict[str, Row] = {
    "max pooling": (
        lambda: Pooling2D(pooling="max", pool_size=(3, 2), stride=(2, 1), padding=(1, 1, 1, 0)),
        [(2, 3, 7, 6)], "MaxPool", {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 1, 0]}, _plain,
    ),
    "average pooling": (
        lambda: Pooling2D(pooling="average", pool_size=(3, 2), stride=(2, 1), padding=(1, 1, 1, 0)),
        [(2, 3, 7, 6)], "AveragePool",
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 1, 1, 0], "count_include_pad": 0}, _plain,
    ),
    "max pooling, same": (
        lambda: Pooling2D(pooling="max", pool_size=(4, 3), stride=(3, 2), padding="same"),
        [(1, 2, 10, 9)], "MaxPool", {"kernel_shape": [4, 3], "strides": [3, 2], "auto_pad": "SAME_UPPER"}, _plain,
    ),
    "global max": (lambda: Pooling2D(pooling="global_max"), [(2, 3, 5, 4)], "GlobalMaxPool", {}, _plain),
    "global average": (lambda: Pooling2D(pooling="global_average"), [(2, 3, 5, 4)], "GlobalAveragePool", {}, _plain),
    "conv1d": (
        lambda: Conv1D(filters=4, kernel_size=3, stride=2, dilation=2, padding=(3, 1), groups=2),
        [(2, 6, 1, 11)], "Conv",
        {"kernel_shape": [1, 3], "strides": [1, 2], "dilations": [1, 2], "pads": [0, 3, 0, 1], "group": 2}, _filter,
    ),
    "depthwise": (
        lambda: DepthwiseConv2D(filters=6, kernel_size=(3, 2), stride=(2, 1), padding="same"),
        [(2, 3, 7, 6)], "Conv",
        {"kernel_shape": [3, 2], "strides": [2, 1], "auto_pad": "SAME_UPPER", "group": 3}, _filter,
    ),
    "transposed convolution": (
        lambda: Conv2DTranspose(filters=4, kernel_size=(3, 4), stride=(2, 3), dilation=(2, 1), padding=(1, 0, 2, 1)),
        [(2, 3, 5, 4)], "ConvTranspose",
        {"kernel_shape": [3, 4], "strides": [2, 3], "dilations": [2, 1], "pads": [1, 2, 0, 1]}, _turned(1),
    ),
    "transposed convolution in groups": (
        lambda: Conv2DTranspose(filters=4, kernel_size=(2, 2), stride=(2, 2), groups=2),
        [(1, 6, 3, 3)], "ConvTranspose", {"kernel_shape": [2, 2], "strides": [2, 2], "group": 2}, _turned(2),
    ),
    "bilinear": (
        lambda: Upsample2D(upsample="bilinear", kernel_size=(3, 2)),
        [(2, 3, 4, 5)], "Resize", {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}, _scales,
    ),
    "nearest": (
        lambda: Upsample2D(upsample="nearest", kernel_size=(3, 2)),
        [(2, 3, 4, 5)], "Resize",
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}, _scales,
    ),
    "layer normalization": (
        lambda: LayerNormalization(axis="2,3", epsilon=0.01),
        [(2, 3, 4, 5)], "LayerNormalization", {"axis": 2, "epsilon": 0.01},
        lambda x, w: [x[0], w["gamma"].reshape(4, 5), w["beta"].reshape(4, 5)],
    ),
    "gather": (
        lambda: Gather(axis=2), [(2, 3, 4, 5), (2, 3, 6, 5)], "GatherElements", {"axis": 2},
        lambda x, w: [x[0], x[1].astype(np.int64)],
    ),
    "matmul": (lambda: Matmul(), [(2, 3, 4, 5), (2, 1, 5, 6)], "MatMul", {}, _plain),
    "divide": (lambda: Divide(), [(2, 3, 4, 5), (1, 3, 1, 5)], "Div", {}, _plain),
}  # fmt: skip


def _fill(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    return rng.integers(0, 4, shape) if index == 1 and shape[2] == 6 else rng.standard_normal(shape)


@pytest.mark.parametrize("name", ROWS)
def test_forward(name: str) -> None:
    layer, shapes, kind, attributes, operands = ROWS[name]
    case = Case(layer, shapes, fill=_fill)
    nodes, _ = build(case, training=False)
    feeds = Feeds(case)
    results, _, _ = compiled(lower(nodes, batch=shapes[0][0], training=False), feeds)
    inputs = [feeds.values[f"in{i}:input0"] for i in range(len(shapes))]
    weights = {key.partition(":")[2]: value for key, value in feeds.values.items() if key.startswith("layer:")}
    expected = run_node(kind, operands(inputs, weights), attributes)
    assert results["output 0"].shape == expected.shape
    np.testing.assert_allclose(results["output 0"], expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
