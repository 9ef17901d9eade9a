"""preprocess_flip, preprocess_translate, preprocess_l2norm: training, inference, the share of changed samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from harness import Case, Feeds, Projection, build, case_id, check, compiled

from nntrainer_py.errors import DescriptionError
from nntrainer_py.graph.lower import Node, lower
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.layers.preprocess_flip import PreprocessFlip
from nntrainer_py.layers.preprocess_l2norm import PreprocessL2Norm
from nntrainer_py.layers.preprocess_translate import PreprocessTranslate
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.kernels import preprocess as kernels

Shape = tuple[int, int, int, int]


def _case(layer: Any, shape: Shape, name: str, **more: Any) -> Case:
    return Case(layer, [shape], f"{name} {shape}", differentiable_inputs=[False], **more)


SHAPES: list[Shape] = [(6, 3, 4, 5), (1, 1, 1, 1), (5, 2, 1, 7)]
CASES = [
    _case(lambda d=direction: PreprocessFlip(flip_direction=d), shape, direction)
    for direction in ("horizontal", "vertical", "horizontal_and_vertical")
    for shape in SHAPES
]
CASES += [
    _case(lambda v=share: PreprocessTranslate(random_translate=v), shape, f"translate {share}")
    for share in (0.0, 0.1, -0.5, 1.7)
    for shape in SHAPES
]
CASES += [
    _case(lambda: PreprocessL2Norm(), (3, 1, 1, 5), "l2norm"),
    _case(lambda: PreprocessL2Norm(epsilon=0.5), (1, 1, 1, 1), "l2norm of one"),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)


def _run(layer: Layer, x: Any, training: bool = True) -> Any:
    case = Case(lambda: layer, [x.shape], fill=lambda index, shape, rng: x)
    nodes, _ = build(case, training=training)
    lowered = lower(nodes, batch=x.shape[0], training=training)
    results, _, _ = compiled(lowered, Feeds(case))
    return results["output 0"]


def test_half_of_the_samples_are_flipped_each_way() -> None:
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2) * np.ones((4000, 1, 1, 1), np.float32)
    y = _run(PreprocessFlip(), x).reshape(-1, 4)
    shares = [np.mean((y == pattern).all(1)) for pattern in ([0, 1, 2, 3], [1, 0, 3, 2], [2, 3, 0, 1], [3, 2, 1, 0])]
    assert sum(shares) == 1.0
    np.testing.assert_allclose(shares, 0.25, atol=0.03)
    np.testing.assert_array_equal(_run(PreprocessFlip(), x, training=False), x)


def test_shifts_are_uniform_and_stay_within_the_share() -> None:
    width, share = 64, 0.25
    x = np.broadcast_to(np.arange(width, dtype=np.float32), (4000, 1, 1, width)).copy()
    middle = _run(PreprocessTranslate(random_translate=share), x)[:, 0, 0, width // 2]
    shift = (width // 2 - middle) / width  # the ramp reads off where a cell came from
    assert np.abs(shift).max() <= share
    np.testing.assert_allclose([shift.mean(), shift.std()], [0.0, share / 3**0.5], atol=0.01)


def test_whole_cells_mirror_at_the_edge() -> None:
    assert [kernels.reflected(index, 3) for index in range(-4, 8)] == [2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0, 1]


def test_nothing_before_a_preprocessing_layer_can_be_trained() -> None:
    nodes = [
        Node("in", Input(), [], [TensorDim(1, 1, 1, 4)]),
        Node("fc", FullyConnected(unit=3), [(0, 0)]),
        Node("l2", PreprocessL2Norm(), [(1, 0)]),
    ]
    nodes.append(Node("loss", Projection(), [(2, 0)]))
    with pytest.raises(DescriptionError, match="passes no derivative back"):
        lower(nodes, batch=1, training=True)


@pytest.mark.parametrize("name", ["flip", "translate"])
def test_a_sample_is_treated_by_its_place_in_the_logical_batch(name: str) -> None:
    """In two parts with an offset, a batch is changed as it is in one piece; another step changes it otherwise."""
    kernel = getattr(kernels, name).function
    options = (True, True) if name == "flip" else (0.4,)
    x = np.random.default_rng(0).standard_normal((6, 2, 4, 5)).astype(np.float32)

    def run(part: Any, step: int, offset: int) -> Any:
        counters, out = np.array([0, step, offset, 0]), np.empty_like(part)
        kernel(np.uint64(77), counters, 0, *options, part, out)
        return out

    whole = run(x, 3, 0)
    np.testing.assert_array_equal(np.concatenate([run(x[:2], 3, 0), run(x[2:], 3, 2)]), whole)
    assert not np.array_equal(run(x, 4, 0), whole)
