"""rnn, lstm and gru in inference against the nodes of ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Case, Feeds, build, compiled, lower

from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.gru import Gru
from nntrainer_py.layers.lstm import Lstm
from nntrainer_py.layers.rnn import Rnn

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

SHAPE = (3, 1, 6, 5)
UNITS = 4
#: our order of the gates to that of ONNX
ORDER = {"RNN": [0], "LSTM": [0, 3, 1, 2], "GRU": [0, 1, 2]}


def theirs(node: str, x: np.ndarray, weights: dict[str, np.ndarray], directions: int, **attributes: Any) -> np.ndarray:
    """Y of the node as [T, directions, N, units]."""
    order = ORDER[node]

    def stacked(name: str) -> np.ndarray:
        made = []
        for prefix in ("", "reverse_")[:directions]:
            blocks = np.split(weights[prefix + name][0, 0], len(order), axis=-1)
            made.append(np.concatenate([blocks[i].T for i in order], axis=0))
        return np.stack(made)

    biases = np.concatenate([stacked("bias_ih")[..., 0], stacked("bias_hh")[..., 0]], axis=-1)
    w, r = stacked("weight_ih"), stacked("weight_hh")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    direction = "bidirectional" if directions == 2 else "forward"
    made = helper.make_node(
        node, ["x", "w", "r", "b"], ["y"], hidden_size=UNITS, direction=direction, **attributes
    )  # fmt: skip
    graph = helper.make_graph(
        [made], "recurrent", [helper.make_tensor_value_info("x", kind, None)],
        [helper.make_tensor_value_info("y", kind, None)],
        [onnx.numpy_helper.from_array(a, n) for n, a in (("w", w), ("r", r), ("b", biases))],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": np.ascontiguousarray(x[:, 0].transpose(1, 0, 2))})
    return np.asarray(y)


def ours(layer: Layer) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Output, input and weights."""
    case = Case(lambda: layer, [SHAPE])
    nodes, _ = build(case, training=False)
    lowered, feeds = lower(nodes, batch=SHAPE[0], training=False), Feeds(case)
    results, _, _ = compiled(lowered, feeds)
    weights = {name.split(":")[1]: array for name, array in feeds.values.items() if name.startswith("layer:")}
    return results["output 0"], feeds.values["in0:input0"], weights


@pytest.mark.parametrize(
    ("node", "layer", "attributes"),
    [
        ("RNN", Rnn, {}),
        ("LSTM", Lstm, {}),
        ("LSTM", Lstm, {"bidirectional": True}),
        ("GRU", Gru, {"reset_after": True}),
        ("GRU", Gru, {"reset_after": False}),
    ],
    ids=["rnn", "lstm", "lstm both ways", "gru", "gru reset before"],
)
@pytest.mark.parametrize("sequences", [True, False])
def test_equals_onnxruntime(node: str, layer: type[Layer], attributes: dict[str, bool], sequences: bool) -> None:
    made, x, weights = ours(layer(unit=UNITS, return_sequences=sequences, **attributes))
    directions = 2 if attributes.get("bidirectional") else 1
    more = {"linear_before_reset": int(attributes["reset_after"])} if node == "GRU" else {}
    y = theirs(node, x, weights, directions, **more)
    if sequences:
        expected = y.transpose(2, 0, 1, 3).reshape(SHAPE[0], 1, SHAPE[2], -1)
    else:  # the state after all steps of each direction
        expected = np.concatenate([y[-1, 0], y[0, 1]], axis=-1) if directions == 2 else y[-1, 0]
    np.testing.assert_allclose(made.reshape(expected.shape), expected, rtol=1e-5, atol=1e-6)
