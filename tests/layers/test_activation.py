"""activation through the harness, every function; values at the edges of the float32 range."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from harness import Case, case_id, check
from reference.elementwise import FUNCTIONS

from nntrainer_py.errors import UsageError
from nntrainer_py.layers.activation import Activation
from nntrainer_py.layers.functions import ACTIVATIONS, register_activation
from nntrainer_py.tensor.kernels import activation as kernels
from nntrainer_py.tensor.operations.elementwise import FROM_INPUT, FROM_OUTPUT
from nntrainer_py.tensor.operations.user_functions import USER_FUNCTIONS

WORDS = [word for word in ACTIVATIONS if word != "none"]


def away_from_kinks(index: int, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    x = rng.standard_normal(shape) * 2
    return np.where(np.abs(x) < 0.01, 0.5, x)


CASES = [
    *(
        Case(
            lambda word=word: Activation(activation=word),
            shape,
            f"{word} {name}",
            fill=away_from_kinks,
            in_place=word in FROM_OUTPUT or word == "softmax",
        )
        for word in WORDS
        for name, shape in (("plain", [(3, 2, 3, 5)]), ("one", [(1, 1, 1, 1)]))
    ),
    *(
        Case(lambda word=word: Activation(activation=word), [(9, 3, 41, 130)], f"{word} large", numeric=False)
        for word in ("relu", "tanh", "gelu", "softmax")
    ),
    Case(lambda: Activation(activation="none"), [(2, 1, 2, 3)], "none"),
    Case(lambda: Activation(activation="quick_gelu"), [(2, 1, 2, 3)], "quick_gelu is sigmoid_gelu"),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layer(case: Case) -> None:
    check(case)


def test_every_function_has_kernels_and_a_twin() -> None:
    assert FROM_OUTPUT | FROM_INPUT == set(FUNCTIONS) == set(WORDS) - {"softmax"}
    assert not FROM_OUTPUT & FROM_INPUT


def test_the_function_is_required() -> None:
    with pytest.raises(UsageError, match="activation: required"):
        Activation()


@pytest.mark.parametrize("word", sorted(FUNCTIONS))
def test_float32_against_float64_over_the_whole_range(word: str) -> None:
    x = np.concatenate(
        [np.linspace(-110, 110, 40001), np.linspace(-1, 1, 20001), np.geomspace(1e-30, 1e30, 500), [0.0]]
    ).astype(np.float32)
    x = np.concatenate([x, -x])
    y = np.empty_like(x)
    getattr(kernels, word)(x, y, 1)
    with np.errstate(over="ignore"):
        expected = FUNCTIONS[word](x.astype(np.float64))
    # relative to the value, or to the input where the function is a small share of it
    error = np.abs(y - expected) / np.maximum(np.maximum(np.abs(expected), np.minimum(np.abs(x), 1.0) * 1e-1), 1e-30)
    # gelu: 1e-6 in the left tail, where the error function cancels
    assert error.max() < (1e-5 if word == "gelu" else 2e-6)


@pytest.mark.parametrize("word", sorted(FUNCTIONS))
def test_nan_and_infinity_travel(word: str) -> None:
    x = np.array([np.nan, np.inf, 1.0], np.float32)
    getattr(kernels, word)(x, None, 1)
    assert np.isnan(x[0])
    assert x[1] == (1.0 if word in ("sigmoid", "tanh") else np.inf)
    assert np.isfinite(x[2])


def test_values_at_the_edges() -> None:
    x = np.array([-200, 200], np.float32)
    for word, low, high in (
        ("sigmoid", 0, 1),
        ("softplus", 0, 200),
        ("tanh", -1, 1),
        ("elu", -1, 200),
        ("mish", 0, 200),
    ):
        y = np.empty_like(x)
        getattr(kernels, word)(x, y, 1)
        assert y.tolist() == [low, high], word


@pytest.fixture
def cubic() -> Iterator[str]:
    register_activation("Cubic", lambda x: x**3, lambda x: 3.0 * x.astype(np.float64) ** 2)
    yield "cubic"
    del USER_FUNCTIONS["cubic"]


def test_a_function_of_ones_own(cubic: str) -> None:
    check(Case(lambda: Activation(activation=cubic), [(3, 2, 3, 5)]))
    check(Case(lambda: Activation(activation="CUBIC"), [(3, 2, 3, 5)]))


def test_a_function_of_ones_own_must_fit() -> None:
    with pytest.raises(UsageError, match="activation 'total': forward makes \\(\\) of an array of \\(1, 3\\)"):
        register_activation("total", lambda x: x.sum(), lambda x: x)
    with pytest.raises(UsageError, match="the activation 'relu' exists already"):
        register_activation("relu", np.abs, np.sign)
    with pytest.raises(UsageError, match="without blanks"):
        register_activation("two words", np.abs, np.sign)
    with pytest.raises(UsageError, match="did you mean 'relu'"):
        Activation(activation="rellu")
