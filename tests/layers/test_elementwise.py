"""Plain arithmetic of one and two inputs, with broadcasting; reductions; matmul; swiglu; cast."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import Case, Feeds, build, case_id, check, compiled, lower

from nntrainer_py import Model
from nntrainer_py.errors import DescriptionError, UsageError
from nntrainer_py.layers.add import Add
from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.cast import Cast
from nntrainer_py.layers.cos import Cos
from nntrainer_py.layers.divide import Divide
from nntrainer_py.layers.matmul import Matmul
from nntrainer_py.layers.multiply import Multiply
from nntrainer_py.layers.negative import Negative
from nntrainer_py.layers.pow import Pow
from nntrainer_py.layers.reduce_mean import ReduceMean
from nntrainer_py.layers.reduce_sum import ReduceSum
from nntrainer_py.layers.rmsnorm import RMSNorm
from nntrainer_py.layers.sin import Sin
from nntrainer_py.layers.sqrt import Sqrt
from nntrainer_py.layers.subtract import Subtract
from nntrainer_py.layers.swiglu import SwiGLU
from nntrainer_py.layers.tan import Tan
from nntrainer_py.memory.lifetimes import taken_in_place
from nntrainer_py.registry import LAYERS

Shape = tuple[int, int, int, int]


def positive(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    return rng.random(shape) + 0.5


def small(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    return rng.random(shape) * 2 - 1


BINARY: list[type[BuiltinLayer]] = [Add, Subtract, Multiply, Divide]
PAIRS: list[tuple[Shape, Shape]] = [
    ((2, 3, 4, 5), (2, 3, 4, 5)),
    ((2, 3, 4, 5), (1, 3, 1, 1)),
    ((2, 3, 4, 5), (2, 1, 4, 1)),
    ((2, 3, 4, 5), (2, 1, 1, 5)),
    ((2, 3, 4, 5), (1, 1, 1, 1)),
    ((1, 1, 1, 1), (1, 1, 1, 1)),
    ((2, 1, 4, 1), (2, 3, 1, 5)),
]
CASES = [
    Case(
        lambda cls=cls: cls(),
        list(pair),
        f"{cls.keyword} {pair[0]} {pair[1]}",
        fill=positive,
        in_place=pair[0] == pair[1] and cls is not Multiply,
    )
    for cls, pair in itertools.product(BINARY, PAIRS)
]
UNARY: list[tuple[type[BuiltinLayer], Any]] = [
    (Sqrt, positive), (Sin, None), (Cos, None), (Tan, small), (Negative, None),
]  # fmt: skip
CASES += [
    Case(lambda cls=cls: cls(), [shape], f"{cls.keyword} {shape}", fill=fill, in_place=cls in (Sqrt, Tan, Negative))
    for (cls, fill), shape in itertools.product(UNARY, [(2, 3, 4, 5), (1, 1, 1, 1), (1, 2, 1, 7)])
]
CASES += [
    Case(lambda e=exponent: Pow(exponent=e), [(2, 3, 4, 5)], f"pow {exponent}", fill=fill)
    for exponent, fill in [(1, None), (2, None), (3, None), (0, None), (-1, positive), (0.5, positive), (2.7, positive)]
]
CASES += [
    Case(lambda cls=cls, a=axis: cls(axis=a), [shape], f"{cls.keyword} {axis} {shape}")
    for cls, axis, shape in itertools.product((ReduceMean, ReduceSum), (1, 2, 3), [(2, 3, 4, 5), (1, 1, 7, 1)])
]
CASES += [
    Case(lambda: ReduceMean(), [(2, 3, 4, 5)], "reduce_mean of a sample"),
    Case(lambda: SwiGLU(), [(2, 3, 4, 5)] * 2, "swiglu"),
    Case(lambda: SwiGLU(), [(1, 1, 1, 3)] * 2, "swiglu of one row"),
    Case(lambda: RMSNorm(), [(2, 3, 4, 5)], "rmsnorm"),
    Case(lambda: RMSNorm(epsilon=0.1), [(1, 1, 1, 7)], "rmsnorm of one row"),
    Case(lambda: RMSNorm(), [(3, 1, 5, 1)], "rmsnorm of width 1"),
    Case(lambda: RMSNorm(), [(16, 1, 32, 300)], "rmsnorm over threads", numeric=False),
    Case(lambda: Cast(), [(2, 3, 4, 5)], "cast to what it is"),
    Case(lambda: Cast(tensor_dtype="FP16"), [(2, 3, 4, 5)], "cast to half", numeric=False, in_place=True),
    Case(lambda: Cast(tensor_dtype="UINT8"), [(2, 3, 4, 5)], "cast to integers", numeric=False),
]
MATRICES: list[tuple[Shape, Shape]] = [
    ((2, 3, 4, 5), (2, 3, 5, 6)),
    ((1, 1, 1, 1), (1, 1, 1, 1)),
    ((1, 1, 4, 5), (1, 1, 5, 3)),
    ((2, 3, 4, 5), (1, 1, 5, 2)),
    ((1, 1, 4, 5), (2, 3, 5, 2)),
    ((2, 3, 1, 5), (2, 1, 5, 7)),
    ((2, 1, 3, 5), (1, 3, 5, 1)),
]
CASES += [Case(lambda: Matmul(), list(pair), f"matmul {pair[0]} {pair[1]}") for pair in MATRICES]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("function", ["sqrt", "sin", "cos", "tan", "negative", "pow", "add", "multiply", "divide"])
@pytest.mark.parametrize("inplace", [True, False])
def test_inplace_false_is_obeyed_and_changes_no_number(function: str, inplace: bool) -> None:
    cls = LAYERS.load(function)
    inputs = [(2, 1, 3, 5)] * (2 if issubclass(cls, (Add, Multiply, Divide)) else 1)
    results = {}
    for option in (inplace, None):
        case = Case(lambda o=option: cls(inplace=o) if o is not None else cls(), inputs, fill=positive)
        nodes, _ = build(case, training=False)
        lowered = lower(nodes, batch=2, training=False)
        results[option], program, _ = compiled(lowered, Feeds(case))
        taken = lowered.outputs[0].root in taken_in_place(program.plan.where)
        assert taken is (option is not False)
    assert results[inplace]["output 0"].tobytes() == results[None]["output 0"].tobytes()


@pytest.mark.parametrize(
    ("word", "options"),
    [
        ("layer_normalization", {"axis": "3"}),
        ("rmsnorm", {}),
        ("cast", {"tensor_dtype": "FP16"}),
        ("positional_encoding", {"max_timestep": "9"}),
        ("preprocess_l2norm", {}),
        ("input", {"standardization": "true"}),
        ("input", {"normalization": "true"}),
    ],
)
def test_inference_runs_in_place(word: str, options: dict[str, str]) -> None:
    nodes, _ = build(Case(lambda: LAYERS.load(word)(**options), [(2, 1, 1, 5)]), training=False)
    lowered = lower(nodes, batch=2, training=False)
    _, program, _ = compiled(lowered, Feeds(Case(lambda: LAYERS.load(word)(**options), [])))
    assert lowered.outputs[0].root in taken_in_place(program.plan.where)


def test_division_by_zero_passes_silently_on() -> None:
    def fill(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
        return np.zeros(shape) if index else np.array([1.0, 0.0, -1.0]).reshape(shape)

    case = Case(lambda: Divide(), [(1, 1, 1, 3)] * 2, fill=fill)
    nodes, _ = build(case, training=False)
    results, _, _ = compiled(lower(nodes, batch=1, training=False), Feeds(case))
    np.testing.assert_array_equal(results["output 0"].reshape(-1), [np.inf, np.nan, -np.inf])


def test_cast_keeps_within_the_range_of_the_type() -> None:
    values = np.array([-3.0, 0.9, 15.7, 16.0, 300.0, 1e9])
    case = Case(lambda: Cast(tensor_dtype="UINT4"), [(1, 1, 1, 6)], fill=lambda i, shape, rng: values.reshape(shape))
    nodes, _ = build(case, training=False)
    results, _, _ = compiled(lower(nodes, batch=1, training=False), Feeds(case))
    np.testing.assert_array_equal(results["output 0"].reshape(-1), [0, 0, 15, 15, 15, 15])
    with pytest.raises(UsageError, match="tensor_dtype"):
        Cast(tensor_dtype="Q4_0")


@pytest.mark.parametrize(
    ("layer", "inputs", "message"),
    [
        (Add, [(1, 2, 3, 4), (1, 2, 3, 5)], "axis 3 is 4 and 5"),
        (Add, [(1, 2, 3, 4)], "expected two inputs, got 1"),
        (Matmul, [(1, 1, 2, 3), (1, 1, 2, 3)], "the width 3 of the first must be the height of the second"),
        (Matmul, [(1, 2, 2, 3), (1, 3, 3, 3)], "axis 1 is 2 and 3"),
        (SwiGLU, [(1, 1, 2, 3), (1, 1, 2, 1)], "two inputs of one shape"),
    ],
)
def test_inputs_that_do_not_fit(layer: type[BuiltinLayer], inputs: list[Shape], message: str) -> None:
    nodes, _ = build(Case(lambda: layer(), inputs))
    with pytest.raises(DescriptionError, match=message):
        lower(nodes, batch=1, training=True)


TWO_INPUTS = """
[Model]
loss = mse
batch_size = 4
[Optimizer]
type = sgd
[a]
type = input
input_shape = {channels}:6:64
[b]
type = input
input_shape = 1:64:5
[fa]
type = fully_connected
unit = 64
input_layers = a
[fb]
type = fully_connected
unit = 33
input_layers = b
[m]
type = matmul
input_layers = fa, fb
"""


@pytest.mark.parametrize("channels", [1, 3])
def test_a_product_of_one_sample_is_computed_as_in_a_batch(channels: int, tmp_path: Path) -> None:
    path = tmp_path / "m.ini"
    path.write_text(TWO_INPUTS.format(channels=channels), encoding="utf-8")
    model = Model.from_ini(path).compile(threads=1)
    kinds = [{o.kind.name for o in model.lowered("train", batch).operations if o.layer == "m"} for batch in (1, 2, 4)]
    assert all("matmul" in found and "matmul_gradient" not in found for found in kinds)
    if channels == 1:
        assert kinds[0] == kinds[1] == kinds[2]
    random = np.random.default_rng(0)
    x = {
        "a": random.normal(size=(4, channels, 6, 64)).astype(np.float32),
        "b": random.normal(size=(4, 1, 64, 5)).astype(np.float32),
    }
    whole = model.predict(x)
    for k in range(4):
        np.testing.assert_array_equal(
            model.predict({name: rows[k : k + 1] for name, rows in x.items()}), whole[k : k + 1]
        )
