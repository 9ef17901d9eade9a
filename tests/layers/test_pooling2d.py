"""pooling2d over windows, strides, paddings and odd sizes; ties; windows that do not fit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from harness import Case, case_id, check

from nntrainer_py.errors import DescriptionError, UsageError
from nntrainer_py.graph.lower import Node, lower
from nntrainer_py.layers.pooling2d import Pooling2D
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.pooling import place_dtype


def distinct(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    """Values at least 0.01 apart, so that no difference quotient steps over a tie."""
    return (rng.permutation(int(np.prod(shape))) * 0.01 - 0.3).reshape(shape)


def tied(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> Any:
    return rng.integers(0, 3, shape)


WINDOWS: list[dict[str, Any]] = [
    {"pool_size": (2, 2), "stride": (2, 2)},
    {"pool_size": (2, 2), "stride": (1, 1), "padding": "same"},
    {"pool_size": (3, 2), "stride": (2, 1), "padding": (1, 1, 1, 0)},
    {"pool_size": (3, 3), "stride": (3, 2), "padding": "same"},
    {"pool_size": (1, 4), "stride": (1, 3), "padding": (0, 0, 3, 2)},
    {"pool_size": (5, 7)},
]


def _case(pooling: str, window: dict[str, Any], shape: tuple[int, int, int, int], **more: Any) -> Case:
    words = "-".join(str(value).replace(" ", "") for value in window.values())
    return Case(
        lambda: Pooling2D(pooling=pooling, **window), [shape], f"{pooling} {words} {shape}", fill=distinct, **more
    )


CASES = [
    _case(pooling, window, shape)
    for pooling, window, shape in itertools.product(("max", "average"), WINDOWS, [(2, 3, 5, 7), (1, 1, 6, 8)])
]
CASES += [
    _case(pooling, {}, shape)
    for pooling, shape in itertools.product(
        ("global_max", "global_average"), [(2, 3, 5, 7), (1, 1, 1, 1), (3, 2, 1, 4)]
    )
]
CASES += [
    Case(lambda: Pooling2D(pooling="max", pool_size=(2, 2)), [(2, 2, 4, 5)], "max of equals", fill=tied, numeric=False),
    Case(lambda: Pooling2D(pooling="global_max"), [(2, 2, 4, 5)], "global max of equals", fill=tied, numeric=False),
    _case("max", {"pool_size": (2, 2), "stride": (2, 2)}, (4, 16, 32, 34), numeric=False),  # split over threads
    _case("average", {"pool_size": (3, 3), "stride": (2, 2), "padding": "same"}, (4, 8, 33, 34), numeric=False),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("n", range(1, 13))
@pytest.mark.parametrize("k", range(1, 8))
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_same_gives_one_cell_per_step(n: int, k: int, stride: int) -> None:
    layer = Pooling2D(pooling="max", pool_size=(k, 1), stride=(stride, 1), padding="same")
    made = lower([Node("in", layer, [], [TensorDim(1, 1, n, 1)])], batch=1, training=False)
    assert made.outputs[0].shape == (1, 1, -(-n // stride), 1)


def test_a_window_that_does_not_fit_is_refused() -> None:
    with pytest.raises(DescriptionError, match="a window of 4 does not fit in 3 cells"):
        lower(
            [Node("p", Pooling2D(pooling="max", pool_size=(4, 1)), [], [TensorDim(1, 1, 3, 3)])],
            batch=1,
            training=False,
        )


def test_a_window_in_the_padding_alone_is_refused() -> None:
    layer = Pooling2D(pooling="average", pool_size=(2, 2), padding=2)
    with pytest.raises(DescriptionError, match="in the padding alone"):
        lower([Node("p", layer, [], [TensorDim(1, 1, 3, 3)])], batch=1, training=False)


def test_global_pooling_takes_no_window() -> None:
    with pytest.raises(UsageError, match="stride"):
        Pooling2D(pooling="global_max", stride=(2, 2))
    with pytest.raises(UsageError, match="padding"):
        Pooling2D(pooling="global_average", padding="same")
    with pytest.raises(UsageError, match="pool_size"):
        Pooling2D(pooling="max")
    with pytest.warns(UserWarning, match="pool_size is ignored"):
        Pooling2D(pooling="global_max", pool_size=(2, 2))


def test_places_are_small_integers() -> None:
    assert (place_dtype((16, 16)), place_dtype((16, 17)), place_dtype((256, 257))) == ("uint8", "uint16", "uint32")
