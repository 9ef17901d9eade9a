"""Runs ONNX graphs in stock ONNX Runtime, on the CPU; tests that need it are skipped where it is not installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

Arrays = dict[str, np.ndarray[Any, Any]]


class Session:
    """A checked model, ready to run."""

    def __init__(self, model: Any) -> None:
        onnx = pytest.importorskip("onnx", reason="onnx is not installed")
        runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
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
