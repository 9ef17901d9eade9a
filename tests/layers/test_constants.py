"""weight, tensor, positional_encoding, centroid_knn: layers with tables, tensors and state of their own."""

from __future__ import annotations

import math
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import Case, Feeds, Projection, build, case_id, check, close, compiled, interpreted, loss_of, round_trip

from nntrainer_py.errors import DescriptionError, UsageError
from nntrainer_py.graph.lower import Lowered, Node, lower
from nntrainer_py.layers.activation import Activation
from nntrainer_py.layers.centroid_knn import CentroidKNN
from nntrainer_py.layers.input import Input
from nntrainer_py.layers.multiply import Multiply
from nntrainer_py.layers.positional_encoding import PositionalEncoding, sinusoids
from nntrainer_py.layers.tensor import Tensor
from nntrainer_py.layers.weight import Weight
from nntrainer_py.model import Model
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.emitter import Emitter
from nntrainer_py.tensor.operations.record import Role, Uniform, Value


def one_hot(shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    return np.eye(shape[3])[rng.integers(0, shape[3], shape[0])].reshape(shape)


def counts(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    return rng.integers(0, 3, shape) if name == "num_samples" else None


CASES = [
    Case(lambda: PositionalEncoding(max_timestep=9), [(2, 1, 7, 6)], "positions", in_place=True),
    Case(lambda: PositionalEncoding(max_timestep=3), [(1, 2, 3, 5)], "positions, odd width"),
    *(
        Case(
            lambda k=classes: CentroidKNN(num_class=k),
            [shape],
            f"centroids {classes} {shape}",
            label=one_hot,
            weights=counts,
            differentiable_inputs=[False],
        )
        for classes, shape in [(3, (5, 1, 1, 4)), (1, (1, 1, 1, 1)), (7, (4, 2, 3, 2))]
    ),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)


def _product(constant: Any, training: bool = True) -> Lowered:
    """``relu(constant) * input``, weighted and summed."""
    nodes = [
        Node("in0", Input(), [], [TensorDim(3, 2, 4, 5)]),
        Node("constant", constant, []),
        Node("relu", Activation(activation="relu"), [(1, 0)]),
        Node("layer", Multiply(), [(0, 0), (2, 0)]),
    ]
    if training:
        nodes.append(Node("loss", Projection(), [(3, 0)]))
    return lower(nodes, batch=3, training=training, keep_gradients=True)


def test_a_weight_is_trained_and_not_overwritten() -> None:
    lowered = _product(Weight(dim="2:1:5", weight_name="w"))
    feeds = Feeds(Case(lambda: Weight(dim="2:1:5", weight_name="w"), []))
    machine = interpreted(lowered, feeds)
    results, program, _ = compiled(lowered, feeds)
    (weight,) = lowered.weights
    assert (weight.key, weight.trainable, weight.dim.shape) == ("constant:w", True, (1, 2, 1, 5))
    assert weight.value is not None
    np.testing.assert_array_equal(program.array(weight.value), feeds.get(weight.value))
    gradient = results["gradient of constant:w"]
    close("gradient", gradient, machine[lowered.gradients["constant:w"]], 1e-5)
    base, step = feeds.get(weight.value).astype(np.float64), 1e-4
    for place in np.ndindex(*base.shape):
        losses = []
        for sign in (1, -1):
            moved = base.copy()
            moved[place] += sign * step
            losses.append(loss_of(lowered, interpreted(lowered, feeds, {weight.value.name: moved}, forward_only=True)))
        assert abs((losses[0] - losses[1]) / (2 * step) - gradient[place]) <= 1e-5 * np.abs(gradient).max()


def test_a_tensor_is_kept_but_not_trained() -> None:
    lowered = _product(Tensor(dim="2:4:1", tensor_name="mask", initializer="ones"))
    (weight,) = lowered.weights
    assert (weight.key, weight.trainable, weight.initializer) == ("constant:mask", False, "ones")
    assert lowered.gradients == {}
    feeds = Feeds(Case(lambda: Tensor(dim="2:4:1"), []))
    results, _, _ = compiled(lowered, feeds)
    close("output", results["output 0"], interpreted(lowered, feeds)[lowered.node_outputs["layer"][0]], 1e-6)


@pytest.mark.parametrize("layer", [Weight, Tensor])
def test_tensors_without_inputs(layer: type[Any]) -> None:
    names = {"weight_name": "w"} if layer is Weight else {}
    nodes = [Node("in0", Input(), [], [TensorDim(1, 1, 1, 4)]), Node("c", layer(dim="1:1:4", **names), [(0, 0)])]
    with pytest.raises(DescriptionError, match="expected no input"):
        lower(nodes, batch=1, training=False)
    with pytest.raises(UsageError, match="tensor_dtype"):
        layer(dim="1:1:4", tensor_dtype="Q4_0", **names)


def test_tensors_as_text() -> None:
    round_trip(Weight(dim="2:1:5", weight_name="w", weight_initializer="he_normal"))
    round_trip(Tensor(dim="4", tensor_name="t", initializer="ones"))


def test_too_long_a_sequence_is_refused() -> None:
    nodes, _ = build(Case(lambda: PositionalEncoding(max_timestep=3), [(1, 1, 4, 2)]))
    with pytest.raises(DescriptionError, match="max_timestep: expected at least the 4 time steps, got 3"):
        lower(nodes, batch=1, training=True)


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (2, 2 * 16384 + 5), (16391, 3)], ids=str)
def test_encoding_is_that_of_the_formula(shape: tuple[int, int]) -> None:
    """Element by element, across the borders of blocks."""
    made = np.full((1, 1, *shape), np.nan, np.float32)
    sinusoids(made)
    steps, width = shape
    for t in {0, 1, steps // 2, steps - 1} & set(range(steps)):
        for j in (*range(min(width, 9)), *range(max(0, width - 9), width)):
            angle = t / math.pow(10000.0, 2 * (j // 2) / width)
            assert made[0, 0, t, j] == pytest.approx(math.cos(angle) if j % 2 else math.sin(angle), abs=1e-7)
    assert np.isfinite(made).all()


def test_lowering_fills_no_table() -> None:
    size = 40_000_000
    nodes = [Node("in0", Input(), [], [TensorDim(1, 1, 1, size)])]
    nodes.append(Node("at", PositionalEncoding(max_timestep=1), [(0, 0)]))
    tracemalloc.start()
    try:
        lowered = lower(nodes, batch=1, training=False)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert [value.nbytes for value in _constants(lowered)] == [4 * size]


def test_plans_share_a_table(tmp_path: Path) -> None:
    """Of all modes and batch sizes; its memory is counted once."""
    rows = "[in]\ninput_shape = 1:7:6\ntype = input\n[at]\ntype = positional_encoding\nmax_timestep = 9\n"
    rows += "[again]\ntype = positional_encoding\nmax_timestep = 7\n[out]\ntype = fully_connected\nunit = 2\n"
    description = tmp_path / "model.ini"
    description.write_text(f"[Model]\nloss = mse\n[Optimizer]\ntype = sgd\n{rows}", encoding="utf-8")
    compiled_model = Model.from_ini(description).compile(4, threads=1).compiled
    arrays: dict[str, list[Any]] = {}
    for mode, batch in (("train", 4), ("train", 3), ("evaluate", 4), ("predict", 1)):
        program = compiled_model.program(mode, batch)
        for value in _constants(program.lowered):
            arrays.setdefault(value.name, []).append(program.array(value))
    assert sorted(arrays) == ["again/table", "at/table"]
    for found in arrays.values():
        assert len(found) == 4
        assert all(array is found[0] for array in found)


def _constants(lowered: Lowered) -> list[Value]:
    read = [value.root for operation in lowered.operations for value in operation.reads.values()]
    return [value for value in dict.fromkeys(read) if value.role is Role.CONSTANT]


def test_equal_constants_are_one_value() -> None:
    emitter = Emitter()
    one = emitter.constant("c", (1, 1, 1, 3), Uniform(0.5))
    assert emitter.constant("c", (1, 1, 1, 3), Uniform(0.5)) is one
    others = [emitter.constant("c", (1, 1, 1, 2), Uniform(0.5)), emitter.constant("c", (1, 1, 1, 3), Uniform(0.25))]
    assert [value.name for value in (one, *others)] == ["c", "c.1", "c.2"]
    np.testing.assert_array_equal(others[1].filled(), np.full((1, 1, 1, 3), 0.25, np.float32))
    with pytest.raises(ValueError, match="w is no constant"):
        emitter.value("w", (2,), Role.WEIGHT).filled()


def test_centroids_are_the_means_of_their_classes() -> None:
    """Two steps of training from nothing: the means are those of NumPy, and inference finds the class of each mean."""
    rng = np.random.default_rng(3)
    x, label = rng.standard_normal((8, 1, 1, 5)), np.eye(3)[[0, 1, 2, 1, 0, 1, 1, 0]].reshape(8, 1, 1, 3)
    case = Case(
        lambda: CentroidKNN(num_class=3), [x.shape], fill=lambda i, shape, r: x, label=lambda shape, r: label,
        weights=lambda name, shape, r: np.zeros(shape),
    )  # fmt: skip
    nodes, _ = build(case, training=False)
    lowered = lower(nodes, batch=8, training=True)
    results, _, _ = compiled(lowered, Feeds(case))
    assert (results["output 0"] == np.float32(np.finfo(np.float32).tiny)).all()  # nothing was known before the step
    np.testing.assert_array_equal(results["state layer:num_samples"].reshape(-1), [3, 4, 1])
    means = [x[label[:, 0, 0, k] == 1].mean(0).reshape(-1) for k in range(3)]
    np.testing.assert_allclose(results["state layer:map"][0, 0], means, atol=1e-6)
