"""weight, tensor, positional_encoding, centroid_knn: layers with tables, tensors and state of their own."""

from __future__ import annotations

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
from nntrainer_py.layers.positional_encoding import PositionalEncoding
from nntrainer_py.layers.tensor import Tensor
from nntrainer_py.layers.weight import Weight
from nntrainer_py.tensor.dim import TensorDim


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
