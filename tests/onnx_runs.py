"""Runs ONNX graphs in stock ONNX Runtime, on the CPU; tests that need it are skipped where it is not installed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

Arrays = dict[str, np.ndarray[Any, Any]]
#: kinds whose operands hang together: tested in the rows of the layers (formats/onnx/test_layers.py), not one by one
OF_LAYERS = {
    "rnn", "rnn_derivative", "lstm", "lstm_derivative", "gru", "gru_derivative", "recurrent_gradient",
    "attention", "attention_derivative", "mol_scores", "mol_scores_derivative", "zoneout", "zoneout_derivative",
    "neighbour_store", "neighbour_votes", "centroid_update", "centroid_distance",
}  # fmt: skip

_ABSENT = [name for name in ("onnx", "onnxruntime") if find_spec(name) is None]
NEEDS_ONNX = pytest.mark.skipif(bool(_ABSENT), reason=f"not installed: {', '.join(_ABSENT)}")


class Session:
    """A checked model, ready to run."""

    def __init__(self, model: Any) -> None:
        import onnx
        import onnxruntime as runtime

        onnx.checker.check_model(model, full_check=True)
        assert {opset.domain for opset in model.opset_import} == {""}, "operators of the standard only"
        assert {node.domain for node in model.graph.node} <= {""}
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self._session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self.required = [given.name for given in self._session.get_inputs()]
        self.optional = [given.name for given in self._session.get_overridable_initializers()]
        self.outputs = [made.name for made in self._session.get_outputs()]

    def run(self, given: Mapping[str, Any]) -> Arrays:
        """All outputs by name."""
        return dict(zip(self.outputs, self._session.run(None, dict(given)), strict=True))
