"""Products, axes, joining, fills and lazy chains of tensors against plain NumPy in float64."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from nntrainer_py.errors import PropertyError, UsageError
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.lazy import BLOCK
from nntrainer_py.tensor.rng import Stream
from nntrainer_py.tensor.tensor import Tensor


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def transposed(matrix: np.ndarray, yes: bool) -> np.ndarray:
    return np.swapaxes(matrix.astype(np.float64), -1, -2) if yes else matrix.astype(np.float64)


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("trans_m", [False, True])
def test_dot_flattens_to_matrices(trans: bool, trans_m: bool) -> None:
    a = random(2, 3, 4, 5)
    rows = 24 if trans else 5
    b = random(*((7, rows) if trans_m else (rows, 7)), seed=1)
    expected = transposed(a.reshape(24, 5), trans) @ transposed(b, trans_m)
    shape = (1, 1, 5, 7) if trans else (2, 3, 4, 7)
    made = Tensor(a).dot(Tensor(b), trans=trans, trans_m=trans_m)
    assert (made.shape, made.dtype) == (shape, np.float32)
    np.testing.assert_allclose(made.data.reshape(-1, 7), expected, rtol=1e-4, atol=1e-5)
    out = Tensor.ones(shape)
    assert Tensor(a).dot(b, out, trans, trans_m, beta=0.5) is out
    np.testing.assert_allclose(out.data.reshape(-1, 7), expected + 0.5, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("trans_m", [False, True])
@pytest.mark.parametrize(("batch", "batch_m"), [(4, 4), (4, 1), (1, 4), (2, 4), (4, 2)])
def test_dot_batched(trans: bool, trans_m: bool, batch: int, batch_m: int) -> None:
    a = random(batch, 2, 3, 5)
    inner = 6 if trans else 5
    b = random(batch_m, 1, *((7, inner) if trans_m else (inner, 7)), seed=1)
    made = Tensor(a).dot_batched(Tensor(b), trans=trans, trans_m=trans_m)
    assert made.shape == ((4, 1, 5, 7) if trans else (4, 2, 3, 7))
    for sample in range(4):
        first = a[sample * batch // 4].reshape(6, 5)
        second = b[sample * batch_m // 4].reshape(b.shape[2:])
        expected = transposed(first, trans) @ transposed(second, trans_m)
        np.testing.assert_allclose(made.data[sample].reshape(-1, 7), expected, rtol=1e-4, atol=1e-5)


def test_matmul_operator() -> None:
    a, b = random(2, 3, 4, 5), random(2, 3, 5, 6, seed=1)
    np.testing.assert_allclose((Tensor(a) @ Tensor(b)).data, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-5)
    shared = random(5, 6, seed=2)
    np.testing.assert_allclose((Tensor(a) @ shared).data, a.astype(np.float64) @ shared, rtol=1e-4, atol=1e-5)
    left = Tensor(random(1, 3, 4, 5)) @ Tensor(b)
    np.testing.assert_allclose(left.data, random(1, 3, 4, 5).astype(np.float64) @ b, rtol=1e-4, atol=1e-5)


def test_float16_product_is_summed_in_float32() -> None:
    ones = Tensor.ones(1, 4096, dtype="FP16")
    assert ones.dot(ones, trans_m=True).item() == 4096.0
    assert ones.dot(ones, trans_m=True).dtype == np.float16


@pytest.mark.parametrize(
    ("direction", "axes"),
    [
        ("0:2:1", (0, 1, 3, 2)),
        ("1:2:0", (0, 2, 3, 1)),
        ((2, 1, 0), (0, 3, 2, 1)),
        ((3, 0, 2, 1), (3, 0, 2, 1)),
        ("1:0:3:2", (1, 0, 3, 2)),
    ],
)
def test_transpose_copies_and_permute_looks(direction: Any, axes: tuple[int, ...]) -> None:
    a = random(2, 3, 4, 5)
    expected = a.transpose(axes)
    made, seen = Tensor(a).transpose(direction), Tensor(a).permute(direction)
    np.testing.assert_array_equal(made.data, expected)
    np.testing.assert_array_equal(seen.data, expected)
    assert (made.layout, np.shares_memory(made.data, a), np.shares_memory(seen.data, a)) == ("NCHW", False, True)
    out = Tensor.zeros(expected.shape)
    assert Tensor(a).transpose(direction, out) is out
    np.testing.assert_array_equal(out.data, expected)


def test_transpose_into_itself() -> None:
    a = random(4, 4)
    tensor = Tensor(a.copy())
    tensor.transpose("0:2:1", tensor)
    np.testing.assert_array_equal(tensor.data[0, 0], a.T)


@pytest.mark.parametrize("direction", ["0:1", "0:0:1", "a:b:c", (1, 2, 3), "0:1:2:4", 3])
def test_wrong_order_is_refused(direction: Any) -> None:
    with pytest.raises(PropertyError, match="direction: expected an order such as 0:2:1"):
        Tensor.zeros(2, 2).transpose(direction)


@pytest.mark.parametrize("axis", [0, 1, 2, 3, "height"])
def test_concat_and_split_are_inverse(axis: Any) -> None:
    a, number = random(2, 3, 4, 5), 2 if axis == "height" else axis
    b = np.concatenate([a, a], axis=number)[tuple(slice(0, 3) if i == number else slice(None) for i in range(4))]
    joined = Tensor.concat([Tensor(a), b], axis)
    np.testing.assert_array_equal(joined.data, np.concatenate([a, b], axis=number))
    first, second = joined.split([a.shape[number], 3], axis)
    np.testing.assert_array_equal(first.data, a)
    np.testing.assert_array_equal(second.data, b)
    assert np.shares_memory(first.data, joined.data)
    assert not np.shares_memory(Tensor.cat([Tensor(a)], axis).data, a)
    pieces = Tensor(a).split(a.shape[number], axis)
    assert len(pieces) == a.shape[number]
    assert all(piece.shape[number] == 1 for piece in pieces)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.dot(t), r"dot: \(6, 4\) and \(6, 4\) do not multiply"),
        (lambda t: t.dot(Tensor.zeros(3, 5), trans=True), r"\(6, 4\) \(transposed\) and \(3, 5\) do not multiply"),
        (lambda t: t.dot(2), "got the number 2"),
        (
            lambda t: t.dot(Tensor.zeros(4, 5), Tensor.zeros(4)),
            r"shape \(2, 1, 3, 5\), the tensor for it \(1, 1, 1, 4\)",
        ),
        (lambda t: t.dot_batched(Tensor.zeros(3, 1, 4, 5)), "batches 2 and 3"),
        (lambda t: t @ Tensor.zeros(3, 1, 4, 5), r"@: shapes \(2, 1, 3, 4\) and \(3, 1, 4, 5\)"),
        (lambda t: t @ t, r"@: \(3, 4\) and \(3, 4\) do not multiply"),
        (lambda t: Tensor.concat([]), "no tensor"),
        (lambda t: Tensor.concat([t, Tensor.zeros(2, 2)]), r"\(2, 1, 3, 4\) and \(1, 1, 2, 2\) differ beside axis 0"),
        (lambda t: t.split(2, 2), r"axis 2 of shape \(2, 1, 3, 4\) cannot be cut into 2 equal"),
        (lambda t: t.split([1, 1], 2), r"pieces \[1, 1\] do not add up to axis 2"),
        (lambda t: t.fill([1.0]), "got list"),
        (lambda t: t.fill(np.zeros(3)), r"expected a number, got shape \(3,\)"),
        (lambda t: t.astype("int8").fill(300), "300"),
        (lambda t: t.astype("int8").fill(1.5), "1.5 does not fit in a tensor of type int8"),
        (lambda t: t.astype("int8").set_rand_normal(), "needs a floating type, this tensor has int8"),
    ],
)
def test_faults_show_the_shapes(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(Tensor(random(2, 1, 3, 4)))


def test_fills() -> None:
    tensor = Tensor.zeros(TensorDim(2, 1, 2, 2))
    assert (tensor.fill(2).data == 2).all()
    assert tensor.set_value(1, 0, 1, 1, 5).get_value(1, 0, 1, 1) == 5.0
    assert tensor.add_value(1, 0, 1, 1, 3, beta=2)[1, 0, 1, 1] == 13.0
    assert not tensor.set_zero().data.any()
    assert (Tensor.ones(2, 2).data == 1).all()
    assert (Tensor.full((2, 2), 0.5, dtype="FP16").data == 0.5).all()


def test_random_fills_follow_the_stream() -> None:
    expected = np.empty(3000, dtype=np.float32)
    for fill, draw in [
        ("set_rand_uniform", lambda s: s.uniform(expected, -0.05, 0.05)),
        ("set_rand_normal", lambda s: s.normal(expected, 0.0, 0.05)),
        ("set_rand_bernoulli", lambda s: s.bernoulli(expected, 0.5)),
    ]:
        draw(Stream(4))
        made = getattr(Tensor.zeros(10, 300), fill)(random=4)
        np.testing.assert_array_equal(made.data.ravel(), expected)
        moved = getattr(Tensor.zeros(1, 10, 20, 15, layout="NHWC"), fill)(random=4)
        np.testing.assert_array_equal(moved.data.ravel(), expected)
    stream = Stream(4)
    first, second = (Tensor.zeros(5).set_rand_uniform(random=stream) for _ in range(2))
    assert (first != second).data.all()
    weights = Tensor.zeros(30, 50).initialize("xavier_uniform", random=1)
    assert 0.9 * np.sqrt(6 / 80) < weights.max_abs() <= np.sqrt(6 / 80) * (1 + 1e-6)


# chains: name -> (the same calls on a tensor or a lazy chain, NumPy in float64)
B, C = random(2, 3, 40, 50, seed=1), random(3, 1, 1, seed=2)
CHAINS: dict[str, tuple[Any, Any]] = {
    "one": (lambda t: t.add(1), lambda x: x + 1),
    "tensor": (lambda t: t.add(Tensor(B)).multiply(B), lambda x: (x + B) * B),
    "broadcast": (lambda t: t.multiply(Tensor(C)).add(C, alpha=0.5), lambda x: x * C.astype(np.float64) + 0.5 * C),
    "number alpha": (lambda t: t.add(3, alpha=2.0), lambda x: x + 6),
    "functions": (lambda t: t.abs().add(1).sqrt().log().exp(), lambda x: np.sqrt(np.abs(x) + 1)),
    "apply": (lambda t: t.apply(np.tanh).pow(2).subtract(B), lambda x: np.tanh(x) ** 2 - B),
    "divide": (lambda t: t.divide(4).divide(Tensor(np.abs(C) + 1)), lambda x: x / 4 / (np.abs(C) + 1)),
    "sum": (lambda t: t.multiply(2).sum("width").add(1), lambda x: (2 * x).sum(3, keepdims=True) + 1),
    "average": (lambda t: t.multiply(B).average(), lambda x: (x * B).mean(keepdims=True)),
    "batch": (lambda t: t.add(1).sum_by_batch(), lambda x: (x + 1).sum((1, 2, 3), keepdims=True)),
    "dot": (
        lambda t: t.add(1).dot(Tensor(B[0, 0]), trans_m=True).multiply(2),
        lambda x: 2 * ((x + 1) @ B[0, 0].astype(np.float64).T),
    ),
    "transpose": (lambda t: t.multiply(2).transpose("0:2:1"), lambda x: 2 * x.swapaxes(2, 3)),
}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "strided"])
@pytest.mark.parametrize("name", CHAINS)
def test_lazy_chain_equals_numpy_and_the_eager_calls(name: str, layout: str) -> None:
    calls, reference = CHAINS[name]
    a = random(2, 3, 40, 100)[..., ::2]
    tensor = Tensor(a) if layout == "strided" else Tensor(a, layout="NHWC").to_layout(layout)
    before = tensor.data.copy()
    chain = calls(tensor.lazy())
    np.testing.assert_array_equal(tensor.data, before)
    made, eager = chain.run(), calls(tensor)
    np.testing.assert_allclose(made.data, reference(a.astype(np.float64)), rtol=2e-4, atol=2e-5)
    # the order of a sum follows the order in memory, which the tensors in between may have differently
    summed = name in ("sum", "average", "batch", "dot")
    np.testing.assert_allclose(made.data, eager.data, rtol=1e-5 if summed else 0, atol=1e-6 if summed else 0)
    assert made.dtype == eager.dtype
    out = Tensor.zeros(made.shape)
    assert chain.run(out) is out
    np.testing.assert_array_equal(out.data, made.data)
    np.testing.assert_array_equal(tensor.data, before)


def test_lazy_chain_is_a_value_and_reads_at_run() -> None:
    tensor = Tensor([1.0, 2.0])
    doubled = tensor.lazy().multiply(2)
    added = doubled.add(1)
    assert doubled.run().tolist() == [[[[2, 4]]]]
    assert added.run().tolist() == [[[[3, 5]]]]
    tensor.fill(5)
    assert added.run().tolist() == [[[[11, 11]]]]
    assert tensor.lazy().run().data is not tensor.data
    assert "multiply" in repr(added)
    assert tensor.chain().multiply_i(2).subtract_i(1).add_i(3).divide_i(4).run().tolist() == [[[[3, 3]]]]


def test_lazy_chain_into_its_own_operands() -> None:
    a = random(2, 3, 40, 50)
    for place in ("source", "operand"):
        source, other = Tensor(a.copy()), Tensor(B.copy())
        out = source if place == "source" else other
        assert source.lazy().multiply(other).add(source).run(out) is out
        np.testing.assert_array_equal(out.data, a * B + a)
    square = random(300, 300)
    tensor = Tensor(square.copy())
    tensor.lazy().add(tensor.permute("0:2:1")).run(tensor)  # the same memory in another order must be copied first
    np.testing.assert_array_equal(tensor.data[0, 0], square + square.T)
    line = np.arange(100_000, dtype=np.float32)
    moved = line.copy()
    Tensor(moved[:-1]).lazy().add(1).multiply(1).run(Tensor(moved[1:]))
    np.testing.assert_array_equal(moved[1:], line[:-1] + 1)


def test_lazy_types_are_those_of_the_eager_calls() -> None:
    integers = Tensor(np.arange(1, 9, dtype=np.int8))
    for calls in (
        lambda t: t.add(1),
        lambda t: t.multiply(100),
        lambda t: t.divide(4).add(1),
        lambda t: t.add(Tensor([0.5] * 8)).multiply(3),
        lambda t: t.sqrt(),
        lambda t: t.multiply(Tensor(np.arange(8, dtype=np.float64))),
        lambda t: t.add(Tensor(np.ones(8, dtype=np.int32)), alpha=3),
    ):
        made, eager = calls(integers.lazy()).run(), calls(integers)
        assert made.dtype == eager.dtype
        np.testing.assert_array_equal(made.data, eager.data)
    half = Tensor(random(50)).astype("FP16")
    assert half.lazy().multiply(2).sqrt().run().dtype == np.float16


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.lazy().add(np.zeros((2, 2))).run(), r"add: shapes \(1, 1, 3, 4\) and \(2, 2\)"),
        (lambda t: t.lazy().add(1).run(Tensor.zeros(4)), r"shape \(1, 1, 3, 4\), the tensor for it \(1, 1, 1, 4\)"),
        (
            lambda t: t.lazy().add(1).run(Tensor.zeros(3, 4, dtype="int8")),
            "float32 does not fit in a tensor of type int8",
        ),
        (lambda t: t.lazy().add("x"), "got str"),
        (lambda t: t.lazy().divide(0), "divisor is 0"),
        (lambda t: t.lazy().apply(np.sum).run(), r"apply: the function made shape \(\)"),
        (lambda t: t.lazy().apply(lambda x: x.astype(str)).run(), "no numbers"),
        (lambda t: t.astype("int8").lazy().add(300).run(), "300"),
    ],
)
def test_lazy_faults(call: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call(Tensor(random(3, 4)))


def peak(call: Any) -> int:
    call()  # imports and caches must not count
    tracemalloc.start()
    try:
        kept = call()
        assert kept is not None
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_lazy_chain_needs_its_result_and_a_few_blocks() -> None:
    a, b, row = Tensor(random(8, 16, 64, 64)), Tensor(random(8, 16, 64, 64, seed=1)), Tensor(random(16, 1, 1, seed=2))
    blocks = 6 * 4 * BLOCK

    def chain(t: Any) -> Any:
        return t.add(b).multiply(row).add(b, alpha=0.5).abs().sqrt().subtract(row)

    assert peak(lambda: chain(a.lazy()).run()) < a.nbytes + blocks
    assert peak(lambda: chain(a)) > 2 * a.nbytes
    out = Tensor.zeros(a.shape)
    assert peak(lambda: chain(a.lazy()).run(out)) < blocks < a.nbytes / 5
    moved = b.to_layout("NHWC")  # an operand in another layout is fetched block by block too
    assert peak(lambda: a.lazy().add(moved).multiply(2).run(out)) < 2 * blocks
