"""Sums over axes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nntrainer_py.tensor.kernels import reduction
from nntrainer_py.tensor.kernels.reduction import COLUMNS
from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register

PARALLEL_SIZE = 1 << 17


class BiasGradient(OperationKind):
    """``out[k]`` = the sum of all elements of ``g`` whose index on ``axis`` is k: the gradient of a broadcast bias."""

    name = "bias_gradient"
    accumulates = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        g, axis = reads["g"], attributes["axis"]
        if not 0 <= axis < len(g.shape):
            raise ValueError(f"no axis {axis} in {g.shape}")
        return {"out": Spec((1,) * axis + (g.shape[axis],) + (1,) * (len(g.shape) - axis - 1))}

    def scratch(self, operation: Operation, threads: int) -> int:
        return 8 * int(operation.reads["g"].shape[operation.attributes["axis"]])

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        g, axis, out = arrays["g"], operation.attributes["axis"], arrays["out"].reshape(-1)
        outer, kept, inner = math.prod(g.shape[:axis]), g.shape[axis], math.prod(g.shape[axis + 1 :])
        threads = run.threads if g.size > PARALLEL_SIZE else 1
        if inner > 1:
            planes = g.reshape(outer, kept, inner)
            return reduction.sum_planes.function, (planes, out, operation.accumulate, min(threads, kept))
        columns, sums = g.reshape(outer, kept), run.scratch[: 8 * kept].view(np.float64)
        parts = min(threads, -(-kept // COLUMNS))
        return reduction.sum_columns.function, (columns, out, operation.accumulate, sums, parts)


register(BiasGradient())
