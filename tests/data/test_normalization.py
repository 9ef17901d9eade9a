"""Scales measured once, kept, and applied the same."""

from __future__ import annotations

import numpy as np
import pytest

from nntrainer_py.data import ArrayDataset, BatchLoader, IterableDataset, Normalization, measure_normalization
from nntrainer_py.errors import DataError

AXES = {"whole": (0, 1, 2, 3), "channel": (0, 2, 3), "feature": (0,)}


def data(x):
    found = ArrayDataset(x, np.zeros(len(x)))
    found.bind([x.shape[1:]], [(1, 1, 1)])
    return found


@pytest.fixture
def x():
    rng = np.random.default_rng(0)
    return (rng.normal(size=(777, 3, 4, 5)) * rng.uniform(1, 50, (3, 4, 5)) + 1000).astype(np.float32)


@pytest.mark.parametrize("scope", AXES)
@pytest.mark.parametrize("method", ["standard", "minmax"])
def test_against_float64(x, method, scope):
    found = measure_normalization(data(x), method, scope)
    wide = x.astype(np.float64)
    if method == "standard":
        shift, scale = wide.mean(AXES[scope], keepdims=True)[0], wide.std(AXES[scope], keepdims=True)[0]
    else:
        shift = wide.min(AXES[scope], keepdims=True)[0]
        scale = wide.max(AXES[scope], keepdims=True)[0] - shift
    np.testing.assert_allclose(found.shift[0], shift, rtol=1e-7)
    np.testing.assert_allclose(found.scale[0], scale, rtol=1e-6)
    source = data(x)
    source.normalization = found
    (batch,) = BatchLoader(source, len(x))
    np.testing.assert_array_equal(batch.inputs[0], (x - found.shift[0]) / found.scale[0])
    if method == "minmax":
        assert batch.inputs[0].min() == 0
        assert batch.inputs[0].max() == 1


def test_equal_means_all_numbers(x):
    found = measure_normalization(data(x), "standard", "feature")
    assert found == measure_normalization(data(x), "standard", "feature")
    assert found.shift[0].dtype == np.float32
    assert found != measure_normalization(data(x), "standard", "channel")


@pytest.mark.parametrize(
    ("method", "scope", "shift", "scale"),
    [
        ("other", "whole", [[[0]]], [[[1]]]),
        ("minmax", "all", [[[0]]], [[[1]]]),
        ("minmax", "whole", [[[0]]], [[[0]]]),
        ("minmax", "whole", [[[0]]], [[[1, 1]]]),
        ("minmax", "whole", [[0]], [[1]]),
        ("minmax", "whole", [[[np.nan]]], [[[1]]]),
    ],
)
def test_what_is_no_scaling_is_refused(method, scope, shift, scale):
    with pytest.raises(ValueError, match=r"expected a method|shift and scale|a scale must"):
        Normalization(method, scope, (np.float32(shift),), (np.float32(scale),))


def test_constant_features_stay_finite(x):
    x[:, 1, 2, 3] = 0.1
    x[:, 0, 0, 0] = 7
    for method in ("standard", "minmax"):
        source = data(x)
        source.normalization = measure_normalization(source, method, "feature")
        (batch,) = BatchLoader(source, len(x))
        assert np.abs(batch.inputs[0][:, [1, 0], [2, 0], [3, 0]]).max() < 1e-6
        assert np.isfinite(batch.inputs[0]).all()


def test_pixel():
    source = data(np.arange(256, dtype=np.uint8).reshape(256, 1, 1, 1))
    source.normalization = measure_normalization(source, "pixel")
    (batch,) = BatchLoader(source, 256)
    np.testing.assert_array_equal(batch.inputs[0].ravel(), np.arange(256, dtype=np.float32) / np.float32(255))


def test_other_inputs_are_refused(x):
    found = measure_normalization(data(x), "standard", "channel")
    other = ArrayDataset(np.zeros((2, 4, 4, 5)))
    other.normalization = found
    with pytest.raises(DataError, match=r"stored normalization is for inputs 3:1:1, the model takes 4:4:5"):
        other.bind([(4, 4, 5)], [])


def test_value_that_is_not_finite(x):
    x[500, 0, 0, 0] = np.inf
    with pytest.raises(DataError, match="sample 500 of the pass"):
        measure_normalization(data(x), "standard")


def test_generators(x):
    def generator():
        yield from ((sample, 0.0) for sample in x)

    for source, repeatable in ((generator, True), (generator(), False)):
        stream = IterableDataset(source)
        stream.bind([(3, 4, 5)], [(1, 1, 1)])
        if repeatable:
            assert measure_normalization(stream, "minmax") == measure_normalization(data(x), "minmax")
        else:
            with pytest.raises(DataError, match="only once"):
                measure_normalization(stream, "minmax")
