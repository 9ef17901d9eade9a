"""Pooling where 2 x 2 windows cover the plane, which has code of its own."""

from __future__ import annotations

import numpy as np
import pytest

from nntrainer_py.tensor.kernels import pooling

WINDOW = (2, 2, 2, 2, 0, 0)


@pytest.mark.parametrize(("planes", "rows", "columns"), [(1, 1, 1), (3, 2, 5), (2, 4, 16), (5, 3, 37)])
def test_pairs(planes, rows, columns):
    rng = np.random.default_rng(columns)
    room = np.full(2 + planes * rows * columns, np.nan, np.float32)
    x, out = rng.standard_normal((planes, 2 * rows, 2 * columns), np.float32), room[1:-1].reshape(planes, rows, columns)
    pooling.average_pool(x, out, WINDOW, 1)
    expected = x.astype(float).reshape(planes, rows, 2, columns, 2).mean((2, 4))
    np.testing.assert_allclose(out, expected, atol=1e-6)
    assert np.isnan(room[[0, -1]]).all()

    room = np.full(2 + x.size, np.nan, np.float32)
    back = room[1:-1].reshape(x.shape)
    pooling.average_pool_derivative(out, back, WINDOW, 1)
    np.testing.assert_array_equal(back, np.repeat(np.repeat(out, 2, 1), 2, 2) / 4)
    assert np.isnan(room[[0, -1]]).all()


def test_a_part_does_its_planes_only():
    x, out = np.ones((4, 4, 6), np.float32), np.zeros((4, 2, 3), np.float32)
    pooling.average_pool_part(1, 4, x, out, WINDOW)
    np.testing.assert_array_equal(out[:, 0, 0], [0, 1, 0, 0])


def test_one_window_over_the_whole_plane():
    x, out = np.random.default_rng(1).standard_normal((7, 4, 5), np.float32), np.empty((7, 1, 1), np.float32)
    pooling.average_pool(x, out, (4, 5, 1, 1, 0, 0), 1)
    np.testing.assert_allclose(out[:, 0, 0], x.astype(float).mean((1, 2)), atol=1e-6)


@pytest.mark.parametrize(("planes", "rows", "columns"), [(1, 1, 1), (3, 2, 5), (2, 4, 16), (5, 3, 37)])
def test_largest_of_pairs(planes, rows, columns):
    rng = np.random.default_rng(columns)
    x = rng.integers(-2, 3, (planes, 2 * rows, 2 * columns)).astype(np.float32)  # many equal ones
    x[rng.random(x.shape) < 0.1] = np.nan
    x[rng.random(x.shape) < 0.1] = -np.inf
    x[0, :2, :2] = -np.inf
    room, marks = np.full(2 + planes * rows * columns, 7, np.float32), np.full(2 + planes * rows * columns, 9, np.uint8)
    out, places = room[1:-1].reshape(planes, rows, columns), marks[1:-1].reshape(planes, rows, columns)
    pooling.max_pool(x, out, places, WINDOW, np.empty((1, 64), np.float32), 1)
    cells = x.reshape(planes, rows, 2, columns, 2).transpose(0, 1, 3, 2, 4).reshape(planes, rows, columns, 4)
    np.testing.assert_array_equal(out, cells.max(-1))
    is_number = ~np.isnan(cells).any(-1)
    np.testing.assert_array_equal(places[is_number], np.argmax(cells, -1)[is_number])
    chosen = np.take_along_axis(cells, places[..., None].astype(int), -1)[..., 0]
    np.testing.assert_array_equal(chosen, out)
    assert (room[[0, -1]] == 7).all()
    assert (marks[[0, -1]] == 9).all()
