"""Polynomials against SciPy, sums against NumPy; no bit depends on position, neighbours, threads or memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import special

from nntrainer_py.tensor.kernels import activation, elementwise, exponential, reduction, softmax
from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.shares import CHUNK, share
from nntrainer_py.tensor.operations.catalogue import kind
from nntrainer_py.tensor.operations.record import Operation, Phase, Role, Run, StepState, Value

Array = np.ndarray[Any, Any]


@kernel()
def every_function(x: Array, out: Array) -> None:
    """One row of ``out`` per function, as loops apply them."""
    for i in range(x.size):
        out[0, i] = exponential.exp(x[i])
        out[1, i] = exponential.expm1(x[i])
        out[2, i] = exponential.sigmoid_of(x[i])
        out[3, i] = exponential.softplus_of(x[i])
        out[4, i] = exponential.tanh_of(x[i])
        out[5, i] = exponential.normal_cdf(x[i])


REFERENCES = {
    "exp": np.exp,
    "expm1": np.expm1,
    "sigmoid": special.expit,
    "softplus": lambda x: np.logaddexp(0, x),
    "tanh": np.tanh,
    "normal_cdf": special.ndtr,
}


@pytest.fixture(scope="module")
def computed() -> tuple[Array, Array]:
    edges = np.geomspace(1e-30, 88, 20001)
    x = np.concatenate([np.linspace(-88, 88, 200001), np.linspace(-1, 1, 100001), edges, -edges]).astype(np.float32)
    out = np.empty((6, x.size), np.float32)
    every_function(x, out)
    return x, out


@pytest.mark.parametrize(("row", "word"), list(enumerate(REFERENCES)))
def test_units_in_the_last_place(computed: tuple[Array, Array], row: int, word: str) -> None:
    x, out = computed
    expected = REFERENCES[word](x.astype(np.float64))
    if word == "normal_cdf":  # its docstring promises less
        assert np.abs(out[row] - expected).max() < 2.5e-7
        return
    normal = np.abs(expected) > 1.2e-38
    units = np.abs(out[row] - expected) / np.spacing(np.abs(expected).astype(np.float32))
    assert units[normal].max() < 3, x[normal][units[normal].argmax()]


def test_edges() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 89, -104, 200, -200, 3e38, -3e38, 0], np.float32)
    out = np.empty((6, x.size), np.float32)
    every_function(x, out)
    assert np.isnan(out[:, 0]).all()
    assert out[0, 1:].tolist() == [np.inf, 0, np.inf, 0, np.inf, 0, np.inf, 0, 1]
    assert out[1, 1:].tolist() == [np.inf, -1, np.inf, -1, np.inf, -1, np.inf, -1, 0]
    assert out[2, 1:].tolist() == [1, 0, 1, 0, 1, 0, 1, 0, 0.5]
    assert out[3, 1:-1].tolist() == [np.inf, 0, 89, 0, 200, 0, np.float32(3e38), 0]
    assert out[4, 1:].tolist() == [1, -1, 1, -1, 1, -1, 1, -1, 0]
    assert out[5, 1:].tolist() == [1, 0, 1, 0, 1, 0, 1, 0, 0.5]


@pytest.mark.parametrize("word", ["relu", "tanh", "gelu", "mish", "softplus", "elu"])
def test_an_element_depends_on_nothing_else(word: str) -> None:
    x = (np.random.default_rng(0).standard_normal(3000) * 3).astype(np.float32)
    whole = np.empty_like(x)
    function = getattr(activation, word)
    function(x, whole, 1)
    for start, stop in ((0, 1), (0, 3), (1, 18), (5, 69), (7, 2990), (2999, 3000)):
        part = np.empty(stop - start, np.float32)
        function(x[start:stop], part, 1)
        assert part.tobytes() == whole[start:stop].tobytes()
    again = x.copy()
    function(again, None, 1)
    assert again.tobytes() == whole.tobytes()


def test_parts_give_the_same_bytes() -> None:
    x = np.random.default_rng(0).standard_normal(3 * CHUNK + 5).astype(np.float32)
    whole = np.empty_like(x)
    activation.tanh(x, whole, 1)
    for parts in (2, 3, 4, 9):
        shared = np.full_like(x, np.nan)
        activation.tanh(x, shared, parts)
        assert whole.tobytes() == shared.tobytes()


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 40])
@pytest.mark.parametrize(("size", "unit"), [(0, 1), (1, 1), (5, 1), (1000, 64), (64, 64), (65, 64), (3, CHUNK)])
def test_shares_follow_each_other_in_whole_units(parts: int, size: int, unit: int) -> None:
    place = 0
    for part in range(parts):
        first, last = share(part, parts, size, unit)
        if first < last:
            assert (first, first % unit) == (place, 0)
            place = last
    assert place == size


@pytest.mark.parametrize("width", [1, 2, 10, 33, 1000])
def test_a_softmax_row_depends_on_nothing_else(width: int) -> None:
    x = (np.random.default_rng(0).standard_normal((37, width)) * 5).astype(np.float32)
    whole = np.empty_like(x)
    softmax.softmax(x, whole, 1)
    assert whole == pytest.approx(special.softmax(x.astype(np.float64), axis=1), abs=5e-7)
    for row in (0, 17, 36):
        one = np.empty((1, width), np.float32)
        softmax.softmax(x[row : row + 1], one, 1)
        assert one.tobytes() == whole[row : row + 1].tobytes()
    softmax.softmax(x, None, 1)
    assert x.tobytes() == whole.tobytes()


def test_softmax_at_the_edges() -> None:
    inf, nan = np.inf, np.nan
    x = np.array([[1, nan, 2], [-nan, 1, 2], [inf, 1, 1], [-inf, 0, 0], [3e38, 0, -3e38]], np.float32)
    softmax.softmax(x, None, 1)
    assert np.isnan(x[:3]).all()
    assert x[3:].tolist() == [[0, 0.5, 0.5], [1, 0, 0]]


@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (3, 4, 5, 7), (64, 1, 1, 10), (2, 130, 33, 17), (300, 2, 1, 500)])
@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_sums_over_all_axes_but_one(shape: tuple[int, ...], axis: int) -> None:
    g = np.random.default_rng(0).standard_normal(shape).astype(np.float32) + 1
    expected = g.astype(np.float64).sum(tuple(a for a in range(4) if a != axis))
    results = []
    for threads in (1, 2):
        for accumulate in (False, True):
            out = np.full(shape[axis], 5.0 if accumulate else np.nan, np.float32)
            bound("bias_gradient", {"g": g}, {"out": out}, threads, accumulate, axis=axis)
            assert out == pytest.approx(expected + 5 * accumulate, rel=2e-6)
            results.append(out)
    assert results[0].tobytes() == results[2].tobytes()
    assert results[1].tobytes() == results[3].tobytes()


def bound(
    name: str,
    reads: dict[str, Array],
    writes: dict[str, Array],
    threads: int = 1,
    accumulate: bool = False,
    **attributes: Any,
) -> None:
    """Bind one operation to arrays and run it."""
    values = {n: Value(n, a.shape, Role.ACTIVATION, a.dtype.name) for n, a in (reads | writes).items()}
    declared = kind(name)
    operation = Operation(
        declared,
        {n: values[n] for n in reads},
        {n: values[n] for n in writes},
        attributes,
        Phase.FORWARD,
        accumulate=accumulate,
    )
    scratch = np.zeros(declared.scratch(operation, threads), np.uint8)
    function, arguments = declared.bind(operation, reads | writes, Run(StepState(), threads, scratch))
    function(*arguments)


@pytest.mark.parametrize("size", [1, 7, 5000, 300_000])
@pytest.mark.parametrize("terms", [2, 3, 6])
@pytest.mark.parametrize("place", [None, 0, 1])
def test_sums_of_tensors(size: int, terms: int, place: int | None) -> None:
    rng = np.random.default_rng(0)
    arrays = {f"x{i}": rng.standard_normal(size).astype(np.float32) for i in range(terms)}
    expected = arrays["x0"].copy()
    for name in list(arrays)[1:]:
        expected += arrays[name]
    for threads in (1, 2):
        fresh = {name: array.copy() for name, array in arrays.items()}
        out = np.empty(size, np.float32) if place is None else fresh[f"x{place}"]
        bound("add_n", fresh, {"out": out}, threads)
        assert out.tobytes() == expected.tobytes()


@pytest.mark.parametrize("size", [3, 300_000])
@pytest.mark.parametrize("threads", [1, 2])
def test_copies_and_zeros(size: int, threads: int) -> None:
    x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    out = np.full(size, np.nan, np.float32)
    bound("copy", {"x": x}, {"out": out}, threads)
    assert out.tobytes() == x.tobytes()
    bound("copy", {"x": x}, {"out": out}, threads, accumulate=True)
    assert out.tobytes() == (x + x).tobytes()
    bound("copy", {"x": x}, {"out": x}, threads)
    bound("zeros", {}, {"out": out}, threads, shape=(size,))
    assert not out.any()
    whole = np.full(size, 7, np.int32)
    bound("zeros", {}, {"out": whole}, threads, shape=(size,), dtype="int32")
    assert not whole.any()


def test_misfits_are_refused() -> None:
    x = Value("x", (2, 1, 1, 3), Role.ACTIVATION)
    y = Value("y", (2, 1, 1, 4), Role.ACTIVATION)
    for name, reads, attributes in (
        ("activation", {"x": x}, {"function": "cubic"}),
        ("activation_derivative", {"x": x, "g": x}, {"function": "relu"}),
        ("activation_derivative", {"y": x, "g": y}, {"function": "relu"}),
        ("add_n", {"x0": x}, {}),
        ("add_n", {"x0": x, "x1": y}, {}),
        ("copy", {"x": x}, {"shape": (7,)}),
        ("bias_gradient", {"g": x}, {"axis": 4}),
        ("softmax_derivative", {"y": x, "g": y}, {}),
        ("mse", {"y": x, "t": y}, {}),
        ("cross_softmax", {"x": x, "t": y}, {}),
        ("cross_softmax", {"x": x, "t": x}, {"indices": True}),
        ("count_correct", {"x": x, "t": x}, {"threshold": True}),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            kind(name).outputs(reads, attributes)


def test_nothing_is_allocated_in_a_call() -> None:
    """Kernels fill what they get: no array memory in a step (checked on a sample of kinds)."""
    import tracemalloc

    x = np.random.default_rng(0).standard_normal((64, 1000)).astype(np.float32)
    out = np.empty_like(x)
    flat, flat_out, columns, work = x.reshape(-1), out.reshape(-1), np.empty(1000, np.float32), np.empty(1000)
    calls = [
        (activation.gelu.function, (flat, flat_out, 1)),
        (softmax.softmax.function, (x, out, 1)),
        (elementwise.add.function, (flat, flat, flat_out, 1)),
        (reduction.sum_columns.function, (x, columns, False, work, 1)),
    ]
    for function, arguments in calls:
        function(*arguments)
    tracemalloc.start()
    for function, arguments in calls:
        function(*arguments)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4096
