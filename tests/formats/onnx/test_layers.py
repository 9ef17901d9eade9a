"""Every row of the layer and loss tests as an ONNX graph, run in ONNX Runtime: way forth and back against float64."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import Case, Feeds, build, case_id, close, interpreted, watched
from onnx_runs import NEEDS_ONNX, OF_LAYERS, Session

from nntrainer_py.errors import DescriptionError
from nntrainer_py.formats.onnx import emission, step_graph
from nntrainer_py.formats.onnx.builder import Term
from nntrainer_py.formats.onnx.emission import Emission, Emitter
from nntrainer_py.graph.lower import Lowered, lower
from nntrainer_py.tensor.operations.record import Role

TESTS = Path(__file__).resolve().parents[2]
#: kinds that run a user's code
AT_HOME = {"opaque"}
#: zero in exact arithmetic: all keys moved alike change no softmax. Our kernels come nearer to it than float32 sums
VANISHING = {"gradient of layer:key_fc_bias"}


def _projection(e: Emission) -> dict[str, Term]:
    product = e.read("x").cast("float64") * e.read("r").cast("float64")
    return {"loss": product.sum().reshape(1)}


#: of the harness's own kinds
_HARNESS: dict[str, Emitter] = {
    "test_projection": _projection,
    "test_projection_derivative": lambda e: {"out": e.read("r")},
}


@cache
def cases() -> dict[str, Case]:
    """The tables called CASES of the tests, by file and row."""
    found: dict[str, Case] = {}
    for path in sorted((*TESTS.glob("layers/test_*.py"), *TESTS.glob("losses/test_*.py"))):
        if "\nCASES" not in path.read_text(encoding="utf-8"):
            continue
        spec = importlib.util.spec_from_file_location(f"rows_of_{path.parent.name}_{path.stem}", path)
        assert spec is not None and spec.loader is not None  # noqa: PT018
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
        for number, case in enumerate(module.CASES):
            found[f"{path.stem[5:]}-{number}-{case_id(case)}"] = case
    return found


def _lowered(case: Case) -> Lowered:
    nodes, layer = build(case)
    wanted = any(case.differentiable_inputs or [layer.supports_derivative] * len(case.inputs))
    return lower(nodes, batch=case.inputs[0][0], training=True, input_derivatives=wanted, keep_gradients=True)


@NEEDS_ONNX
@pytest.mark.parametrize("name", cases())
def test_layer_in_onnx_runtime(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = cases()[name]
    made = _lowered(case)
    plain = emission.emitter
    monkeypatch.setattr(emission, "_FILES", {**emission._FILES, **dict.fromkeys(_HARNESS, "")})
    monkeypatch.setattr(emission, "emitter", lambda kind: _HARNESS.get(kind) or plain(kind))
    if AT_HOME & {operation.kind.name for operation in made.operations}:
        with pytest.raises(DescriptionError, match="a user's own code"):
            step_graph(made)
        return
    feeds = Feeds(case)
    machine = interpreted(made, feeds)
    compared = watched(made)
    made.predictions = [value for value in compared.values() if value.role is not Role.STATE]
    session = Session(step_graph(made))
    given: dict[str, Any] = {
        value.name: feeds.get(value)
        for value in (*made.inputs, *made.labels, *(w.value for w in made.weights if w.value is not None))
    }
    given |= {"samples": np.array([float(made.batch)]), "loss_scale": np.array([1.0])}
    given |= {key: np.array([0]) for key in ("step", "offset")}
    results = session.run({key: array for key, array in given.items() if key in session.required})
    of_all = max(float(np.max(np.abs(machine[value]), initial=0.0)) for value in compared.values())
    names = ["prediction"] if len(made.predictions) == 1 else [f"prediction{i}" for i in range(len(made.predictions))]
    by_value = dict(zip(made.predictions, names, strict=True))
    for key, value in compared.items():
        result = results[by_value[value]] if value in by_value else results.get(f"{value.name}/next")
        if result is not None:  # else: state that the step left alone
            least = of_all if key in case.vanishing or key in VANISHING else 1e-3
            close(key, result, machine[value], max(case.tolerance, 1e-5), least)
    total = sum(machine[value].item() for value in made.losses)
    close("loss", results["loss"], np.array([total]), max(case.tolerance, 1e-5) * 10)


def test_kinds_without_a_row_of_their_own_stand_in_layers() -> None:
    """With test_emitters.py: no emitter is without a test."""
    met = {operation.kind.name for case in cases().values() for operation in _lowered(case).operations}
    assert met >= OF_LAYERS
