"""Convolution of few channels in place against float64 NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from reference import convolution as reference

from nntrainer_py.tensor.kernels import convolution_small as kernels

NONE = np.empty(0, np.float32)
RNG = np.random.default_rng(3)
# input, (filters, kh, kw), padding (top, bottom, left, right), dilation, groups
CASES = [
    ((3, 1, 28, 28), (6, 5, 5), (0, 0, 0, 0), (1, 1), 1),
    ((5, 6, 12, 12), (12, 5, 5), (0, 0, 0, 0), (1, 1), 1),
    ((2, 3, 9, 7), (5, 3, 3), (1, 1, 1, 1), (1, 1), 1),
    ((3, 2, 9, 11), (7, 3, 2), (1, 2, 0, 1), (2, 1), 1),
    ((33, 3, 16, 16), (16, 3, 3), (1, 1, 1, 1), (1, 1), 1),
    ((2, 2, 20, 20), (9, 7, 7), (3, 3, 3, 3), (1, 1), 1),
    ((1, 1, 1, 40), (3, 1, 7), (0, 0, 6, 0), (1, 1), 1),
    ((2, 4, 5, 5), (13, 1, 1), (0, 0, 0, 0), (1, 1), 1),
    ((2, 4, 5, 5), (13, 2, 3), (1, 0, 3, 2), (2, 3), 1),
    ((2, 2, 3, 3), (2, 1, 1), (2, 2, 2, 2), (1, 1), 1),  # more padding than the kernel reaches
    ((3, 8, 14, 15), (8, 3, 3), (1, 1, 1, 1), (1, 1), 8),
    ((2, 6, 9, 9), (12, 3, 5), (1, 1, 2, 2), (1, 2), 3),
]


def draw(*shape):
    return RNG.standard_normal(shape, dtype=np.float32)


def room(nbytes):
    return np.full(nbytes // 4, np.nan, np.float32)


def close(made, expected):
    assert np.isfinite(made).all()
    np.testing.assert_allclose(made, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def product(x, w, flip, bias, shape, geometry, parts=1, rectify=0):
    window, dilation = w.shape[2:], tuple(geometry[5:])
    made = np.full(shape, np.nan, np.float32)
    inner, outer = x.shape[1] // geometry[0], shape[1] // geometry[0]
    table = kernels.offsets(inner, shape[2:], window, dilation)
    scratch = room(kernels.product_scratch(inner, outer, shape[2:], window, dilation, parts))
    kernels.product(x, w, flip, bias, rectify, made, geometry, table, scratch, parts)
    return made


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize(("shape", "weight", "padding", "dilation", "groups"), CASES)
def test_against_float64(shape, weight, padding, dilation, groups, parts):
    x, w, bias = draw(*shape), draw(weight[0], shape[1] // groups, *weight[1:]), draw(weight[0])
    geometry = np.array([groups, 1, 1, padding[0], padding[2], *dilation], np.int64)
    attributes = {"stride": (1, 1), "padding": padding, "dilation": dilation, "groups": groups}
    reads = {"x": x.astype(float), "w": w.astype(float), "bias": bias.astype(float)}
    expected = reference.conv2d(reads, attributes, None)["out"]
    made = product(x, w, 0, bias, expected.shape, geometry, parts)
    close(made, expected)
    rectified = product(x, w, 0, bias, expected.shape, geometry, parts, rectify=1)
    np.testing.assert_array_equal(rectified, np.maximum(made, 0))

    g = draw(*expected.shape)
    reads = {"x": reads["x"], "w": reads["w"], "g": g.astype(float)}
    expected = reference.conv2d_derivative(reads, {**attributes, "size": shape[2:]}, None)["out"]
    close(product(g, w, 1, NONE, shape, geometry, parts), expected)

    expected = reference.conv2d_gradient(reads, {**attributes, "kernel_size": weight[1:]}, None)["out"]
    sizes = shape[1], weight[0], g.shape[2:], weight[1:], dilation
    scratch, made = room(kernels.gradient_scratch(*sizes, parts)), np.full(w.shape, np.nan, np.float32)
    kernels.gradient(x, g, made, geometry, 0, scratch, parts)
    close(made, expected)
    kernels.gradient(x, g, made, geometry, 1, scratch, parts)
    close(made, 2 * expected)


def test_a_sample_does_not_depend_on_its_batch_or_on_threads():
    x, w, geometry = draw(7, 6, 12, 12), draw(12, 6, 5, 5), np.array([1, 1, 1, 0, 0, 1, 1], np.int64)
    together = product(x, w, 0, NONE, (7, 12, 8, 8), geometry, 2)
    for sample in (0, 3, 6):
        alone = product(x[sample : sample + 1].copy(), w, 0, NONE, (1, 12, 8, 8), geometry)
        np.testing.assert_array_equal(alone[0], together[sample])
    gradients = []
    for parts in (1, 2):
        made = np.empty_like(w)
        scratch = room(kernels.gradient_scratch(6, 12, (8, 8), (5, 5), (1, 1), parts))
        kernels.gradient(x, together, made, geometry, 0, scratch, parts)
        gradients.append(made)
    np.testing.assert_array_equal(*gradients)
