"""The compiled random numbers against the NumPy form of the documented formula, and dropout against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from nntrainer_py.tensor import rng
from nntrainer_py.tensor.kernels import random as kernels
from nntrainer_py.tensor.operations.record import StepState

KEY = np.uint64(rng.key_of(2, "drop"))


def counters(step: int, offset: int) -> np.ndarray:
    state = StepState()
    state.counters[StepState.STEP], state.counters[StepState.OFFSET] = step, offset
    return state.counters


def test_places_are_those_of_the_step_state() -> None:
    assert (kernels.STEP, kernels.OFFSET) == (StepState.STEP, StepState.OFFSET)


@pytest.mark.parametrize("features", [1, 2, 3, 4, 5, 7, 8, 1003])
def test_bits_are_the_documented_ones(features: int) -> None:
    expected = rng.random_bits(int(KEY), 2**33 + 5, np.arange(3, 9), 2, features)
    bits = np.zeros((6, features), dtype=np.uint32)
    for parts in (1, 2, 5, 40):
        bits[:] = 0
        kernels.random_bits(KEY, counters(2**33 + 5, 3), 2, bits, parts)
        np.testing.assert_array_equal(bits, expected)


@pytest.mark.parametrize("features", [1, 6, 8, 1001])
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_dropout(features: int, rate: float) -> None:
    threshold, scale = rng.threshold_of(rate), 1.0 / (1.0 - rate) if rate < 1 else 0.0
    x = np.random.default_rng(0).standard_normal((5, features)).astype(np.float32)
    dropped = rng.random_bits(int(KEY), 7, np.arange(4, 9), 1, features).astype(np.int64) < threshold
    expected = np.where(dropped, np.float32(0), x * np.float32(scale))
    out = np.full_like(x, np.nan)
    kernels.dropout(KEY, counters(7, 4), 1, threshold, scale, x, out, 1)
    np.testing.assert_array_equal(out, expected)
    for parts in (1, 3, 7):
        place = x.copy()
        kernels.dropout(KEY, counters(7, 4), 1, threshold, scale, place, place, parts)
        np.testing.assert_array_equal(place, expected)
    halves = np.full_like(x, np.nan)
    for start, stop in [(0, 2), (2, 5)]:
        kernels.dropout(KEY, counters(7, 4 + start), 1, threshold, scale, x[start:stop], halves[start:stop], 1)
    np.testing.assert_array_equal(halves, expected)


def test_dropped_elements_are_zero_even_where_the_input_is_not_finite() -> None:
    x = np.full((4, 64), np.inf, dtype=np.float32)
    x[:, ::2] = np.nan
    kernels.dropout(KEY, counters(0, 0), 0, 2**32, 2.0, x, x, 1)
    assert not x.any()


def test_uniform_choose_and_normal() -> None:
    bits = rng.random_bits(int(KEY), 0, np.arange(3), 0, 10)
    out = np.empty((3, 10), dtype=np.float32)
    kernels.uniform(bits, 0.0, 1.0, out)
    np.testing.assert_array_equal(out, rng.uniform_of(bits))
    kernels.uniform(bits, -2.0, 3.0, out)
    np.testing.assert_allclose(out, -2 + 5 * rng.uniform_of(bits).astype(np.float64), rtol=0, atol=5e-7)
    kernels.choose(bits, rng.threshold_of(0.4), 1.0, -1.0, out)
    np.testing.assert_array_equal(out, np.where(bits < 0.4 * 2**32, 1.0, -1.0))
    for features in (9, 10):
        noise = np.empty((3, features), dtype=np.float32)
        kernels.normal(bits, 0.5, 2.0, noise)
        np.testing.assert_allclose(noise, 0.5 + 2 * rng.normal_of(bits)[:, :features], rtol=1e-6, atol=1e-6)


def test_bits_may_become_numbers_in_place() -> None:
    expected = np.empty((3, 10), dtype=np.float32)
    kernels.uniform(rng.random_bits(int(KEY), 0, np.arange(3), 0, 10), -1.0, 1.0, expected)
    memory = np.empty((3, 10), dtype=np.float32)
    kernels.random_bits(KEY, counters(0, 0), 0, memory.view(np.uint32), 1)
    kernels.uniform(memory.view(np.uint32), -1.0, 1.0, memory)
    np.testing.assert_array_equal(memory, expected)
