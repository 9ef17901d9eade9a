"""Initializers: the recorded initial weights of NNTrainer, and mean, spread and range by rule."""

from __future__ import annotations

import numpy as np
import pytest
from shared import shared_path

from nntrainer_py.errors import PropertyError, UsageError
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.initializers import INITIALIZERS, fans, fill, is_random
from nntrainer_py.tensor.rng import Stream


@pytest.mark.parametrize("run", ["logistic", "mlp", "mnist"])
def test_recorded_initial_weights_bit_by_bit(run: str) -> None:
    """The recorded files are float32 from NNTrainer itself: weights xavier_uniform, biases zeros, seed 0."""
    with np.load(shared_path("parity", f"{run}.npz")) as recorded:
        tensors, weights = recorded["tensors"].tolist(), recorded["weights_before"]
    stream, start = Stream(0), 0
    for entry in tensors:
        name, count, dims = entry.split("|")
        dim = TensorDim(*map(int, dims.split(":")))
        out = np.full(dim.shape, np.nan, dtype=np.float32)
        fill("zeros" if ":bias" in name else "xavier_uniform", dim, stream, out)
        np.testing.assert_array_equal(out.ravel(), weights[start : start + int(count)], err_msg=name)
        start += int(count)
    assert start == weights.size


@pytest.mark.parametrize(
    ("dim", "expected"),
    [
        (TensorDim(width=7), (7, 7)),
        (TensorDim(height=5, width=7), (5, 7)),
        (TensorDim(1, 1, 3, 3), (3, 3)),
        (TensorDim(1, 4, 3, 2), (24, 6)),
        (TensorDim(8, 4, 3, 2), (24, 48)),
        (TensorDim(8, 1, 1, 1), (1, 8)),
    ],
)
def test_fans(dim: TensorDim, expected: tuple[int, int]) -> None:
    assert fans(dim) == expected


# name -> variance as a formula of the fans; a uniform of bound b has variance b^2 / 3
VARIANCES = {
    "lecun_normal": lambda i, o: 1 / i,
    "lecun_uniform": lambda i, o: 1 / i / 3,
    "xavier_normal": lambda i, o: 2 / (i + o),
    "xavier_uniform": lambda i, o: 6 / (i + o) / 3,
    "he_normal": lambda i, o: 2 / i,
    "he_uniform": lambda i, o: 6 / i / 3,
}


@pytest.mark.parametrize("name", VARIANCES)
def test_spread(name: str) -> None:
    dim = TensorDim(64, 32, 5, 7)
    out = np.empty(dim.shape, dtype=np.float32)
    fill(name, dim, Stream(1), out)
    variance = VARIANCES[name](32 * 35, 64 * 35)
    values = out.astype(np.float64)
    assert values.mean() == pytest.approx(0.0, abs=5 * np.sqrt(variance / values.size))
    assert values.var() == pytest.approx(variance, rel=0.02)
    if name.endswith("uniform"):
        bound = np.sqrt(3 * variance)
        assert 0.999 * bound < np.abs(values).max() <= bound * (1 + 1e-7)
    else:
        assert np.abs(values).max() > 3.5 * np.sqrt(variance)  # not truncated


def test_constants_draw_nothing_and_none_keeps() -> None:
    stream, out = Stream(0), np.full((1, 1, 2, 2), 7.0, dtype=np.float32)
    for name, expected in [("none", 7.0), ("zeros", 0.0), ("ones", 1.0)]:
        fill(name, TensorDim(height=2, width=2), stream, out)
        assert (out == expected).all()
        assert not is_random(name)
    assert stream.raw(1)[0] == 2357136044
    assert all(is_random(name) for name in VARIANCES)
    assert set(INITIALIZERS) == {*VARIANCES, "zeros", "ones", "none"}


def test_seeds_differ_and_repeat() -> None:
    dim = TensorDim(height=3, width=4)
    rows = [np.empty(dim.shape, dtype=np.float32) for _ in range(3)]
    for seed, out in zip((1, 1, 2), rows, strict=True):
        fill("he_normal", dim, Stream(seed), out)
    np.testing.assert_array_equal(rows[0], rows[1])
    assert (rows[0] != rows[2]).all()


def test_faults_name_the_word_and_the_shapes() -> None:
    out = np.empty((2, 3), dtype=np.float32)
    with pytest.raises(PropertyError, match="did you mean 'he_normal'"):
        fill("he_norml", TensorDim(height=2, width=3), Stream(0), out)
    with pytest.raises(UsageError, match=r"8 values of shape \(1, 1, 2, 4\) do not fit an array of \(2, 3\)"):
        fill("ones", TensorDim(height=2, width=4), Stream(0), out)
