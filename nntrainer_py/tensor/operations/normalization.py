"""Batch normalization as four pure operations and one side effect.

Statistics, running update (the side effect), normalise, sums, derivative.

``axis`` is the axis that keeps its own statistics; all others are summed over.
Formulas: Ioffe and Szegedy, "Batch Normalization", 2015, with the biased variance in both places as NNTrainer has it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register

_PARALLEL_BYTES = 1 << 19  # below it one thread is as fast


def folded(array: Array, axis: int) -> Array:
    """As ``[outer, channel, inner]``."""
    shape = array.shape
    return array.reshape(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


def _statistics_shape(x: Value, axis: int) -> tuple[int, ...]:
    """The shape of gamma: 1 everywhere but on ``axis``."""
    return tuple(size if i == axis else 1 for i, size in enumerate(x.shape))


def _is_column(value: Value, axis: int) -> bool:
    return math.prod(value.shape[axis + 1 :]) == 1


def _work(operation: Operation) -> int:
    """Float64 work space of the column kernels, which need it; the others need none."""
    x, axis = operation.reads["x"], operation.attributes["axis"]
    return 16 * int(x.shape[axis]) if _is_column(x, axis) else 0


def channel_parts(operation: Operation, run: Run) -> int:
    """Channels are split; one part where there is little to do."""
    x, axis = operation.reads["x"], operation.attributes["axis"]
    return 1 if x.nbytes < _PARALLEL_BYTES else min(run.threads, int(x.shape[axis]))


def _check(reads: Mapping[str, Value], axis: int, names: tuple[str, ...]) -> None:
    size = reads["x"].shape[axis]
    for name in names:
        if reads[name].size != size:
            raise ValueError(f"{name} has {reads[name].size} values, axis {axis} of the input {size}")


class BatchStatistics(OperationKind):
    """Mean and biased variance of ``x`` along all axes but ``axis``."""

    name = "batch_statistics"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        shape = _statistics_shape(reads["x"], attributes["axis"])
        return {"mean": Spec(shape), "variance": Spec(shape)}

    def scratch(self, operation: Operation, threads: int) -> int:
        return _work(operation)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import normalization as kernels

        x = folded(arrays["x"], operation.attributes["axis"])
        mean, variance = arrays["mean"].reshape(-1), arrays["variance"].reshape(-1)
        if x.shape[2] == 1:
            work = run.scratch.view(np.float64).reshape(2, -1)
            return kernels.column_statistics_part.function, (x, mean, variance, work, 0, mean.size)
        parts = channel_parts(operation, run)
        return kernels.statistics.function, (x, mean, variance, parts)


class RunningUpdate(OperationKind):
    """``running = momentum * running + (1 - momentum) * batch``, once a step: a side effect, never recomputed."""

    name = "running_update"
    pure = False
    modifies = ("running",)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"running": Spec(reads["running"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import normalization as kernels

        return kernels.running_update.function, (
            arrays["running"].reshape(-1),
            arrays["batch"].reshape(-1),
            float(operation.attributes["momentum"]),
        )


class BatchNormalize(OperationKind):
    """``gamma * (x - mean) / sqrt(variance + epsilon) + beta``; pure, so it can be recomputed from ``x``."""

    name = "batch_normalize"
    elementwise = True
    in_place = (("out", "x"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        _check(reads, attributes["axis"], ("mean", "variance", "gamma", "beta"))
        return {"out": Spec(reads["x"].shape)}

    def scratch(self, operation: Operation, threads: int) -> int:
        return _work(operation)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import normalization as kernels

        axis, epsilon = operation.attributes["axis"], float(operation.attributes["epsilon"])
        x, out = folded(arrays["x"], axis), folded(arrays["out"], axis)
        mean, variance, gamma, beta = (arrays[n].reshape(-1) for n in ("mean", "variance", "gamma", "beta"))
        if x.shape[2] == 1:
            scale = run.scratch.view(np.float32)
            return kernels.column_normalize_part.function, (
                x, mean, variance, gamma, beta, epsilon, out, scale, 0, mean.size,
            )  # fmt: skip
        parts = channel_parts(operation, run)
        return kernels.normalize.function, (x, mean, variance, gamma, beta, epsilon, out, parts)


class BatchNormalizeSums(OperationKind):
    """The two sums of the way back, which are also the gradients of gamma and beta."""

    name = "batch_normalize_sums"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        _check(reads, attributes["axis"], ("mean", "variance"))
        shape = _statistics_shape(reads["x"], attributes["axis"])
        return {"dgamma": Spec(shape), "dbeta": Spec(shape)}

    def scratch(self, operation: Operation, threads: int) -> int:
        return _work(operation)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import normalization as kernels

        axis, epsilon = operation.attributes["axis"], float(operation.attributes["epsilon"])
        x, g = folded(arrays["x"], axis), folded(arrays["g"], axis)
        mean, variance, dgamma, dbeta = (arrays[n].reshape(-1) for n in ("mean", "variance", "dgamma", "dbeta"))
        if x.shape[2] == 1:
            work = run.scratch.view(np.float64).reshape(2, -1)
            return kernels.column_sums_part.function, (
                x, g, mean, variance, epsilon, dgamma, dbeta, work, 0, mean.size,
            )  # fmt: skip
        parts = channel_parts(operation, run)
        return kernels.sums.function, (x, g, mean, variance, epsilon, dgamma, dbeta, parts)


class BatchNormalizeDerivative(OperationKind):
    """The derivative by ``x`` through the batch statistics."""

    name = "batch_normalize_derivative"
    in_place = (("out", "g"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        _check(reads, attributes["axis"], ("mean", "variance", "gamma", "dgamma", "dbeta"))
        return {"out": Spec(reads["x"].shape)}

    def scratch(self, operation: Operation, threads: int) -> int:
        return _work(operation)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import normalization as kernels

        axis, epsilon = operation.attributes["axis"], float(operation.attributes["epsilon"])
        x, g, out = (folded(arrays[n], axis) for n in ("x", "g", "out"))
        mean, variance, gamma = (arrays[n].reshape(-1) for n in ("mean", "variance", "gamma"))
        dgamma, dbeta = arrays["dgamma"].reshape(-1), arrays["dbeta"].reshape(-1)
        if x.shape[2] == 1:
            work = run.scratch.view(np.float64).reshape(2, -1)
            return kernels.column_derivative_part.function, (
                x, g, mean, variance, gamma, dgamma, dbeta, epsilon, out, work, 0, mean.size,
            )  # fmt: skip
        parts = channel_parts(operation, run)
        return kernels.derivative.function, (x, g, mean, variance, gamma, dgamma, dbeta, epsilon, out, parts)


for _kind in (BatchStatistics(), RunningUpdate(), BatchNormalize(), BatchNormalizeSums(), BatchNormalizeDerivative()):
    register(_kind)
