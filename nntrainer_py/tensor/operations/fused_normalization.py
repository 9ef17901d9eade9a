"""Batch normalization with the relu behind it: forward (with an addition between, if wanted), sums and derivative.

Put in by graph/fusion.py. The way back takes the mask of the relu from ``x`` again, with the forward formula, so that
the output need not be read. Channels are planes: more than one element stands together for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nntrainer_py.tensor.operations.normalization import (
    BatchNormalize,
    BatchNormalizeDerivative,
    BatchNormalizeSums,
    channel_parts,
    folded,
)
from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register

_PARAMETERS = ("mean", "variance", "gamma", "beta")


def _bound(operation: Operation, arrays: Mapping[str, Array], *names: str) -> tuple[Any, ...]:
    """The arrays by name, planes folded, parameters flat, and epsilon."""
    axis = operation.attributes["axis"]
    planes = tuple(folded(arrays[name], axis) for name in names)
    flat = tuple(arrays[name].reshape(-1) for name in _PARAMETERS)
    return (*planes, *flat, float(operation.attributes["epsilon"]))


class BatchNormalizeRelu(OperationKind):
    """``max(gamma * (x - mean) / sqrt(variance + epsilon) + beta (+ addend), 0)``; NaN stays NaN."""

    name = "batch_normalize_relu"
    elementwise = True
    in_place = (("out", "x"), ("out", "addend"))

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        if "addend" in reads and reads["addend"].shape != reads["x"].shape:
            raise ValueError(f"addition of {reads['addend'].shape} to {reads['x'].shape}")
        return BatchNormalize().outputs(reads, attributes)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import fused_normalization as kernels

        x, *parameters = _bound(operation, arrays, "x")
        axis = operation.attributes["axis"]
        addend = folded(arrays["addend"], axis) if "addend" in arrays else x[:0]
        arguments = (x, addend, *parameters, folded(arrays["out"], axis), channel_parts(operation, run))
        return kernels.normalize_relu.function, arguments


class BatchNormalizeReluSums(OperationKind):
    """The gradients of gamma and beta from the gradient ``g`` of what the relu made."""

    name = "batch_normalize_relu_sums"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return BatchNormalizeSums().outputs(reads, attributes)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import fused_normalization as kernels

        arguments = _bound(operation, arrays, "x", "g")
        made = (arrays["dgamma"].reshape(-1), arrays["dbeta"].reshape(-1))
        return kernels.relu_sums.function, (*arguments, *made, channel_parts(operation, run))


class BatchNormalizeReluDerivative(OperationKind):
    """The derivative by ``x`` from the gradient ``g`` of what the relu made, and the sums."""

    name = "batch_normalize_relu_derivative"
    in_place = (("out", "g"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return BatchNormalizeDerivative().outputs(reads, attributes)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import fused_normalization as kernels

        arguments = _bound(operation, arrays, "x", "g")
        sums = (arrays["dgamma"].reshape(-1), arrays["dbeta"].reshape(-1))
        out = folded(arrays["out"], operation.attributes["axis"])
        return kernels.relu_derivative.function, (*arguments, *sums, out, channel_parts(operation, run))


for _kind in (BatchNormalizeRelu(), BatchNormalizeReluSums(), BatchNormalizeReluDerivative()):
    register(_kind)
