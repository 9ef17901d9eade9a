"""Each ONNX emitter: the graph of one operation in ONNX Runtime against the float64 twin of the kind, on odd shapes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from harness import close
from onnx_rows import ROWS, Row
from onnx_runs import NEEDS_ONNX, OF_LAYERS, Session
from reference import Interpreter

from nntrainer_py.formats.onnx import emission
from nntrainer_py.formats.onnx.builder import GraphBuilder
from nntrainer_py.formats.onnx.contents import COUNTERS, NUMBERS, Contents
from nntrainer_py.tensor.operations import catalogue
from nntrainer_py.tensor.operations.emitter import Emitter, Target
from nntrainer_py.tensor.operations.record import Operation, Phase, Role, Value


def record(row: Row) -> tuple[Operation, dict[str, Value]]:
    """The operation as a layer would emit it, and its operands by name."""
    maker = Emitter()
    maker.scope("layer", Phase.DERIVATIVE)
    state = catalogue.kind(row.kind).modifies
    values = {
        name: Value(
            f"in:{name}", array.shape, Role.WEIGHT if name in state else Role.ACTIVATION, row.types.get(name, "float32")
        )
        for name, array in row.reads.items()
    }
    target = None
    if row.adds:
        shape = catalogue.kind(row.kind).outputs(values, row.attributes)["out"].shape
        values["target"] = Value("in:target", shape, Role.GRADIENT)
        target = Target(values["target"], started=True)
    maker.run(row.kind, out=target, **{k: v for k, v in values.items() if k != "target"}, **row.attributes)
    return maker.operations[0], values


@NEEDS_ONNX
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_emitter_agrees_with_the_twin(row: Row) -> None:
    operation, values = record(row)
    given = {name: np.asarray(array, row.types.get(name, "float32")) for name, array in row.reads.items()}
    if "target" in values:
        given["target"] = np.random.default_rng(1).standard_normal(values["target"].shape).astype(np.float32)
    machine = Interpreter()
    state = machine.state
    state.numbers[:3] = [0.05, 6.0, 4.0 if row.kind != "matmul_descent" else 1.0]
    state.counters[:3] = [2, (1 << 33) + 12345, 1 << 20]
    for name, value in values.items():
        machine[value] = given[name]
    graph = GraphBuilder()
    step = {name: np.array([state.numbers[place]]) for place, name in NUMBERS.items()}
    step |= {name: np.array([state.counters[place]]) for place, name in COUNTERS.items()}
    contents = Contents(graph, step)
    for value in values.values():
        contents.declare(value)
    emission.emit(operation, contents)
    for name, value in operation.writes.items():
        graph.output(f"out:{name}", contents.read(value))
    machine.run([operation])
    made = Session(graph.model("one", {})).run({values[name].name: array for name, array in given.items()})
    for name, value in operation.writes.items():
        result, expected = made[f"out:{name}"], machine[value]
        assert result.shape == value.shape
        assert result.dtype == value.dtype
        if row.exact or result.dtype.kind != "f":
            np.testing.assert_array_equal(result, expected.astype(result.dtype))
        else:
            close(f"{row.kind} {name}", result, expected, row.tolerance, row.least)
        if row.kind == "dropout":
            np.testing.assert_array_equal(result == 0, expected == 0)


def test_every_emitter_has_a_row_and_every_row_an_emitter() -> None:
    listed = {kind for kinds in emission.FAMILIES.values() for kind in kinds}
    assert {row.kind for row in ROWS} | OF_LAYERS == listed
    assert not {row.kind for row in ROWS} & OF_LAYERS


def test_only_a_users_own_code_cannot_leave() -> None:
    listed = {kind for kinds in emission.FAMILIES.values() for kind in kinds}
    known = {kind for kinds in catalogue.FAMILIES.values() for kind in kinds}
    assert known - listed == {"opaque", "user_activation", "user_activation_derivative", "user_update"}


def test_table_and_files_agree() -> None:
    folder = Path(emission.__file__).parent / "emitters"
    assert {path.stem for path in folder.glob("*.py")} - {"__init__"} == set(emission.FAMILIES)
    for family, kinds in emission.FAMILIES.items():
        assert family in catalogue.FAMILIES
        assert set(kinds) <= set(catalogue.FAMILIES[family])
        for kind in kinds:
            assert emission.emitter(kind) is not None
        module = __import__(f"nntrainer_py.formats.onnx.emitters.{family}", fromlist=["EMITTERS"])
        assert set(module.EMITTERS) == set(kinds)


def test_a_kind_without_an_emitter_is_told() -> None:
    assert emission.emitter("opaque") is None
