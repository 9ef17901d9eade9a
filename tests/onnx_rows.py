"""Operations to write as ONNX, one by one: a `Row` is an operation kind, its operands and attributes; odd shapes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from reference import Interpreter
from reference.elementwise import FUNCTIONS

from nntrainer_py.tensor.operations import catalogue
from nntrainer_py.tensor.operations.elementwise import FROM_INPUT, FROM_OUTPUT
from nntrainer_py.tensor.operations.record import Role, StepState, Value

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
_RNG = np.random.default_rng(5)


def normal(*shape: int) -> Array:
    return _RNG.standard_normal(shape)


def positive(*shape: int) -> Array:
    return _RNG.random(shape) + 0.25


def whole(high: int, *shape: int) -> Array:
    return _RNG.integers(0, high, shape).astype(float)


def shares(*shape: int) -> Array:
    """Rows that sum to 1."""
    made = _RNG.random(shape) + 0.05
    return made / made.sum(-1, keepdims=True)


def chosen(*shape: int) -> Array:
    """One 1 in each row."""
    return np.eye(shape[-1])[_RNG.integers(0, shape[-1], shape[:-1])]


@dataclass
class Row:
    """One operation: its operands (arrays) and attributes. ``adds``: it adds to what is there."""

    kind: str
    reads: Mapping[str, Array]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    adds: bool = False
    exact: bool = False
    types: Mapping[str, str] = field(default_factory=dict)
    tolerance: float = 1e-5
    least: float = 1e-3  # errors are judged beside the largest number, or beside this where that is more

    @property
    def id(self) -> str:
        shown = "-".join(f"{value}" for value in self.attributes.values() if isinstance(value, str))
        return "-".join(part for part in (self.kind, shown, "adds" if self.adds else "") if part)


def _functions() -> list[Row]:
    rows, far = [], np.array([[[[-60.0, -3.5, -0.01, 0.02, 5.5, 40.0, 88.0]]]])
    for name in sorted(FROM_OUTPUT | FROM_INPUT):
        rows += [Row("activation", {"x": x}, {"function": name}) for x in (normal(3, 2, 5, 7) * 3, far)]
        operand = {"x": normal(3, 2, 5, 7) * 3}
        if name in FROM_OUTPUT:
            operand = {"y": FUNCTIONS[name](operand["x"])}
        rows.append(Row("activation_derivative", {"g": normal(3, 2, 5, 7), **operand}, {"function": name}))
    return rows


def _convolutions() -> list[Row]:
    """Shapes that leave cells over, padding on one side, groups, dilation."""
    rows = []
    for x, w, stride, padding, dilation, groups in (
        ((3, 2, 7, 9), (5, 2, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
        ((2, 4, 8, 11), (6, 2, 3, 2), (2, 3), (1, 0, 0, 2), (1, 1), 2),
        ((1, 3, 9, 10), (3, 1, 2, 3), (1, 2), (0, 2, 1, 0), (2, 3), 3),
        ((2, 1, 10, 10), (2, 1, 3, 3), (4, 4), (0, 3, 0, 0), (1, 1), 1),
        ((2, 2, 11, 13), (4, 1, 2, 2), (3, 2), (1, 4, 2, 1), (2, 2), 2),
        ((2, 3, 1, 17), (4, 3, 1, 5), (1, 1), (0, 0, 4, 0), (1, 1), 1),
        ((1, 2, 5, 5), (3, 2, 5, 5), (1, 1), (0, 0, 0, 0), (1, 1), 1),
        ((2, 2, 4, 4), (3, 2, 1, 1), (3, 3), (0, 0, 0, 0), (1, 1), 1),
    ):
        a = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        size = [
            (x[2 + i] + padding[2 * i] + padding[2 * i + 1] - (w[2 + i] - 1) * dilation[i] - 1) // stride[i] + 1
            for i in (0, 1)
        ]
        g = (x[0], w[0], *size)
        rows += [
            Row("conv2d", {"x": normal(*x), "w": normal(*w)}, a),
            Row("conv2d", {"x": normal(*x), "w": normal(*w), "bias": normal(1, w[0], 1, 1)}, a),
            Row("conv2d_derivative", {"g": normal(*g), "w": normal(*w)}, {**a, "size": x[2:]}),
            Row("conv2d_gradient", {"x": normal(*x), "g": normal(*g)}, {**a, "kernel_size": w[2:]}),
        ]
    bias = {"g": normal(*g), "w": normal(*w), "bias": normal(1, x[1], 1, 1)}
    rows.append(Row("conv2d_derivative", bias, {**a, "size": x[2:]}))
    rows.append(Row("conv2d_gradient", {"x": normal(*x), "g": normal(*g)}, {**a, "kernel_size": w[2:]}, adds=True))
    return rows


def _poolings() -> list[Row]:
    rows = []
    for x, kernel, stride, padding in (
        ((2, 3, 6, 8), (2, 2), (2, 2), (0, 0, 0, 0)),
        ((3, 2, 7, 9), (3, 2), (2, 1), (1, 1, 1, 0)),
        ((1, 2, 9, 5), (2, 3), (3, 2), (0, 1, 2, 0)),
        ((2, 1, 5, 13), (2, 2), (4, 4), (0, 0, 0, 3)),
        ((2, 2, 7, 7), (7, 7), (1, 1), (0, 0, 0, 0)),
        ((1, 1, 20, 20), (17, 17), (1, 2), (0, 0, 0, 0)),
    ):
        a = {"kernel": kernel, "stride": stride, "padding": padding}
        count = [(x[2 + i] + padding[2 * i] + padding[2 * i + 1] - kernel[i]) // stride[i] + 1 for i in (0, 1)]
        g = (*x[:2], *count)
        array = normal(*x)
        places = catalogue.kind("max_pool").outputs(
            {"x": Value("x", x, Role.INPUT)}, {**a, "keep": True}
        )["places"].dtype  # fmt: skip
        machine = Interpreter().twins["max_pool"]({"x": array}, {**a, "keep": True}, StepState())
        rows += [
            Row("max_pool", {"x": array}, {**a, "keep": True}),
            Row("max_pool", {"x": -np.abs(array)}, {**a, "keep": False}),
            Row(
                "max_pool_derivative", {"g": normal(*g), "places": machine["places"]}, {**a, "size": x[2:]},
                types={"places": places},
            ),
            Row("average_pool", {"x": array}, a),
            Row("average_pool_derivative", {"g": normal(*g)}, {**a, "size": x[2:]}),
        ]  # fmt: skip
    steps = np.round(normal(2, 3, 4, 5))  # several cells with the largest value
    largest = steps.max((2, 3), keepdims=True)
    rows += [
        Row("max_pool", {"x": steps}, {"kernel": (2, 3), "stride": (1, 1), "padding": (0, 0, 0, 0), "keep": True}),
        Row("global_max", {"x": steps}),
        Row("global_max_derivative", {"x": steps, "y": largest, "g": normal(2, 3, 1, 1)}),
    ]
    return rows


def _normalizations() -> list[Row]:
    rows = []
    for shape, axis in (((5, 3, 4, 7), 1), ((7, 1, 1, 6), 3), ((4, 3, 1, 1), 1), ((6, 2, 5, 3), 2)):
        size = shape[axis]
        line = tuple(size if i == axis else 1 for i in range(4))
        x, a = normal(*shape) * 2 + 1, {"axis": axis, "epsilon": 1e-3}
        others = tuple(i for i in range(4) if i != axis)
        statistics = {"mean": x.mean(others).reshape(line), "variance": x.var(others).reshape(line)}
        affine = {"gamma": positive(*line), "beta": normal(*line)}
        operands = {"x": x, **statistics, **affine}
        g = normal(*shape)
        twins, state = Interpreter().twins, StepState()
        sums = twins["batch_normalize_sums"]({**operands, "g": g}, a, state)
        masked = twins["batch_normalize_relu_sums"]({**operands, "g": g}, a, state)
        shaped = [{name: made[name].reshape(line) for name in ("dgamma", "dbeta")} for made in (sums, masked)]
        rows += [
            Row("batch_statistics", {"x": x}, {"axis": axis}),
            Row("batch_normalize", operands, a),
            Row("batch_normalize_sums", {"x": x, "g": g, **statistics}, a),
            Row(
                "batch_normalize_derivative",
                {"x": x, "g": g, **statistics, "gamma": affine["gamma"], **shaped[0]}, a,
            ),
            Row("batch_normalize_relu", operands, a),
            Row("batch_normalize_relu", {**operands, "addend": normal(*shape)}, a),
            Row("batch_normalize_relu_sums", {**operands, "g": g}, a),
            Row("batch_normalize_relu_derivative", {**operands, "g": g, **shaped[1]}, a),
        ]  # fmt: skip
    rows.append(
        Row("running_update", {"running": positive(1, 3, 1, 1), "batch": normal(1, 3, 1, 1)}, {"momentum": 0.9})
    )
    for shape in ((3, 4, 5, 7), (2, 1, 1, 9)):
        for axes in ((3,), (1,), (1, 2, 3), (1, 3), (2,)):
            line = tuple(size if i in axes else 1 for i, size in enumerate(shape))
            x, g, a = normal(*shape), normal(*shape), {"axes": axes, "epsilon": 1e-3}
            operands = {
                "x": x, "mean": x.mean(axes, keepdims=True),
                "inverse": 1 / np.sqrt(x.var(axes, keepdims=True) + 1e-3),
            }  # fmt: skip
            rows += [
                Row("layer_statistics", {"x": x}, a),
                Row("layer_normalize", {**operands, "gamma": normal(*line), "beta": normal(*line)}, a),
                Row("layer_normalize_sums", {**operands, "g": g}, a),
                Row("layer_normalize_derivative", {**operands, "g": g, "gamma": normal(*line)}, a),
            ]
        root = {"x": x, "inverse": 1 / np.sqrt((x**2).mean(3, keepdims=True) + 1e-3)}
        gamma = normal(1, 1, 1, shape[3])
        rows += [
            Row("rms_statistics", {"x": x}, {"epsilon": 1e-3}),
            Row("rms_normalize", {**root, "gamma": gamma}),
            Row("rms_normalize_gradient", {**root, "g": g}),
            Row("rms_normalize_gradient", {**root, "g": g}, adds=True),
            Row("rms_normalize_derivative", {**root, "g": g, "gamma": gamma}),
        ]
    return rows


def _losses() -> list[Row]:
    rows, near = [], np.array([[[[0.0, -1e-3, 1e-3, 3.0]]]])
    far = np.array([[[[-40.0, 40.0, 1e4, -1e4, 3e38]]]])
    for shape in ((5, 1, 1, 7), (3, 2, 3, 5)):
        y, t = normal(*shape), normal(*shape)
        for name, parameter in (("mse", None), ("mae", None), ("huber", 0.7), ("hinge", None)):
            label = np.sign(t) if name == "hinge" else t
            a = {"weight": 0.75} | ({} if parameter is None else {"parameter": parameter})
            rows += [Row(name, {"y": y, "t": label}, a), Row(f"{name}_derivative", {"y": y, "t": label}, a)]
        rows.append(Row("hinge", {"y": y, "t": (t > 0) * 1.0}, {"weight": 1.0}))
        p, q = shares(*shape), shares(*shape)
        q[0, 0, 0, 0] = 0.0
        for name, operands, parameter in (
            ("kld", {"y": p, "t": q}, 1e-7),
            ("cosine_distance", {"y": y, "t": t}, 1e-8),
            ("cosine_distance", {"y": y * 0.1, "t": t}, 0.5),
        ):
            a = {"weight": 1.5, "parameter": parameter}
            rows += [Row(name, operands, a), Row(f"{name}_derivative", operands, a)]
        weights = tuple(positive(shape[-1]))
        index = whole(shape[-1], *shape[:-1], 1)
        for name, label, a in (
            ("cross_softmax", chosen(*shape), {}),
            ("cross_softmax", q, {"weight": 2.0, "smoothing": 0.1}),
            ("cross_softmax", index, {"indices": True, "class_weights": weights, "smoothing": 0.2}),
            ("cross_sigmoid", (normal(*shape) > 0) * 1.0, {}),
            ("cross_sigmoid", q, {"weight": 2.0, "smoothing": 0.1, "class_weights": weights}),
            ("cross_sigmoid", index, {"indices": True}),
            ("focal", chosen(*shape), {"gamma": 2.0, "class_weights": weights}),
            ("focal", index, {"indices": True, "gamma": 0.5}),
        ):
            a = {"weight": 1.0, **a}
            rows += [Row(name, {"x": y * 2, "t": label}, a), Row(f"{name}_derivative", {"p": p, "t": label}, a)]
    rows += [
        Row("cross_softmax", {"x": normal(2, 1, 1, 3) * 200, "t": chosen(2, 1, 1, 3)}, {"weight": 1.0}),
        Row("cross_sigmoid", {"x": normal(2, 1, 1, 3) * 200, "t": chosen(2, 1, 1, 3)}, {"weight": 1.0}),
        Row("cross_sigmoid", {"x": far, "t": (far < 0) * 1.0}, {"weight": 1.0}),
        *(Row("cross_sigmoid", {"x": x, "t": (x > 0) * 1.0}, {"weight": 1.0}) for x in (near, far, far[..., :2])),
        *(
            Row(
                kind,
                {"y": normal(3, 1, 1, 7) * size, "t": normal(3, 1, 1, 7)},
                {"weight": 1.5, "parameter": 1e-8},
                tolerance=1e-6,
                least=0.0,
            )
            for kind in ("cosine_distance", "cosine_distance_derivative")
            for size in (1e-5, 1e19, 1e22, 1e30)
        ),
        Row("constant_loss", {"y": normal(2, 1, 1, 3)}, {"weight": 0.3}),
        Row("constant_derivative", {}, {"shape": (2, 1, 3, 3), "weight": 0.3}),
        Row("l2_loss", {"x": normal(3, 2, 4, 5)}, {"constant": 0.01}),
        Row("count_correct", {"x": normal(9, 2, 1, 3), "t": normal(9, 2, 1, 3)}),
        Row("count_correct", {"x": normal(9, 1, 1, 3), "t": whole(3, 9, 1, 1, 1)}, {"indices": True}),
        Row("count_correct", {"x": normal(9, 1, 1, 1), "t": whole(2, 9, 1, 1, 1)}, {"threshold": True}),
        Row("regression_sums", {"y": normal(4, 1, 3, 3), "t": normal(4, 1, 3, 3)}),
    ]
    return rows


def _updates() -> list[Row]:
    shape = (1, 3, 5, 7)
    w, g, m, v = normal(*shape), normal(*shape), normal(*shape) * 0.1, positive(*shape)
    plain: dict[str, Array] = {"weight": w, "gradient": g.reshape(3, 1, 7, 5)}
    scale = {"scale": np.array([0.4])}
    betas = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-7}
    rows = []
    for extra, decay in (({}, {"decay": 0.0}), (scale, {"decay": 0.01})):
        both = {**plain, **extra}
        rows += [
            Row("sgd", both, decay),
            Row("momentum", {**both, "v": v}, {"momentum": 0.9, "nesterov": False, **decay}),
            Row("momentum", {**both, "v": v}, {"momentum": 0.9, "nesterov": True, **decay}),
            Row("adam", {**both, "m": m, "v": v}, {**betas, "weight_decay": 0.0, "torch_ref": True, **decay}),
            Row("adam", {**both, "m": m, "v": v}, {**betas, "weight_decay": 0.1, "torch_ref": False, **decay}),
            Row("rmsprop", {**both, "v": v}, {"rho": 0.9, "epsilon": 1e-7, **decay}),
            Row("adagrad", {**both, "v": v}, {"epsilon": 1e-7, **decay}),
            Row("lion", {**both, "m": m}, {"beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, **decay}),
            Row("lamb", {**both, "m": m, "v": v}, {**betas, "weight_decay": 0.1, **decay}),
        ]
    nothing = {"weight": w, "gradient": 0 * g, "m": 0 * m, "v": 0 * v}
    rows += [
        Row("lamb", nothing, {**betas, "weight_decay": 0.0}),
        Row("global_norm", {"x0": g, "x1": normal(1, 1, 1, 3)}),
        Row("clip_scale", {"norm": np.array([3.0])}, {"limit": 0.5}),
        Row("clip_scale", {"norm": np.array([3.0])}, {"limit": 3.5}),
        Row("matmul_descent", {"x": normal(3, 1, 2, 5), "g": normal(3, 1, 2, 4), "weight": normal(1, 1, 5, 4)}),
    ]
    for row in rows:
        row.types = {name: "float64" for name in ("scale", "norm") if name in row.reads}
    return rows


def _moves() -> list[Row]:
    a, b = normal(2, 3, 4, 5), normal(2, 3, 4, 5)
    index = whole(4, 2, 3, 6, 5)
    rows = [
        Row("bilinear", {"x": a}, {"scale": (2, 3)}),
        Row("bilinear", {"x": normal(1, 2, 1, 4)}, {"scale": (3, 1)}),
        Row("bilinear_derivative", {"g": normal(2, 3, 4, 9)}, {"scale": (2, 3)}),
        Row("add_n", {"x0": a, "x1": b, "x2": normal(2, 3, 4, 5)}),
        Row("zeros", {}, {"shape": (2, 1, 3, 4)}),
        Row("copy", {"x": a}, exact=True),
        Row("accumulate", {"x": a}, adds=True),
        Row("copy", {"x": a}, {"shape": (1, 1, 6, 20)}, adds=True),
        Row("softmax", {"x": normal(3, 2, 4, 7) * 5}),
        Row("softmax_derivative", {"y": shares(3, 2, 4, 7), "g": normal(3, 2, 4, 7)}),
        Row("concat", {"x0": a, "x1": normal(2, 1, 4, 5), "x2": b}, {"axis": 1}, exact=True),
        Row("concat", {"x0": a}, {"axis": 2}, exact=True),
        Row("slice", {"x": a}, {"axis": 2, "start": 1, "stop": 3}, exact=True),
        Row("slice", {"x": a}, {"axis": 3, "start": 0, "stop": 5}, exact=True),
        Row("slice_derivative", {"g": a}, {"axis": 3, "start": 2, "shape": (2, 3, 4, 9)}, exact=True),
        Row("slice_derivative", {"g": a}, {"axis": 1, "start": 0, "shape": (2, 3, 4, 5)}, exact=True),
        Row("permute", {"x": a}, {"direction": (3, 1, 2)}, exact=True),
        Row("embedding", {"x": whole(6, 3, 1, 1, 5) + 0.5, "table": normal(1, 1, 6, 4)}, exact=True),
        Row("embedding_gradient", {"x": whole(6, 3, 1, 1, 5), "g": normal(3, 1, 5, 4)}, {"rows": 6}),
        Row("embedding_gradient", {"x": whole(6, 3, 1, 1, 5), "g": normal(3, 1, 5, 4)}, {"rows": 6}, adds=True),
        Row("gather", {"x": a, "indices": index}, {"axis": 2}, exact=True),
        Row("gather", {"x": a, "indices": whole(5, 2, 1, 1, 3)}, {"axis": 3}, exact=True),
        Row("gather_derivative", {"g": normal(2, 3, 6, 5), "indices": index}, {"axis": 2, "shape": (2, 3, 4, 5)}),
        Row("gather_derivative", {"g": normal(2, 3, 4, 3), "indices": whole(5, 2, 1, 1, 3)},
            {"axis": 3, "shape": (2, 3, 4, 5)}),
        Row("reduce_sum", {"x": a}, {"axes": (1, 3)}),
        Row("reduce_sum", {"x": a}, {"axes": (2,), "factor": 0.25}, adds=True),
        Row("broadcast", {"x": normal(2, 1, 4, 1)}, {"shape": (2, 3, 4, 5), "factor": 0.2}),
        Row("broadcast", {"x": normal(2, 1, 4, 1)}, {"shape": (2, 3, 4, 5)}, exact=True),
        *(Row("bias_gradient", {"g": a}, {"axis": axis}, adds=axis == 3) for axis in (1, 3)),
        *(Row("binary", {"a": a, "b": positive(1, 3, 1, 5)}, {"function": name})
          for name in ("add", "subtract", "multiply", "divide")),
        Row("matmul", {"a": normal(3, 1, 4, 5), "b": normal(1, 1, 5, 2), "bias": normal(1, 1, 1, 2)}),
        Row("matmul", {"a": normal(3, 1, 4, 5), "b": normal(1, 1, 2, 5)}, {"transpose_b": True, "activation": "relu"}),
        Row("matmul", {"a": normal(2, 3, 5, 4), "b": normal(2, 3, 5, 2)}, {"transpose_a": True}),
        Row("matmul", {"a": normal(2, 3, 4, 5), "b": normal(2, 3, 5, 2)}),
        Row("matmul", {"a": normal(3, 1, 4, 5), "b": normal(1, 1, 5, 2)}, adds=True),
        Row("matmul_gradient", {"x": normal(3, 1, 2, 5), "g": normal(3, 1, 2, 4)}),
        Row("matmul_gradient", {"x": normal(3, 1, 2, 5), "g": normal(3, 1, 2, 4)}, adds=True),
    ]  # fmt: skip
    for name in ("sqrt", "sin", "cos", "tan", "negative", "square"):
        rows.append(Row("unary", {"x": positive(2, 3, 4, 5)}, {"function": name}))
    for name in ("sqrt", "sin", "cos", "tan"):
        operand = {"y" if name in ("sqrt", "tan") else "x": positive(2, 3, 4, 5)}
        rows.append(Row("unary_derivative", {"g": a, **operand}, {"function": name}))
    for exponent in (2.0, 0.5, -1.5, 3.0):
        x = positive(2, 3, 4, 5)
        rows.append(Row("unary", {"x": x}, {"function": "pow", "exponent": exponent}))
        rows.append(Row("unary_derivative", {"x": x, "g": a}, {"function": "pow", "exponent": exponent}))
    for name in ("FP16", "UINT4", "UINT8", "UINT16"):
        rows.append(Row("round_to", {"x": normal(2, 3, 4, 5) * 100}, {"type": name}))
    return rows


def _random() -> list[Row]:
    key, other = 0xFEDCBA9876543210, 0x0123456789ABCDEF
    x = normal(3, 2, 5, 7)
    return [
        *(Row("dropout", {"x": x}, {"key": key, "draw": 1, "rate": rate}) for rate in (0.3, 0.5, 1.0)),
        Row("dropout", {"x": normal(1, 1, 1, 1)}, {"key": other, "draw": 0, "rate": 0.01}),
        Row("dropout", {"x": normal(2, 1, 1, 4099)}, {"key": other, "draw": 70000, "rate": 0.9}),
        *(Row("flip", {"x": normal(9, 2, 3, 4)}, {"key": key, "draw": 2, "across": a, "down": b}, exact=True)
          for a, b in ((True, True), (True, False), (False, True))),
        Row("translate", {"x": normal(7, 2, 5, 9)}, {"key": key, "draw": 1, "share": 0.3}),
        Row("translate", {"x": normal(3, 1, 4, 3)}, {"key": other, "draw": 0, "share": 1.0}),
        Row("normalize_batch", {"x": x}),
        Row("normalize_batch", {"x": 0 * x + 2}),
        Row("standardize_sample", {"x": np.concatenate([x, 0 * x[:1] + 0.1])}),
        Row("unit_length", {"x": x}, {"epsilon": 1e-3}),
    ]  # fmt: skip


def _rows() -> list[Row]:
    makers: tuple[Callable[[], list[Row]], ...] = (
        _functions, _convolutions, _poolings, _normalizations, _losses, _updates, _moves, _random,
    )  # fmt: skip
    return [row for maker in makers for row in maker()]


ROWS = _rows()
