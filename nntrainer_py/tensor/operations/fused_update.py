"""Gradient descent on the weight of a matrix product in the product itself, without a gradient; see graph/fusion.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nntrainer_py.tensor.operations.matmul import MatmulGradient
from nntrainer_py.tensor.operations.record import Array, Call, Operation, Run, Spec, StepState, Value, register


class MatmulDescent(MatmulGradient):
    """``weight[K, N] -= rate * sum over all rows of x[..., K]^T g[..., N]``; the rate is that of the step state.

    The loss scale is taken to be 1.
    """

    name = "matmul_descent"
    pure = False
    accumulates = False
    modifies = ("weight",)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        weight = reads["weight"]
        made = super().outputs(reads, attributes)["out"]
        if weight.shape != made.shape:
            raise ValueError(f"matmul_descent: a weight of {weight.shape} for a gradient of {made.shape}")
        return {"weight": Spec(weight.shape, weight.dtype, weight.role)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        function, arguments = super().bind(operation, {**arrays, "out": arrays["weight"]}, run)
        made = list(arguments)
        # places of `rate` and `accumulate` among the arguments of the kernel
        made[6] = run.state.numbers[StepState.LEARNING_RATE : StepState.LEARNING_RATE + 1]
        made[7] = 1
        return function, tuple(made)


register(MatmulDescent())
