"""Layer normalization (Ba, Kiros, Hinton, 2016) over any axes of a sample; rms normalization (Zhang, Sennrich, 2019).

Of the statistics only the mean and the inverse deviation are kept, one of each per normalised group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register

_PARALLEL_BYTES = 1 << 19  # below it one thread is as fast


def folded(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int, int]:
    """``(outer, a, inner, b)`` with the normalised axes in ``a`` and ``b``."""
    n, c, h, w = shape
    return {
        (1,): (n, c, h * w, 1),
        (2,): (n * c, h, w, 1),
        (3,): (n * c * h, 1, 1, w),
        (1, 2): (n, c * h, w, 1),
        (1, 3): (n, c, h, w),
        (2, 3): (n * c, 1, 1, h * w),
        (1, 2, 3): (n, 1, 1, c * h * w),
    }[axes]


def scale_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of gamma: the input's on the normalised axes, 1 elsewhere."""
    return tuple(size if axis in axes else 1 for axis, size in enumerate(shape))


def statistics_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the mean: the input's on the other axes."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape))


class _Normalization(OperationKind):
    """Attribute ``axes``: sorted, out of 1, 2, 3."""

    def views(self, operation: Operation, arrays: Mapping[str, Array]) -> dict[str, Array]:
        """Every operand in the shape that the kernels see."""
        outer, a, inner, b = sizes = folded(operation.reads["x"].shape, operation.attributes["axes"])
        shapes = dict.fromkeys(("x", "g", "out"), sizes)
        return {
            name: array.reshape(shapes.get(name, (outer, inner) if name in ("mean", "inverse") else (a, b)))
            for name, array in arrays.items()
        }

    def parts(self, operation: Operation, run: Run) -> int:
        x = operation.reads["x"]
        return 1 if x.nbytes < _PARALLEL_BYTES else min(run.threads, folded(x.shape, operation.attributes["axes"])[0])

    def check(self, reads: Mapping[str, Value], axes: tuple[int, ...]) -> None:
        shape = reads["x"].shape
        for name, expected in (
            ("gamma", scale_shape(shape, axes)), ("beta", scale_shape(shape, axes)),
            ("mean", statistics_shape(shape, axes)), ("inverse", statistics_shape(shape, axes)), ("g", shape),
        ):  # fmt: skip
            if name in reads and reads[name].size != math.prod(expected):
                raise ValueError(f"{self.name}: {name} is {reads[name].shape}, expected {expected}")


class LayerStatistics(_Normalization):
    """Mean and ``1 / sqrt(variance + epsilon)`` over ``axes`` (biased variance)."""

    name = "layer_statistics"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        shape = statistics_shape(reads["x"].shape, attributes["axes"])
        return {"mean": Spec(shape), "inverse": Spec(shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import layer_normalization as kernels

        v, parts = self.views(operation, arrays), self.parts(operation, run)
        epsilon = float(operation.attributes["epsilon"])
        return kernels.statistics.function, (v["x"], epsilon, v["mean"], v["inverse"], parts)


class LayerNormalize(_Normalization):
    """``gamma * (x - mean) * inverse + beta``."""

    name = "layer_normalize"
    elementwise = True
    in_place = (("out", "x"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        self.check(reads, attributes["axes"])
        return {"out": Spec(reads["x"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import layer_normalization as kernels

        v, parts = self.views(operation, arrays), self.parts(operation, run)
        return kernels.normalize.function, (v["x"], v["mean"], v["inverse"], v["gamma"], v["beta"], v["out"], parts)


class LayerNormalizeSums(_Normalization):
    """The gradients of gamma and beta."""

    name = "layer_normalize_sums"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        self.check(reads, attributes["axes"])
        shape = scale_shape(reads["x"].shape, attributes["axes"])
        shape = (1, *shape[1:])
        return {"dgamma": Spec(shape), "dbeta": Spec(shape)}

    def scratch(self, operation: Operation, threads: int) -> int:
        _, a, _, b = folded(operation.reads["x"].shape, operation.attributes["axes"])
        return 16 * a * b

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import layer_normalization as kernels

        v = self.views(operation, arrays)
        a, b = v["dgamma"].shape
        work = run.scratch.view(np.float64).reshape(2, a, b)
        return kernels.sums_part.function, (
            v["x"], v["g"], v["mean"], v["inverse"], v["dgamma"], v["dbeta"], work, 0, a,
        )  # fmt: skip


class LayerNormalizeDerivative(_Normalization):
    """The derivative by ``x`` through the statistics."""

    name = "layer_normalize_derivative"
    in_place = (("out", "g"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        self.check(reads, attributes["axes"])
        return {"out": Spec(reads["x"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import layer_normalization as kernels

        v, parts = self.views(operation, arrays), self.parts(operation, run)
        return kernels.derivative.function, (v["x"], v["g"], v["mean"], v["inverse"], v["gamma"], v["out"], parts)


def _rows(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])


def _split(name: str, arguments: tuple[Any, ...], run: Run) -> Call:
    """The kernel ``name`` over all rows of the first argument, in parts where there is enough to do."""
    from nntrainer_py.tensor.kernels import layer_normalization as kernels

    x = arguments[0]
    parts = 1 if x.nbytes < _PARALLEL_BYTES else min(run.threads, x.shape[0])
    return getattr(kernels, name).function, (*arguments, parts)


class RmsStatistics(OperationKind):
    """``1 / sqrt(mean(x^2) + epsilon)`` over the last axis."""

    name = "rms_statistics"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"inverse": Spec((*reads["x"].shape[:-1], 1))}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        epsilon = float(operation.attributes["epsilon"])
        return _split("root", (_rows(arrays["x"]), epsilon, arrays["inverse"].reshape(-1)), run)


class RmsNormalize(OperationKind):
    """``x * inverse * gamma``."""

    name = "rms_normalize"
    elementwise = True
    in_place = (("out", "x"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        if reads["gamma"].size != reads["x"].shape[-1]:
            raise ValueError(f"gamma has {reads['gamma'].size} values, the input's last axis {reads['x'].shape[-1]}")
        return {"out": Spec(reads["x"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        x, out = _rows(arrays["x"]), _rows(arrays["out"])
        return _split("scale", (x, arrays["inverse"].reshape(-1), arrays["gamma"].reshape(-1), out), run)


class RmsNormalizeGradient(OperationKind):
    """The gradient of gamma."""

    name = "rms_normalize_gradient"
    accumulates = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec((1, 1, 1, reads["x"].shape[-1]))}

    def scratch(self, operation: Operation, threads: int) -> int:
        return 8 * operation.reads["x"].shape[-1]

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import layer_normalization as kernels

        x, g, out = _rows(arrays["x"]), _rows(arrays["g"]), arrays["out"].reshape(-1)
        work, inverse = run.scratch.view(np.float64), arrays["inverse"].reshape(-1)
        return kernels.scale_gradient_part.function, (x, g, inverse, out, operation.accumulate, work, 0, out.size)


class RmsNormalizeDerivative(OperationKind):
    """The derivative by ``x`` through the root."""

    name = "rms_normalize_derivative"
    in_place = (("out", "g"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(reads["x"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        x, g, out = (_rows(arrays[name]) for name in ("x", "g", "out"))
        inverse, gamma = arrays["inverse"].reshape(-1), arrays["gamma"].reshape(-1)
        return _split("scale_derivative", (x, g, inverse, gamma, out), run)


for _kind in (
    LayerStatistics(), LayerNormalize(), LayerNormalizeSums(), LayerNormalizeDerivative(),
    RmsStatistics(), RmsNormalize(), RmsNormalizeGradient(), RmsNormalizeDerivative(),
):  # fmt: skip
    register(_kind)
