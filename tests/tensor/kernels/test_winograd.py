"""Winograd convolution against float64 NumPy, at and beyond the 32 channels from which it is used."""

from __future__ import annotations

import numpy as np
import pytest
from reference import convolution as reference

from nntrainer_py.tensor.kernels import winograd as kernels
from nntrainer_py.tensor.operations.convolution import ERROR, Shapes, Window

NONE = np.empty(0, np.float32)
RNG = np.random.default_rng(5)
TOLERANCE = ERROR  # of the largest result: the bounds that are stated
# input, filters, padding (top, bottom, left, right)
CASES = [
    ((2, 32, 8, 8), 32, (1, 1, 1, 1)),
    ((3, 64, 7, 9), 32, (1, 1, 1, 1)),
    ((3, 32, 7, 9), 64, (0, 2, 1, 0)),
    ((5, 64, 4, 4), 96, (1, 1, 1, 1)),
    ((1, 32, 33, 30), 32, (0, 0, 0, 0)),
    ((2, 32, 3, 300), 32, (2, 2, 2, 2)),
    ((3, 256, 5, 5), 288, (1, 1, 1, 1)),
    ((2, 1024, 4, 4), 64, (1, 1, 1, 1)),
    ((5, 32, 33, 30), 64, (1, 1, 1, 1)),
    ((2, 64, 1, 1), 64, (1, 1, 1, 1)),
    ((1, 32, 3, 3), 32, (0, 0, 0, 0)),
]


def draw(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def room(plan):
    return np.full(plan.nbytes // 4, np.nan, np.float32)


def cut(plan):
    return np.array(plan, np.int64)


def forward(x, w, bias, pad, size, parts=1, function=kernels.product, rectify=0):
    out = (x.shape[2] + pad[0] + pad[1] - 2, x.shape[3] + pad[2] + pad[3] - 2)
    plan = kernels.product_plan(x.shape[1], w.shape[0], len(x), *out, size, parts)
    made = np.full((len(x), w.shape[0], *out), np.nan, np.float32)
    function(x, w, 0, bias, rectify, made, pad[0], pad[2], size, cut(plan), room(plan), parts)
    return made


def derivative(g, w, shape, pad, size, parts=1, function=kernels.product):
    plan = kernels.product_plan(w.shape[0], w.shape[1], len(g), *shape[2:], size, parts)
    made = np.full(shape, np.nan, np.float32)
    function(g, w, 1, NONE, 0, made, 2 - pad[0], 2 - pad[2], size, cut(plan), room(plan), parts)
    return made


def gradient(x, g, made, pad, size, accumulate=0, parts=1, function=kernels.gradient):
    plan = kernels.gradient_plan(x.shape[1], g.shape[1], len(x), *g.shape[2:], size, parts)
    function(x, g, made, pad[0], pad[2], size, accumulate, cut(plan), room(plan), parts)
    return made


def close(made, expected, size):
    assert np.isfinite(made).all()
    np.testing.assert_allclose(made, expected, rtol=0, atol=TOLERANCE[size] * np.abs(expected).max())


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(("shape", "filters", "pad"), CASES)
def test_against_float64(shape, filters, pad, size, parts):
    x, w, bias = draw(*shape), draw(filters, shape[1], 3, 3), draw(filters)
    attributes = {"stride": (1, 1), "padding": pad, "dilation": (1, 1), "groups": 1}
    reads = {"x": x.astype(float), "w": w.astype(float), "bias": bias.astype(float)}
    made = forward(x, w, bias, pad, size, parts)
    close(made, reference.conv2d(reads, attributes, None)["out"], size)
    np.testing.assert_array_equal(forward(x, w, bias, pad, size, parts, rectify=1), np.maximum(made, 0))

    g = draw(*made.shape)
    reads = {"x": reads["x"], "w": reads["w"], "g": g.astype(float)}
    expected = reference.conv2d_derivative(reads, {**attributes, "size": shape[2:]}, None)["out"]
    close(derivative(g, w, shape, pad, size, parts), expected, size)

    expected = reference.conv2d_gradient(reads, {**attributes, "kernel_size": (3, 3)}, None)["out"]
    made = gradient(x, g, np.full(w.shape, np.nan, np.float32), pad, size, 0, parts)
    close(made, expected, size)
    close(gradient(x, g, made, pad, size, 1, parts), 2 * expected, size)


@pytest.mark.parametrize(("channels", "expected"), [(16, 0), (32, 4), (1024, 4), (1056, 2)])
def test_auto_takes_the_tiles_whose_error_is_bounded(channels, expected):
    window = Window.of({"stride": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1), "groups": 1})
    shapes = Shapes((1, channels, 8, 8), (channels, channels, 3, 3), (1, channels, 8, 8))
    assert window.chosen(shapes) == expected


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("index", [1, 3, 6])
def test_a_sample_does_not_depend_on_its_batch(index, size):
    shape, filters, pad = CASES[index]
    x, w = draw(11, *shape[1:]), draw(filters, shape[1], 3, 3)
    y = forward(x, w, NONE, pad, size)
    dx = derivative(y, w, x.shape, pad, size)
    for sample in (0, 4, 10):
        one = forward(x[sample : sample + 1].copy(), w, NONE, pad, size)
        np.testing.assert_array_equal(one[0], y[sample])
        np.testing.assert_array_equal(derivative(one, w, (1, *shape[1:]), pad, size)[0], dx[sample])


@pytest.mark.parametrize("side", [10, 30])  # 30: several groups of the gradient are summed apart
def test_threads_do_not_change_a_bit(side):
    shape, filters, pad = (4, 64, side, side), 64, (1, 1, 1, 1)
    assert (kernels.gradient_plan(64, 64, 4, side, side, 4, 2).groups > 1) == (side == 30)
    x, w = draw(*shape), draw(filters, 64, 3, 3)
    y = forward(x, w, NONE, pad, 4)
    dx = derivative(y, w, shape, pad, 4)
    dw = gradient(x, y, np.empty_like(w), pad, 4)
    np.testing.assert_array_equal(forward(x, w, NONE, pad, 4, 2, kernels.product), y)
    np.testing.assert_array_equal(derivative(y, w, shape, pad, 4, 2, kernels.product), dx)
    for parts in (2, 3, 5):
        again = gradient(x, y, np.empty_like(w), pad, 4, 0, parts, kernels.gradient)
        np.testing.assert_array_equal(again, dw)


def test_scratch_is_bounded():
    for channels in (32, 64, 128, 256, 512):
        for side in (2, 4, 8, 14, 32, 56, 112, 224, 2000):
            for size in (2, 4):
                if not kernels.fits(channels, channels, side, size):
                    continue
                plan = kernels.product_plan(channels, channels, 64, side, side, size, 2)
                back = kernels.gradient_plan(channels, channels, 64, side, side, size, 2)
                assert max(plan.nbytes, back.nbytes) < 8 << 20


def test_infinity_does_not_leave_its_sample():
    x, w = draw(3, 32, 8, 8), draw(32, 32, 3, 3)
    x[1, 5, 3, 3] = np.inf
    made = forward(x, w, NONE, (1, 1, 1, 1), 4)
    assert not np.isfinite(made[1]).all()
    assert np.isfinite(made[[0, 2]]).all()
