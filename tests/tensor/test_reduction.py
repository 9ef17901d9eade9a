"""Reductions of tensors against NumPy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nntrainer_py.errors import PropertyError, UsageError
from nntrainer_py.tensor.tensor import Tensor

SHAPE = (3, 2, 4, 5)
A = np.random.default_rng(8).standard_normal(SHAPE).astype(np.float32)
WIDE = A.astype(np.float64)
AXES = [None, 0, 1, 2, 3, -1, "batch", "width", (1, 2, 3), ("channel", 3), [0, 2]]


def numbers(axis: Any) -> tuple[int, ...]:
    names = {"batch": 0, "channel": 1, "height": 2, "width": 3}
    if axis is None:
        return (0, 1, 2, 3)
    parts = axis if isinstance(axis, (tuple, list)) else [axis]
    return tuple(names.get(part, part) for part in parts)


@pytest.mark.parametrize("axis", AXES)
def test_reductions_keep_four_axes(axis: Any) -> None:
    where = numbers(axis)
    for name, reference in [("sum", np.sum), ("average", np.mean), ("max", np.max), ("min", np.min)]:
        expected = reference(WIDE, axis=where, keepdims=True)
        made = getattr(Tensor(A), name)(axis)
        assert (made.shape, made.dtype) == (expected.shape, np.float32)
        np.testing.assert_allclose(made.data, expected, rtol=1e-5, atol=1e-6)
        out = Tensor.zeros(expected.shape)
        assert getattr(Tensor(A), name)(axis, out) is out
        np.testing.assert_array_equal(out.data, made.data)


def test_sum_scaled_and_added() -> None:
    out = Tensor(np.arange(5, dtype=np.float32))
    Tensor(A).sum((0, 1, 2), out, alpha=0.5, beta=2.0)
    np.testing.assert_allclose(out.data.ravel(), 0.5 * WIDE.sum((0, 1, 2)) + 2 * np.arange(5), rtol=1e-5)
    np.testing.assert_allclose(Tensor(A).sum(2, alpha=3.0).data, 3 * WIDE.sum(2, keepdims=True), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(Tensor(A).sum_by_batch().data, WIDE.sum((1, 2, 3), keepdims=True), rtol=1e-5, atol=1e-6)


def test_float16_is_summed_in_float32() -> None:
    ones = Tensor.ones(1, 1, 100, 100, dtype="FP16")
    assert ones.sum().item() == 10000.0  # summed in float16, 2048 + 1 stays 2048
    assert (ones * 7).average().item() == 7.0
    assert ones.sum().dtype == np.float16
    assert (ones * 7).l2norm() == 700.0


def test_integers() -> None:
    tensor = Tensor(np.full((1, 1, 10, 10), 100, dtype=np.int8))
    assert (tensor.sum().item(), tensor.sum().dtype) == (10000, np.int64)
    assert (tensor.average().item(), tensor.average().dtype) == (100.0, np.float32)
    assert tensor.normalization().dtype == np.float32
    assert Tensor(np.array([2, 4, 3], dtype=np.int32)).normalization().tolist() == [[[[0.0, 1.0, 0.5]]]]


def test_positions() -> None:
    tensor = Tensor(A)
    np.testing.assert_array_equal(tensor.argmax(), WIDE.reshape(3, -1).argmax(1))
    np.testing.assert_array_equal(tensor.argmin(), WIDE.reshape(3, -1).argmin(1))
    for axis in range(4):
        np.testing.assert_array_equal(tensor.argmax(axis).data, WIDE.argmax(axis, keepdims=True))
        np.testing.assert_array_equal(tensor.argmin(axis).data, WIDE.argmin(axis, keepdims=True))
    assert tensor.argmax("width").shape == (3, 2, 4, 1)
    assert Tensor([1.0, 3.0, 3.0]).argmax().tolist() == [1]
    moved = Tensor.from_nhwc(np.ascontiguousarray(A.transpose(0, 2, 3, 1)))
    np.testing.assert_array_equal(moved.argmax(), tensor.argmax())


def test_top_k() -> None:
    values, positions = Tensor(A).top_k(3)
    order = np.argsort(-WIDE, axis=3, kind="stable")[..., :3]
    np.testing.assert_array_equal(positions.data, order)
    np.testing.assert_array_equal(values.data, np.take_along_axis(A, order, 3))
    assert Tensor([2.0, 2.0, 5.0, 2.0]).top_k(3)[1].tolist() == [[[[2, 0, 1]]]]
    for wrong in (0, 6, 1.5, True):
        with pytest.raises(PropertyError, match="k: expected an integer from 1 to the width 5"):
            Tensor(A).top_k(wrong)  # type: ignore[arg-type]


def test_extremes_and_norms() -> None:
    tensor = Tensor(A)
    assert (tensor.max_value(), tensor.min_value()) == (WIDE.max(), WIDE.min())
    assert tensor.max_abs() == np.abs(WIDE).max()
    assert tensor.l2norm() == pytest.approx(np.linalg.norm(WIDE), rel=1e-12)
    large = np.random.default_rng(0).standard_normal((2, 3, 50, 301)).astype(np.float32)
    for seen in (large, large[:, :, ::2], large.transpose(0, 3, 1, 2)):
        assert Tensor(seen).l2norm() == pytest.approx(np.linalg.norm(seen.astype(np.float64)), rel=1e-12)
    assert Tensor([3e30, 4e30]).l2norm() == pytest.approx(5e30, rel=1e-6)
    assert Tensor(np.full(40000, 3, dtype=np.int32)).l2norm() == pytest.approx(600.0)
    assert tensor.is_valid()
    for bad in (np.nan, np.inf):
        assert not Tensor([1.0, bad]).is_valid()


def test_normalization() -> None:
    expected = (WIDE - WIDE.min()) / (WIDE.max() - WIDE.min())
    for made in (
        Tensor(A).normalization(),
        Tensor(A.copy()).normalization_i(),
        Tensor(A).normalization(Tensor.zeros(SHAPE)),
    ):
        np.testing.assert_allclose(made.data, expected, rtol=1e-5, atol=1e-7)
    assert Tensor.full((2, 2), 4.0).normalization().tolist() == [[[[0, 0], [0, 0]]]]


def test_standardization_is_nntrainers() -> None:
    centred = WIDE - WIDE.mean((1, 2, 3), keepdims=True)
    expected = centred / (np.sqrt((centred**2).sum((1, 2, 3), keepdims=True)) / 40)
    for made in (Tensor(A).standardization(), Tensor(A.copy()).standardization_i()):
        np.testing.assert_allclose(made.data, expected, rtol=1e-4, atol=1e-5)
    assert Tensor.full((2, 2), 4.0).standardization().tolist() == [[[[0, 0], [0, 0]]]]


def test_out_of_wrong_shape_is_refused() -> None:
    with pytest.raises(UsageError, match=r"sum: the result has shape \(3, 1, 4, 5\), the tensor for it \(3, 2, 4, 5\)"):
        Tensor(A).sum(1, Tensor.zeros(SHAPE))
    with pytest.raises(UsageError, match="a result of type float32 does not fit in a tensor of type int32"):
        Tensor(A).sum(1, Tensor.zeros(3, 1, 4, 5, dtype="int32"))
