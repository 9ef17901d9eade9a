"""Which ONNX value holds what: parts of values, changes in place, names used once."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_runs import NEEDS_ONNX, Session

from nntrainer_py.errors import UsageError
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


@NEEDS_ONNX
def test_sums_with_zero_and_products_with_one_are_not_written() -> None:
    """Whatever their shapes and types; what is left has the shape of the sum."""
    graph = GraphBuilder()
    x, n = graph.input("x", (2, 3)), graph.input("n", (3,), "int64")
    zero = graph.constant(np.zeros((1, 3), np.float32))
    one = graph.constant(1, "float32").reshape(1, 1).expand(2, 1)
    same = [
        x + 0.0,
        0.0 + x,
        x - 0.0,
        x * 1.0,
        1.0 * x,
        x / 1.0,
        x + zero,
        zero + x,
        x - zero,
        x * one,
        one * x,
        x / one,
    ]
    assert {term.name for term in same} == {"x"}
    assert {(n + 0).name, (n - 0).name, (n * 1).name, (1 * n).name} == {"n"}
    wide = graph.constant(np.zeros((4, 2, 3), np.float32))
    graph.output("sum", x + wide)
    graph.output("whole", n * graph.constant(np.ones((2, 3), np.int64)))
    graph.output("kept", x * zero)  # not zero where x is no number
    graph.output("less", 0.0 - x)
    graph.output("part", 1.0 / x)
    with pytest.raises(ValueError, match="float32 beside float64"):
        x + graph.constant(0.0, "float64")
    made = graph.model("plain", {})
    assert [node.op_type for node in made.graph.node if node.op_type != "Identity"] == [
        "Expand", "Expand", "Mul", "Sub", "Reciprocal",
    ]  # fmt: skip
    assert len(made.graph.initializer) == 4  # two shapes, the zeros that x meets, the zero of 0 - x
    given = {"x": np.array([[1, -2, np.nan], [4, 0.5, -8]], np.float32), "n": np.array([5, 6, 7])}
    results = Session(made).run(given)
    np.testing.assert_array_equal(results["sum"], np.broadcast_to(given["x"], (4, 2, 3)))
    np.testing.assert_array_equal(results["whole"], np.broadcast_to(given["n"], (2, 3)))
    np.testing.assert_array_equal(results["kept"], given["x"] * 0)
    np.testing.assert_array_equal(results["less"], -given["x"])
    np.testing.assert_array_equal(results["part"], 1 / given["x"])


@NEEDS_ONNX
def test_one_by_something_times_what_is_optimized_away() -> None:
    """ONNX Runtime, up to 1.32 at least, refuses this with a Div of 1 as the reciprocal (its issue 32413)."""
    graph = GraphBuilder()
    x, y = graph.input("x", (2, 3)), graph.input("y", (2, 3))
    graph.output("out", graph.node("Identity", x.apply("Exp"), shape=x.shape) * (1.0 / y.apply("Sqrt")))
    given = {"x": np.ones((2, 3), np.float32), "y": np.full((2, 3), 4, np.float32)}
    np.testing.assert_allclose(Session(graph.model("optimized", {})).run(given)["out"], np.e / 2, rtol=1e-6)


def test_a_table_too_large_for_a_file_is_refused_before_it_is_made() -> None:
    def never(out: object) -> None:
        raise AssertionError("filled")

    table = Emitter().constant("table", (1, 1, 1 << 15, 1 << 15), never)
    with pytest.raises(UsageError, match=r"at most 2 GB, the tensors of this one take 4\.3 GB"):
        Contents(GraphBuilder(), {}).read(table)


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
