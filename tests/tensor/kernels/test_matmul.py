"""Matrix products against float64 NumPy, and one row's independence of the others."""

from __future__ import annotations

import numpy as np
import pytest

from nntrainer_py.tensor.kernels import matmul as kernels
from nntrainer_py.tensor.kernels.matmul import matmul_scratch

NONE = np.empty(0, np.float32)
NO_RATE = np.empty(0, np.float64)
RNG = np.random.default_rng(7)
SIZES = [(1, 1, 1), (1, 300, 64), (3, 5, 7), (8, 257, 32), (17, 256, 65), (64, 100, 96), (5, 600, 10), (33, 513, 130)]


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def run(a, b, c, *, ta=0, tb=0, bias=NONE, rate=NO_RATE, accumulate=0, relu=0, parts=1):
    k, n = a.shape[1 if ta else 2], c.shape[2]
    scratch = np.full(matmul_scratch(k, n, parts) // 4, np.nan, np.float32)
    kernels.matmul(a, ta, b, tb, bias, c, rate, accumulate, relu, scratch, parts)
    return c


def close(made, expected, depth):
    assert np.isfinite(made).all()
    np.testing.assert_allclose(made, expected, atol=3e-7 * np.sqrt(depth) * max(1.0, np.abs(expected).max()), rtol=0)


@pytest.mark.parametrize("tb", [0, 1])
@pytest.mark.parametrize("ta", [0, 1])
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_product(m, k, n, ta, tb):
    a, b, bias = draw(3, *((k, m) if ta else (m, k))), draw(3, *((n, k) if tb else (k, n))), draw(n)
    left = a.astype(float).transpose(0, 2, 1) if ta else a.astype(float)
    right = b.astype(float).transpose(0, 2, 1) if tb else b.astype(float)
    fresh = np.full((3, m, n), np.nan, np.float32)
    close(run(a, b, fresh.copy(), ta=ta, tb=tb), left @ right, k)
    close(run(a, b, fresh.copy(), ta=ta, tb=tb, parts=4), left @ right, k)
    close(run(a, b[:1], fresh.copy(), ta=ta, tb=tb), left @ right[:1], k)
    made = run(a, b, fresh.copy(), ta=ta, tb=tb, bias=bias, relu=1)
    close(made, np.maximum(left @ right + bias, 0), k)
    start = draw(3, m, n)
    close(run(a, b, start.copy(), ta=ta, tb=tb, accumulate=1), start + left @ right, k)


@pytest.mark.parametrize("n", [33, 64])  # with 64 the first rows pack the gradient for the others
def test_step_of_gradient_descent(n):
    x, g, w = draw(1, 70, 45), draw(1, 70, n), draw(1, 45, n)
    expected = w - 0.25 * (x[0].astype(float).T @ g[0].astype(float))
    close(run(x, g, w.copy(), ta=1, rate=np.array([0.25]), accumulate=1), expected, 70)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("tb", [0, 1])
@pytest.mark.parametrize(("k", "n"), [(300, 64), (300, 70), (20, 5)])
def test_a_row_does_not_depend_on_its_neighbours(k, n, tb, parts):
    a, b = draw(1, 37, k), draw(1, *((n, k) if tb else (k, n)))
    together = run(a, b, np.empty((1, 37, n), np.float32), tb=tb)
    for row in (0, 7, 8, 36):
        alone = run(a[:, row : row + 1].copy(), b, np.empty((1, 1, n), np.float32), tb=tb, parts=parts)
        np.testing.assert_array_equal(alone[0, 0], together[0, row])
    some = run(a[:, 5:19].copy(), b, np.empty((1, 14, n), np.float32), tb=tb, parts=parts)
    np.testing.assert_array_equal(some[0], together[0, 5:19])


def test_threads_do_not_change_a_bit():
    a, b, c = draw(1, 100, 300), draw(1, 300, 90), np.empty((2, 1, 100, 90), np.float32)
    run(a, b, c[0])
    scratch = np.full(matmul_scratch(300, 90, 2) // 4, np.nan, np.float32)
    kernels.matmul(a, 0, b, 0, NONE, c[1], NO_RATE, 0, 0, scratch, 2)
    np.testing.assert_array_equal(c[0], c[1])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_travels(bad):
    a, b = draw(1, 9, 40), draw(1, 40, 35)
    a[0, 4, 11] = bad
    made = run(a, b, np.zeros((1, 9, 35), np.float32), relu=1)[0]
    assert not np.isfinite(made[4]).all()
    assert np.isfinite(np.delete(made, 4, axis=0)).all()
    if np.isnan(bad):
        assert np.isnan(made[4]).all()


def test_nothing_is_written_outside_the_result():
    room = np.full(2 + 9 * 37, 7.0, np.float32)
    run(draw(1, 9, 40), draw(1, 40, 37), room[1:-1].reshape(1, 9, 37))
    assert room[0] == 7.0
    assert room[-1] == 7.0
