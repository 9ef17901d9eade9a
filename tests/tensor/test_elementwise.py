"""Arithmetic of tensors against NumPy in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special

from nntrainer_py.errors import UsageError
from nntrainer_py.tensor.tensor import Tensor

RANDOM = np.random.default_rng(5)
SHAPE = (2, 3, 4, 5)
A = RANDOM.uniform(0.5, 2.0, SHAPE).astype(np.float32)


def operand(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(6).uniform(0.5, 2.0, shape).astype(np.float32)


BINARY = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "pow": np.power}
SHAPES = [SHAPE, (1, 3, 1, 1), (2, 1, 1, 1), (5,), (4, 1), (1, 1, 4, 5)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary_with_a_tensor(name: str, shape: tuple[int, ...]) -> None:
    b = operand(shape)
    expected = BINARY[name](A.astype(np.float64), b.astype(np.float64))
    made = getattr(Tensor(A), name)(Tensor(b))
    assert made.dtype == np.float32
    np.testing.assert_allclose(made.data, expected, rtol=3e-7)
    out = Tensor.zeros(SHAPE)
    assert getattr(Tensor(A), name)(b, out) is out
    np.testing.assert_allclose(out.data, expected, rtol=3e-7)
    place = Tensor(A.copy())
    assert getattr(place, f"{name}_i")(Tensor(b)) is place
    np.testing.assert_allclose(place.data, expected, rtol=3e-7)
    assert not np.shares_memory(made.data, A)


@pytest.mark.parametrize("number", [3, 0.25, np.float64(0.1), np.float32(7), np.array(2.0)])
@pytest.mark.parametrize("name", BINARY)
def test_binary_with_a_number_stays_float32(name: str, number: Any) -> None:
    expected = BINARY[name](A.astype(np.float64), float(number))
    place = Tensor(A.copy())
    for made in (getattr(Tensor(A), name)(number), getattr(place, f"{name}_i")(number)):
        assert made.dtype == np.float32
        np.testing.assert_allclose(made.data, expected, rtol=3e-7)


def test_broadcast_of_the_tensor_itself_and_of_both() -> None:
    np.testing.assert_array_equal(Tensor(operand((3, 1, 1))).add(A).data, operand((3, 1, 1)) + A)
    row, column = operand((1, 5)), operand((4, 1))
    np.testing.assert_array_equal((Tensor(row) * Tensor(column)).data[0, 0], row * column)


def test_alpha() -> None:
    b = operand((3, 1, 1))
    expected = A.astype(np.float64) - 0.3 * b.astype(np.float64)
    np.testing.assert_allclose(Tensor(A).add(Tensor(b), alpha=-0.3).data, expected, rtol=1e-6)
    np.testing.assert_allclose(Tensor(A.copy()).add_i(b, alpha=-0.3).data, expected, rtol=1e-6)
    np.testing.assert_allclose(Tensor(A).add(2, alpha=0.5).data, A + 1, rtol=1e-7)


UNARY = {
    "sqrt": np.sqrt,
    "inv_sqrt": lambda x: 1 / np.sqrt(x),
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "erf": special.erf,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str) -> None:
    expected = UNARY[name](A.astype(np.float64))
    np.testing.assert_allclose(getattr(Tensor(A), name)().data, expected, rtol=1e-6, atol=1e-6)
    out = Tensor.zeros(SHAPE)
    assert getattr(Tensor(A), name)(out) is out
    np.testing.assert_allclose(out.data, expected, rtol=1e-6, atol=1e-6)
    half = getattr(Tensor(A).astype("FP16"), name)()
    assert half.dtype == np.float16
    reference = UNARY[name](A.astype(np.float16).astype(np.float64))
    np.testing.assert_allclose(half.data, reference, rtol=2e-3, atol=2e-3)
    integers = getattr(Tensor(np.array([1, 2, 3], dtype=np.int32)), name)()
    assert integers.dtype == (np.int32 if name == "abs" else np.float32)
    np.testing.assert_allclose(integers.data.ravel(), UNARY[name](np.array([1.0, 2.0, 3.0])), rtol=1e-6)


@pytest.mark.parametrize("name", ["sqrt", "inv_sqrt", "erf"])
def test_unary_in_place(name: str) -> None:
    place = Tensor(A.copy())
    assert getattr(place, f"{name}_i")() is place
    np.testing.assert_allclose(place.data, UNARY[name](A.astype(np.float64)), rtol=1e-6)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_are_scaled(name: str) -> None:
    np.testing.assert_allclose(
        getattr(Tensor(A), name)(alpha=0.5).data, UNARY[name](A.astype(np.float64) / 2), rtol=1e-6
    )


def test_apply() -> None:
    made = Tensor(A).apply(lambda x: x * x)
    np.testing.assert_allclose(made.data, A.astype(np.float64) ** 2, rtol=1e-6)
    one_by_one = Tensor(A).apply(np.vectorize(math.tanh))
    assert one_by_one.dtype == np.float32
    np.testing.assert_allclose(one_by_one.data, np.tanh(A.astype(np.float64)), rtol=1e-6)
    place = Tensor(A.copy())
    assert place.apply_i(np.negative) is place
    np.testing.assert_array_equal(place.data, -A)
    for function, message in [
        (math.tanh, "numpy.vectorize"),
        (np.sum, r"made shape \(\) of \(2, 3, 4, 5\)"),
        (lambda x: x.astype(str), "no numbers"),
    ]:
        with pytest.raises(UsageError, match=message):
            Tensor(A).apply(function)  # type: ignore[arg-type]


def test_operators() -> None:
    a, b = Tensor(A), Tensor(operand(SHAPE))
    cases = [
        (a + b, A + b.data),
        (2 - a, 2 - A),
        (a - 2, A - 2),
        (a * b, A * b.data),
        (1 / a, 1 / A),
        (a / b, A / b.data),
        (a**2, A**2),
        (2**a, 2**A),
        (-a, -A),
        (abs(-a), A),
        (operand((5,)) + a, operand((5,)) + A),
        (a + operand((5,)), A + operand((5,))),
        (a < b, b.data > A),
        (a <= 1, A <= 1),
        (a > b, b.data < A),
        (a >= 1, A >= 1),
        (a == a.copy(), np.ones(SHAPE, dtype=bool)),
        (a != b, b.data != A),
        (np.exp(a), np.exp(A)),
        (np.maximum(a, 1.0), np.maximum(A, 1.0)),
    ]
    for made, expected in cases:
        assert isinstance(made, Tensor)
        np.testing.assert_allclose(made.data, expected, rtol=3e-7)
        assert made.dtype == expected.dtype
    c = a.copy()
    array = c.data
    c += 1
    c *= b
    c -= a
    c /= 2
    c **= 2
    np.testing.assert_allclose(c.data, (((A + 1) * b.data - A) / 2) ** 2, rtol=1e-5)
    assert c.data is array
    assert np.add.reduce(a, axis=None).dtype == np.float32
    with pytest.raises(TypeError):
        a + "1"  # type: ignore[operator]
    assert (a == "text") is False


def test_types_of_results() -> None:
    integers = Tensor(np.array([1, 2, 4], dtype=np.int8))
    assert (integers + 1).dtype == np.int8
    assert (integers + 0.5).dtype == np.float32
    assert (integers / 2).dtype == np.float32
    assert (integers / integers).dtype == np.float32
    assert (Tensor(A) * Tensor(np.arange(5))).dtype == np.float32
    assert (Tensor(A).astype("FP16") * 2).dtype == np.float16
    assert (Tensor(A).astype("FP16") * Tensor(A)).dtype == np.float32
    assert (Tensor(A) * A.astype(np.float64)).dtype == np.float64
    assert Tensor(np.array([1, 2])).divide(Tensor(np.array([4, 4]))).tolist() == [[[[0.25, 0.5]]]]


def test_ieee_values_and_no_warnings() -> None:
    made = Tensor([1.0, 0.0, -1.0]) / Tensor([0.0, 0.0, 0.0])
    assert made.tolist()[0][0][0][0] == math.inf
    assert math.isnan(made[0, 0, 0, 1])
    assert math.isnan(Tensor([-1.0]).sqrt().item())
    assert Tensor([3e38]).multiply(10).item() == math.inf


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.add(np.zeros((2, 2))), r"add: shapes \(2, 3, 4, 5\) and \(2, 2\) do not fit together"),
        (lambda t: t[0].multiply_i(t), r"multiply_i: the result has shape \(2, 3, 4, 5\), .* \(1, 3, 4, 5\)"),
        (lambda t: t.add(1, Tensor.zeros(4)), r"shape \(2, 3, 4, 5\), the tensor for it \(1, 1, 1, 4\)"),
        (lambda t: t.add(1, np.zeros((2, 3, 4, 5))), "out must be a tensor, got ndarray"),
        (lambda t: t.add("x"), "expected a tensor, an array or a number, got str"),
        (lambda t: t.add(None), "got NoneType"),
        (lambda t: t.add([1, 2]), "got list"),
        (lambda t: t.add(np.zeros((1,) * 5)), "at most 4 axes"),
        (lambda t: t.divide(0), "divide: the divisor is 0"),
        (lambda t: t.divide_i(np.float32(0)), "divide_i: the divisor is 0"),
        (lambda t: t.astype("int32").divide_i(2), "float32 does not fit in a tensor of type int32"),
        (lambda t: t.astype("int8").add(300), "add: .*300"),
        (lambda t: t.astype("int32").pow(-1), "pow: Integers to negative"),
        (lambda t: t.astype("bool").subtract(t.astype("bool")), "not defined for bool and bool"),
        (lambda t: Tensor(np.broadcast_to(np.float32(1), (2, 2))).add_i(1), "read-only"),
    ],
)
def test_faults_name_operation_and_shapes(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(Tensor(A.copy()))


def test_equals_is_nntrainers_comparison() -> None:
    a = Tensor(A)
    assert a.equals(A + np.float32(5e-6))
    assert not a.equals(A + np.float32(2e-5))
    assert a.equals(A + np.float32(2e-3), tolerance=1e-2)
    assert not a.equals(A[:1])
    assert not Tensor([math.nan]).equals(Tensor([math.nan]))
    assert Tensor([math.inf]).equals(Tensor([math.inf]))
    assert not Tensor([math.inf]).equals(Tensor([-math.inf]))
