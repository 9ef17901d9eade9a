"""One, two and three threads give the same bytes: every kind whose kernel is shared among threads, at odd sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from nntrainer_py.tensor.kernels import threads as pool
from nntrainer_py.tensor.operations.catalogue import kind
from nntrainer_py.tensor.operations.elementwise import FROM_INPUT, FROM_OUTPUT
from nntrainer_py.tensor.operations.record import Operation, Phase, Role, Run, StepState, Value

Array = np.ndarray[Any, Any]
Case = tuple[str, dict[str, Array], dict[str, Any]]

SIZE = 9 * 16384 + 37  # ten chunks, the last one of an odd size
PLANES = (33, 7, 31, 37)  # samples, channels, rows, columns
ROWS = (301, 1, 1, 1003)


def normal(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def element_wise() -> Iterator[Case]:
    x, g = normal(SIZE), normal(SIZE)[::-1].copy()
    for function in sorted(FROM_OUTPUT | FROM_INPUT):
        yield "activation", {"x": x}, {"function": function}
        operand = "y" if function in FROM_OUTPUT else "x"
        yield "activation_derivative", {operand: x, "g": g}, {"function": function}
    yield "add_n", {"x0": x, "x1": g}, {}
    yield "copy", {"x": x}, {}
    yield "zeros", {}, {"shape": (SIZE,)}
    yield "dropout", {"x": normal(*ROWS)}, {"key": 5, "draw": 1, "rate": 0.3}


def rows() -> Iterator[Case]:
    x, t = normal(*ROWS), np.abs(normal(*ROWS)[::-1])
    t /= t.sum(-1, keepdims=True)
    classes = np.arange(ROWS[0], dtype=np.float32).reshape(-1, 1, 1, 1)
    yield "softmax", {"x": x}, {}
    yield "softmax_derivative", {"y": t, "g": x}, {}
    yield "mse", {"y": x, "t": t}, {}
    for name in ("cross_softmax", "cross_sigmoid", "focal"):
        parameter = {"gamma": 2.0} if name == "focal" else {"smoothing": 0.1}
        for label, indices in ((t, False), (classes, True)):
            yield name, {"x": x, "t": label}, {"indices": indices, **parameter}
            yield f"{name}_derivative", {"p": t, "t": label}, {"indices": indices, **parameter}


def sums() -> Iterator[Case]:
    for axis in range(3):
        yield "bias_gradient", {"g": normal(*PLANES)}, {"axis": axis}
    yield "bias_gradient", {"g": normal(*ROWS)}, {"axis": 3}
    indices = np.random.default_rng(0).integers(0, 501, (301, 1, 1, 7)).astype(np.float32)
    yield "embedding_gradient", {"x": indices, "g": normal(301, 1, 7, 131)}, {"rows": 501}


def normalizations() -> Iterator[Case]:
    x, g = normal(*PLANES) + 1, normal(*PLANES)
    made = {name: np.abs(normal(1, 7, 1, 1)) + 0.1 for name in ("mean", "variance", "gamma", "beta", "dgamma", "dbeta")}

    def chosen(*names: str) -> dict[str, Array]:
        return {"x": x, "g": g} | {name: made[name] for name in names}

    options = {"axis": 1, "epsilon": 1e-3}
    yield "batch_statistics", {"x": x}, {"axis": 1}
    forward = chosen("mean", "variance", "gamma", "beta")
    del forward["g"]
    yield "batch_normalize", forward, options
    yield "batch_normalize_sums", chosen("mean", "variance"), options
    yield "batch_normalize_derivative", chosen("mean", "variance", "gamma", "dgamma", "dbeta"), options

    mean, inverse = normal(33, 7, 1, 1), np.abs(normal(33, 7, 1, 1)) + 0.1
    gamma, beta = normal(1, 1, 31, 37), normal(1, 1, 31, 37) + 1
    axes = {"axes": (2, 3)}
    yield "layer_statistics", {"x": x}, axes | {"epsilon": 1e-3}
    yield "layer_normalize", {"x": x, "mean": mean, "inverse": inverse, "gamma": gamma, "beta": beta}, axes
    yield "layer_normalize_derivative", {"x": x, "g": g, "mean": mean, "inverse": inverse, "gamma": gamma}, axes

    inverse, gamma = np.abs(normal(33, 7, 31, 1)), normal(1, 1, 1, 37)
    yield "rms_statistics", {"x": x}, {"epsilon": 1e-3}
    yield "rms_normalize", {"x": x, "inverse": inverse, "gamma": gamma}, {}
    yield "rms_normalize_derivative", {"x": x, "g": g, "inverse": inverse, "gamma": gamma}, {}


def pools() -> Iterator[Case]:
    for shape, kernel in ((PLANES, (3, 2)), ((37, 8, 32, 32), (2, 2))):
        x, window = normal(*shape), {"kernel": kernel, "stride": (2, 2), "padding": (0, 0, 0, 0)}
        yield "average_pool", {"x": x}, window
        for keep in (False, True):
            yield "max_pool", {"x": x}, window | {"keep": keep}
        g = normal(*kind("average_pool").outputs({"x": value("x", x)}, window)["out"].shape)
        places = np.random.default_rng(0).integers(0, kernel[0] * kernel[1], g.shape).astype(np.uint8)
        yield "average_pool_derivative", {"g": g}, window | {"size": shape[2:]}
        yield "max_pool_derivative", {"g": g, "places": places}, window | {"size": shape[2:]}


def updates() -> Iterator[Case]:
    numbers = {
        "sgd": {}, "momentum": {"momentum": 0.9, "nesterov": True}, "rmsprop": {"rho": 0.9, "epsilon": 1e-7},
        "adam": {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7, "weight_decay": 0.01, "torch_ref": True},
        "adagrad": {"epsilon": 1e-7}, "lion": {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.01},
    }  # fmt: skip
    for name, attributes in numbers.items():
        state = {word: np.abs(normal(1, 1, 1, SIZE)) for word in kind(name).modifies}
        weight, gradient = normal(1, 1, 1, SIZE), normal(1, 1, 1, SIZE)[..., ::-1].copy()
        yield name, {**state, "weight": weight, "gradient": gradient}, {"decay": 0.01, **attributes}


def value(name: str, array: Array) -> Value:
    return Value(name, array.shape, Role.ACTIVATION, array.dtype.name)


def result(case: Case, threads: int, shared: list[int]) -> bytes:
    """What one kind makes with ``threads`` threads; the number of parts, the last argument, goes to ``shared``."""
    name, reads, attributes = case
    declared, state = kind(name), StepState()
    state.numbers[:3], state.counters[:3] = (0.01, 37, 2), (5, 6, 7)
    inputs = {word: value(word, array) for word, array in reads.items()}
    fresh = {word: array.copy() for word, array in reads.items()}
    writes = {
        word: fresh[word] if word in fresh else np.full(spec.shape, 77, spec.dtype)
        for word, spec in declared.outputs(inputs, attributes).items()
    }
    made = {word: value(word, array) for word, array in writes.items()}
    operation = Operation(declared, inputs, made, attributes, Phase.FORWARD)
    scratch = np.zeros(declared.scratch(operation, threads), np.uint8)
    before = pool.set_threads(threads)
    try:
        function, arguments = declared.bind(operation, fresh | writes, Run(state, threads, scratch))
        function(*arguments)
    finally:
        pool.set_threads(before)
    shared.append(arguments[-1])
    return b"".join(writes[word].tobytes() for word in sorted(writes))


@pytest.mark.parametrize("family", [element_wise, rows, sums, normalizations, pools, updates])
def test_no_bit_depends_on_the_number_of_threads(family: Callable[[], Iterator[Case]]) -> None:
    for case in family():
        parts: list[int] = []
        counts = range(1, min(3, pool.limit()) + 1)
        results = [result(case, threads, parts) for threads in counts]
        assert len(set(results)) == 1, (case[0], case[2])
        assert len(set(results[0])) > 1 or case[0] == "zeros"
        assert parts[0] == 1, case[0]
        assert all(count > 1 for count in parts[1:]), case[0]  # else nothing was compared
