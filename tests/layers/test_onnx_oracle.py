"""A second, independent oracle for the forward pass: ONNX Runtime on single nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness import Case, Feeds, build, compiled

from nntrainer_py.graph.lower import lower
from nntrainer_py.layers.activation import Activation
from nntrainer_py.layers.add import Add
from nntrainer_py.layers.addition import Addition
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.batch_normalization import BatchNormalization
from nntrainer_py.layers.concat import Concat
from nntrainer_py.layers.conv1d import Conv1D
from nntrainer_py.layers.conv2d import Conv2D
from nntrainer_py.layers.conv2dtranspose import Conv2DTranspose
from nntrainer_py.layers.cos import Cos
from nntrainer_py.layers.depthwiseconv2d import DepthwiseConv2D
from nntrainer_py.layers.divide import Divide
from nntrainer_py.layers.embedding import Embedding
from nntrainer_py.layers.flatten import Flatten
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.gather import Gather
from nntrainer_py.layers.layer_normalization import LayerNormalization
from nntrainer_py.layers.matmul import Matmul
from nntrainer_py.layers.multiply import Multiply
from nntrainer_py.layers.negative import Negative
from nntrainer_py.layers.permute import Permute
from nntrainer_py.layers.pooling2d import Pooling2D
from nntrainer_py.layers.reduce_mean import ReduceMean
from nntrainer_py.layers.reduce_sum import ReduceSum
from nntrainer_py.layers.reshape import Reshape
from nntrainer_py.layers.rmsnorm import RMSNorm
from nntrainer_py.layers.sin import Sin
from nntrainer_py.layers.slice import Slice
from nntrainer_py.layers.subtract import Subtract
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
    opset = 20 if kind == "Gelu" else 18
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)
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
    "conv2d in groups": (
        lambda: Conv2D(filters=6, kernel_size=(3, 2), stride=(1, 2), dilation=(2, 1), padding=(1, 2, 0, 1), groups=3),
        [(2, 6, 7, 8)], "Conv",
        {"kernel_shape": [3, 2], "strides": [1, 2], "dilations": [2, 1], "pads": [1, 0, 2, 1], "group": 3}, _filter,
    ),
    "conv2d, same, even": (
        lambda: Conv2D(filters=3, kernel_size=(4, 3), stride=(2, 2), padding="same"),
        [(2, 2, 9, 8)], "Conv", {"kernel_shape": [4, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}, _filter,
    ),
    "batch normalization": (
        lambda: BatchNormalization(epsilon=0.01), [(2, 3, 4, 5)], "BatchNormalization", {"epsilon": 0.01},
        lambda x, w: [x[0], *(w[k].reshape(-1) for k in ("gamma", "beta", "moving_mean", "moving_variance"))],
    ),
    "fully connected": (
        lambda: FullyConnected(unit=4), [(6, 1, 1, 5)], "Gemm", {},
        lambda x, w: [x[0].reshape(6, 5), w["weight"].reshape(5, 4), w["bias"].reshape(4)],
    ),
    "concat": (lambda: Concat(axis=2), [(2, 3, 4, 5), (2, 3, 2, 5)], "Concat", {"axis": 2}, _plain),
    "permute": (lambda: Permute(direction="3,1,2"), [(2, 3, 4, 5)], "Transpose", {"perm": [0, 3, 1, 2]}, _plain),
    "reduce mean": (
        lambda: ReduceMean(axis=2), [(2, 3, 4, 5)], "ReduceMean", {"keepdims": 1},
        lambda x, w: [x[0], np.array([2], np.int64)],
    ),
    "reduce sum": (
        lambda: ReduceSum(axis=3), [(2, 3, 4, 5)], "ReduceSum", {"keepdims": 1},
        lambda x, w: [x[0], np.array([3], np.int64)],
    ),
    "slice": (
        lambda: Slice(axis=2, start_index=2, end_index=4), [(2, 3, 5, 4)], "Slice", {},
        lambda x, w: [x[0], *(np.array([k], np.int64) for k in (1, 3, 2))],
    ),
    "embedding": (
        lambda: Embedding(in_dim=7, out_dim=3), [(2, 1, 1, 5)], "Gather", {"axis": 0},
        lambda x, w: [w["Embedding"].reshape(7, 3), x[0].astype(np.int64).reshape(2, 1, 5)],
    ),
    "rms normalization": (
        lambda: RMSNorm(epsilon=0.01), [(2, 3, 4, 5)], "SimplifiedLayerNormalization", {"axis": 3, "epsilon": 0.01},
        lambda x, w: [x[0], w["gamma"].reshape(5)],
    ),
    "flatten": (
        lambda: Flatten(), [(2, 3, 4, 5)], "Reshape", {}, lambda x, w: [x[0], np.array([0, 1, 1, -1], np.int64)],
    ),
    "reshape": (
        lambda: Reshape(target_shape="5:3:4"), [(2, 3, 4, 5)], "Reshape", {},
        lambda x, w: [x[0], np.array([0, 5, 3, 4], np.int64)],
    ),
    "subtract": (lambda: Subtract(), [(2, 3, 4, 5), (1, 1, 4, 1)], "Sub", {}, _plain),
    "multiply": (lambda: Multiply(), [(2, 3, 4, 5), (2, 3, 1, 5)], "Mul", {}, _plain),
    "add": (lambda: Add(), [(2, 3, 4, 5), (1, 3, 1, 1)], "Add", {}, _plain),
    "addition": (lambda: Addition(), [(2, 3, 4, 5)] * 3, "Sum", {}, _plain),
    "sine": (lambda: Sin(), [(2, 3, 4, 5)], "Sin", {}, _plain),
    "cosine": (lambda: Cos(), [(2, 3, 4, 5)], "Cos", {}, _plain),
    "negative": (lambda: Negative(), [(2, 3, 4, 5)], "Neg", {}, _plain),
    "softmax": (lambda: Activation(activation="softmax"), [(2, 3, 4, 5)], "Softmax", {"axis": 3}, _plain),
    "sigmoid": (lambda: Activation(activation="sigmoid"), [(2, 3, 4, 5)], "Sigmoid", {}, _plain),
    "tanh": (lambda: Activation(activation="tanh"), [(2, 3, 4, 5)], "Tanh", {}, _plain),
    "relu": (lambda: Activation(activation="relu"), [(2, 3, 4, 5)], "Relu", {}, _plain),
    "leaky relu": (
        lambda: Activation(activation="leaky_relu"), [(2, 3, 4, 5)], "LeakyRelu", {"alpha": 0.01}, _plain,
    ),
    "elu": (lambda: Activation(activation="elu"), [(2, 3, 4, 5)], "Elu", {"alpha": 1.0}, _plain),
    "selu": (
        lambda: Activation(activation="selu"), [(2, 3, 4, 5)], "Selu",
        {"alpha": 1.67326324, "gamma": 1.05070098}, _plain,
    ),
    "softplus": (lambda: Activation(activation="softplus"), [(2, 3, 4, 5)], "Softplus", {}, _plain),
    "mish": (lambda: Activation(activation="mish"), [(2, 3, 4, 5)], "Mish", {}, _plain),
    "gelu": (lambda: Activation(activation="gelu"), [(2, 3, 4, 5)], "Gelu", {"approximate": "none"}, _plain),
    "tanh gelu": (lambda: Activation(activation="tanh_gelu"), [(2, 3, 4, 5)], "Gelu", {"approximate": "tanh"}, _plain),
}  # fmt: skip


def _fill(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    if (index == 1 and shape[2] == 6) or shape == (2, 1, 1, 5):
        return rng.integers(0, 4, shape)
    return rng.standard_normal(shape)


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
    if expected.ndim == 4:
        assert results["output 0"].shape == expected.shape
    np.testing.assert_allclose(
        results["output 0"].reshape(expected.shape), expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max()
    )
