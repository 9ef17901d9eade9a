"""The six models as ONNX graphs, weights taken from the product's by name; used for training and for inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Array = NDArray[Any]


class Graph:
    """An ONNX graph in the making. ``train`` keeps batch normalization and the LSTM in the form that has gradients."""

    def __init__(self, weights: Mapping[str, Array], batch: int, train: bool) -> None:
        self.weights, self.batch, self.train = weights, batch, train
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.frozen: list[str] = []
        self._count = 0

    def _name(self, stem: str) -> str:
        self._count += 1
        return f"{stem}_{self._count}"

    def value(self, array: Array, *, frozen: bool = False) -> str:
        name = self._name("w")
        self.initializers.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        if frozen:
            self.frozen.append(name)
        return name

    def integers(self, *values: int) -> str:
        return self.value(np.array(values, np.int64), frozen=True)

    def run(self, kind: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> str:
        """Add a node; its first output."""
        made = [self._name(kind.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), made, **attributes))
        return made[0]

    def relu(self, x: str) -> str:
        return self.run("Relu", [x])

    def dense(self, x: str, name: str) -> str:
        weight, bias = self.weights[f"{name}:weight"], self.weights[f"{name}:bias"]
        return self.run("Gemm", [x, self.value(weight.reshape(weight.shape[-2:])), self.value(bias.reshape(-1))])

    def product(self, x: str, weight: Array, bias: Array) -> str:
        made = self.run("MatMul", [x, self.value(weight.reshape(weight.shape[-2:]))])
        return self.run("Add", [made, self.value(bias.reshape(-1))])

    def convolution(self, x: str, name: str, stride: int = 1, padding: int = 0) -> str:
        weight = self.weights[f"{name}:filter"]
        inputs = [x, self.value(weight)]
        if f"{name}:bias" in self.weights:
            inputs.append(self.value(self.weights[f"{name}:bias"].reshape(-1)))
        kernel = list(weight.shape[2:])
        return self.run("Conv", inputs, kernel_shape=kernel, strides=[stride] * 2, pads=[padding] * 4)

    def batch_normalization(self, x: str, name: str) -> str:
        parts = [
            self.weights[f"{name}:{part}"].reshape(-1) for part in ("gamma", "beta", "moving_mean", "moving_variance")
        ]
        inputs = [x, *(self.value(part, frozen=place > 1) for place, part in enumerate(parts))]
        if self.train:
            return self.run("BatchNormalization", inputs, outputs=3, training_mode=1)
        return self.run("BatchNormalization", inputs)

    def layer_normalization(self, x: str, name: str) -> str:
        inputs = [x, *(self.value(self.weights[f"{name}:{part}"].reshape(-1)) for part in ("gamma", "beta"))]
        if self.train:
            return self.run("LayerNormalization", inputs, outputs=3, axis=-1)
        return self.run("LayerNormalization", inputs, axis=-1)


def mlp(g: Graph, x: str) -> str:
    x = g.run("Flatten", [x])
    return g.dense(g.relu(g.dense(g.relu(g.dense(x, "fc1")), "fc2")), "classes")


def lenet(g: Graph, x: str) -> str:
    for name in ("conv1", "conv2"):
        x = g.run("Sigmoid", [g.convolution(x, name)])
        x = g.run("AveragePool", [x], kernel_shape=[2, 2], strides=[2, 2])
    return g.dense(g.run("Flatten", [x]), "classes")


def lstm(g: Graph, x: str) -> str:
    steps, width = 32, g.weights["lstm:weight_hh"].shape[2]
    x = g.run("Transpose", [g.run("Squeeze", [x, g.integers(1)])], perm=[1, 0, 2])  # time first
    order = (0, 3, 1, 2)  # ONNX has input, output, forget, cell; here input, forget, cell, output

    def gates(name: str) -> Array:
        array = g.weights[f"lstm:{name}"]
        array = array.reshape(array.shape[-2:])
        return np.concatenate([array[:, i * width : (i + 1) * width] for i in order], 1).T

    bias = np.concatenate([gates("bias_ih"), gates("bias_hh")]).reshape(1, -1)
    inputs = [x, g.value(gates("weight_ih")[None]), g.value(gates("weight_hh")[None]), g.value(bias)]
    if g.train:
        zero = np.zeros((1, g.batch, width), np.float32)
        inputs += ["", g.value(zero, frozen=True), g.value(zero, frozen=True)]
        # the plain operator has no gradient; its twin for training keeps cells and gates
        made = g.run("LSTMTraining", inputs, outputs=5, hidden_size=width, domain="com.microsoft")
    else:
        made = g.run("LSTM", inputs, hidden_size=width)
    last = g.run("Gather", [made, g.value(np.array(steps - 1, np.int64), frozen=True)], axis=0)
    return g.dense(g.run("Squeeze", [last, g.integers(0)]), "classes")


def transformer(g: Graph, x: str) -> str:
    batch, steps, width, heads = g.batch, 32, 64, 4
    x = g.run("Squeeze", [x, g.integers(1)])
    normal = g.layer_normalization(x, "norm1")

    def part(name: str) -> str:
        made = g.product(normal, g.weights[f"attention:{name}_fc_weight"], g.weights[f"attention:{name}_fc_bias"])
        made = g.run("Reshape", [made, g.integers(batch, steps, heads, width // heads)])
        return g.run("Transpose", [made], perm=[0, 2, 1, 3])

    query, key, value = part("query"), part("key"), part("value")
    score = g.run("MatMul", [query, g.run("Transpose", [key], perm=[0, 1, 3, 2])])
    score = g.run("Mul", [score, g.value(np.array((width // heads) ** -0.5, np.float32), frozen=True)])
    made = g.run("Transpose", [g.run("MatMul", [g.run("Softmax", [score], axis=-1), value])], perm=[0, 2, 1, 3])
    made = g.run("Reshape", [made, g.integers(batch, steps, width)])
    made = g.product(made, g.weights["attention:fc_weight"], g.weights["attention:fc_bias"])
    x = g.run("Add", [x, made])
    normal = g.layer_normalization(x, "norm2")
    made = g.relu(g.product(normal, g.weights["hidden:weight"], g.weights["hidden:bias"]))
    x = g.run("Add", [x, g.product(made, g.weights["back:weight"], g.weights["back:bias"])])
    return g.dense(g.run("ReduceMean", [x], axes=[1], keepdims=0), "classes")


def resnet18(g: Graph, x: str) -> str:
    def normalized(x: str, name: str, stride: int = 1) -> str:
        padding = g.weights[f"{name}_conv:filter"].shape[2] // 2
        return g.batch_normalization(g.convolution(x, f"{name}_conv", stride, padding), f"{name}_bn")

    x = g.relu(normalized(x, "stem"))
    for number, stride in enumerate((1, 1, 2, 1, 2, 1, 2, 1), 1):
        block = f"block{number}"
        made = normalized(g.relu(normalized(x, f"{block}_1", stride)), f"{block}_2")
        skip = normalized(x, f"{block}_skip", stride) if f"{block}_skip_conv:filter" in g.weights else x
        x = g.relu(g.run("Add", [made, skip]))
    return g.dense(g.run("Flatten", [g.run("GlobalAveragePool", [x])]), "classes")


def vgg16(g: Graph, x: str) -> str:
    for group, count in enumerate((2, 2, 3, 3, 3), 1):
        for place in range(1, count + 1):
            made = g.convolution(x, f"conv{group}_{place}", 1, 1)
            x = g.relu(g.batch_normalization(made, f"bn{group}_{place}"))
        x = g.run("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = g.run("Flatten", [x])
    return g.dense(g.relu(g.dense(g.relu(g.dense(x, "fc1")), "fc2")), "classes")


MODELS = {
    "mlp": mlp, "lenet": lenet, "lstm": lstm, "transformer": transformer, "resnet18": resnet18, "vgg16": vgg16,
}  # fmt: skip


def build(name: str, weights: Mapping[str, Array], shape: Sequence[int], *, train: bool) -> tuple[Any, Graph]:
    """The model for inputs of ``shape``, and the graph it was made from."""
    g = Graph(weights, shape[0], train)
    out = MODELS[name](g, "x")
    classes = weights["classes:bias"].size
    graph = helper.make_graph(
        g.nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
        [helper.make_tensor_value_info(out, TensorProto.FLOAT, [shape[0], classes])],
        g.initializers,
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=8)), g
