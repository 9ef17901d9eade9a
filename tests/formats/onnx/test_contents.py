"""Which ONNX value holds what: parts of values, changes in place, names used once."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_runs import NEEDS_ONNX, Session

from nntrainer_py.formats.onnx.builder import GraphBuilder
from nntrainer_py.formats.onnx.contents import Contents
from nntrainer_py.tensor.operations.emitter import Emitter
from nntrainer_py.tensor.operations.record import Role, StepState, Value


@NEEDS_ONNX
def test_parts_are_written_one_after_the_other() -> None:
    """Views of one tensor: read, written, and a part of a weight changed in place."""
    graph, maker = GraphBuilder(), Emitter()
    contents = Contents(graph, {})
    x = maker.value("x", (2, 3), Role.INPUT)
    weight = maker.value("w", (3, 2), Role.WEIGHT)
    contents.declare(x)
    made = Value("made", (4, 3), Role.ACTIVATION)
    contents.write(maker.view(made, (3, 2), 3), contents.read(x) * 2.0)
    contents.write(maker.view(made, (1, 3), 9), contents.read(maker.view(x, (3,), 3)))
    contents.write(maker.view(weight, (2,), 2), contents.read(maker.view(x, (2,), 0)))
    for name, value in (("made", made), ("w/next", weight), ("seen", maker.view(made, (2, 3), 6))):
        graph.output(name, contents.read(value))
    assert list(contents.changed) == [weight]
    given = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    results = Session(graph.model("parts", {})).run({"x": given, "w": np.full((3, 2), 9, np.float32)})
    np.testing.assert_array_equal(results["made"].reshape(-1), [0, 0, 0, 2, 4, 6, 8, 10, 12, 4, 5, 6])
    np.testing.assert_array_equal(results["w/next"].reshape(-1), [9, 9, 1, 2, 9, 9])
    np.testing.assert_array_equal(results["seen"], [[8, 10, 12], [4, 5, 6]])


def test_what_nothing_made_cannot_be_read() -> None:
    contents = Contents(GraphBuilder(), {})
    with pytest.raises(ValueError, match="made is read before it is made"):
        contents.read(Value("made", (2,), Role.ACTIVATION))


def test_types_are_kept_apart() -> None:
    graph = GraphBuilder()
    contents = Contents(graph, {})
    with pytest.raises(ValueError, match="expected float32, got int64"):
        contents.write(Value("made", (1,), Role.ACTIVATION), contents.counter(StepState.STEP))
    with pytest.raises(ValueError, match="Add of float64 and int64"):
        contents.number(StepState.SAMPLES) + contents.counter(StepState.STEP)


def test_names_are_used_once_and_constants_kept_once() -> None:
    graph = GraphBuilder()
    one, same, other = graph.constant([1.0]), graph.constant([1.0]), graph.constant(np.ones(1, np.float32))
    assert one.name == same.name != other.name
    x = graph.input("x", (2,))
    with pytest.raises(ValueError, match="'x' is in use"):
        graph.output("x", x)
    assert graph.fresh("x") == "x.1"
    with pytest.raises(ValueError, match=r"\(2,\) as \(3,\)"):
        x.reshape(3)
