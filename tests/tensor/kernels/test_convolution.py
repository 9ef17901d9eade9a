"""Direct convolution against float64 NumPy: odd and even shapes, strides, padding, dilation, groups."""

from __future__ import annotations

import numpy as np
import pytest
from reference import convolution as reference

from nntrainer_py.tensor.kernels import convolution as kernels

NONE = np.empty(0, np.float32)
RNG = np.random.default_rng(11)
# input, (filters, kh, kw), stride, padding (top, bottom, left, right), dilation, groups
CASES = [
    ((2, 3, 8, 8), (5, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((2, 3, 9, 7), (5, 3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((3, 4, 17, 33), (9, 5, 3), (2, 2), (2, 1, 0, 1), (1, 1), 1),
    ((1, 6, 13, 11), (4, 3, 2), (3, 1), (1, 2, 3, 0), (2, 2), 1),
    ((2, 40, 6, 6), (33, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    ((2, 40, 5, 5), (33, 3, 3), (2, 3), (1, 1, 1, 1), (1, 1), 1),
    ((2, 8, 9, 9), (12, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 4),
    ((2, 8, 9, 9), (8, 3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 8),
    ((2, 8, 10, 20), (16, 3, 3), (1, 1), (1, 1, 1, 1), (2, 1), 8),
    ((4, 70, 4, 4), (20, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((2, 35, 12, 12), (64, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((1, 300, 7, 7), (20, 1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
    ((2, 5, 20, 20), (7, 17, 17), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((2, 2, 1, 50), (3, 1, 7), (1, 1), (0, 0, 18, 0), (1, 3), 1),
    ((2, 3, 40, 40), (6, 5, 5), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((1, 2, 3, 3), (2, 3, 3), (1, 1), (4, 4, 4, 4), (1, 1), 1),
]


def draw(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def room(nbytes):
    return np.full(nbytes // 4, np.nan, np.float32)


def close(made, expected):
    assert np.isfinite(made).all()
    np.testing.assert_allclose(made, expected, rtol=0, atol=3e-6 * max(1.0, np.abs(expected).max()))


def case(shape, weight, stride, padding, dilation, groups):
    x, w = draw(*shape), draw(weight[0], shape[1] // groups, *weight[1:])
    out = tuple(
        (shape[2 + i] + padding[2 * i] + padding[2 * i + 1] - (weight[1 + i] - 1) * dilation[i] - 1) // stride[i] + 1
        for i in (0, 1)
    )
    pad = (padding[0], padding[2])
    return x, w, out, pad, np.array([groups, *stride, *pad, *dilation], np.int64)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("arguments", CASES)
def test_against_float64(arguments, parts):
    _, _, stride, padding, dilation, groups = arguments
    attributes = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x, w, out, _, geometry = case(*arguments)
    channels, filters, taps = w.shape[1], w.shape[0], w.shape[2] * w.shape[3]
    wide = [array.astype(float) for array in (x, w)]
    bias = draw(filters)
    made = np.full((x.shape[0], filters, *out), np.nan, np.float32)
    kernels.forward(x, w, bias, 0, made, geometry, room(kernels.forward_scratch(channels, taps, parts)), parts)
    reads = {"x": wide[0], "w": wide[1], "bias": bias.astype(float)}
    close(made, reference.conv2d(reads, attributes, None)["out"])
    rectified = np.full_like(made, np.nan)
    scratch = room(kernels.forward_scratch(channels, taps, parts))
    kernels.forward(x, w, bias, 1, rectified, geometry, scratch, parts)
    np.testing.assert_array_equal(rectified, np.maximum(made, 0))

    g = draw(*made.shape)
    reads = {"x": reads["x"], "w": reads["w"], "g": g.astype(float)}
    dx = reference.conv2d_derivative(reads, {**attributes, "size": x.shape[2:]}, None)["out"]
    dw = reference.conv2d_gradient(reads, {**attributes, "kernel_size": w.shape[2:]}, None)["out"]
    scratch = room(kernels.derivative_scratch(filters // groups, channels, taps, parts))
    made = np.full(x.shape, np.nan, np.float32)
    kernels.derivative(g, w, NONE, made, geometry, scratch, parts)
    close(made, dx)
    bias = draw(x.shape[1])
    kernels.derivative(g, w, bias, made, geometry, scratch, parts)
    close(made, dx + bias[:, None, None])

    made = np.full(w.shape, np.nan, np.float32)
    scratch = room(kernels.gradient_scratch(channels * taps, parts))
    kernels.gradient(x, g, made, geometry, 0, scratch, parts)
    close(made, dw)
    kernels.gradient(x, g, made, geometry, 1, scratch, parts)
    close(made, 2 * dw)


@pytest.mark.parametrize("index", [0, 2, 4, 7, 9, 12])
def test_a_sample_does_not_depend_on_its_batch(index):
    shape, *rest = CASES[index]
    x, w, out, _, geometry = case((5, *shape[1:]), *rest)
    channels, taps, groups = w.shape[1], w.shape[2] * w.shape[3], rest[-1]

    def both(images):
        y = np.empty((len(images), w.shape[0], *out), np.float32)
        kernels.forward(images, w, NONE, 0, y, geometry, room(kernels.forward_scratch(channels, taps, 1)), 1)
        dx = np.empty(images.shape, np.float32)
        scratch = room(kernels.derivative_scratch(w.shape[0] // groups, channels, taps, 1))
        kernels.derivative(y, w, NONE, dx, geometry, scratch, 1)
        return y, dx

    together = both(x)
    for sample in (0, 3, 4):
        for whole, alone in zip(together, both(x[sample : sample + 1].copy()), strict=True):
            np.testing.assert_array_equal(alone[0], whole[sample])


def test_threads_do_not_change_a_bit():
    x, w, out, _, geometry = case(*CASES[4])
    y, dx, dw = (np.empty((2, *shape), np.float32) for shape in ((2, 33, *out), x.shape, w.shape))
    calls = [(kernels.forward, kernels.derivative, kernels.gradient, 1)]
    calls.append((kernels.forward, kernels.derivative, kernels.gradient, 2))
    for i, (forward, derivative, gradient, parts) in enumerate(calls):
        forward(x, w, NONE, 0, y[i], geometry, room(kernels.forward_scratch(40, 9, parts)), parts)
        derivative(y[0], w, NONE, dx[i], geometry, room(kernels.derivative_scratch(33, 40, 9, parts)), parts)
        gradient(x, y[0], dw[i], geometry, 0, room(kernels.gradient_scratch(360, parts)), parts)
    for pair in (y, dx, dw):
        np.testing.assert_array_equal(pair[0], pair[1])


def test_infinity_in_one_pixel_stays_in_its_window():
    x, w, out, _, geometry = case(*CASES[0])
    x[1, 2, 4, 4] = np.inf
    made = np.empty((2, 5, *out), np.float32)
    kernels.forward(x, w, NONE, 0, made, geometry, room(kernels.forward_scratch(3, 9, 1)), 1)
    touched = ~np.isfinite(made[1]).all(axis=0)
    expected = np.zeros(out, bool)
    expected[3:6, 3:6] = True
    np.testing.assert_array_equal(touched, expected)
    assert np.isfinite(made[0]).all()
