"""The gradient of a recurrent matrix from hidden states and the derivatives that the ways back through time left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register
from nntrainer_py.tensor.operations.recurrent import GFLOPS, PARALLEL_FLOPS, steps_of


class RecurrentGradient(OperationKind):
    """``out[u, G] (+)= sum over n and t of hidden[n, t - shift]^T g[n, t]``: the gradient of a recurrent matrix.

    ``shift`` 1: the step before, -1: the step after, 0: the operand holds the state before each step. ``inner``
    replaces the last u columns: with ``reset_after`` it is their derivative (in place of that part of ``g``), else
    it is the state that they are multiplied with (in place of ``hidden``, not shifted).
    """

    name = "recurrent_gradient"
    accumulates = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        hidden, g = reads["hidden"].shape, reads["g"].shape
        if hidden[:3] != g[:3] or hidden[1] != 1:
            raise ValueError(f"recurrent_gradient: states {hidden} and derivatives {g} do not belong together")
        if "inner" in reads and reads["inner"].shape != hidden:
            raise ValueError(f"recurrent_gradient: {reads['inner'].shape} inside of states {hidden}")
        if attributes["shift"] not in (-1, 0, 1):
            raise ValueError(f"recurrent_gradient: no shift {attributes['shift']}")
        return {"out": Spec((1, 1, hidden[3], g[3]))}

    def flops(self, operation: Operation) -> float:
        return 2.0 * operation.reads["g"].size * float(operation.reads["hidden"].shape[3])

    def cost(self, operation: Operation) -> float:
        return self.flops(operation) / GFLOPS + super().cost(operation)

    def _parts(self, operation: Operation, threads: int) -> int:
        return threads if self.flops(operation) >= PARALLEL_FLOPS else 1

    def scratch(self, operation: Operation, threads: int) -> int:
        from nntrainer_py.tensor.kernels.recurrent_gradient import scratch_floats

        return 4 * scratch_floats(self._parts(operation, threads))

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import recurrent_gradient as kernels

        hidden, g = steps_of(arrays["hidden"]), steps_of(arrays["g"])
        out = arrays["out"].reshape(hidden.shape[2], g.shape[2])
        shift, scratch = int(operation.attributes["shift"]), run.scratch.view(np.float32)
        parts, accumulate = self._parts(operation, run.threads), int(operation.accumulate)
        if "inner" not in arrays:
            return kernels.gradient.function, (hidden, g, 0, g.shape[2], out, shift, accumulate, scratch, parts)
        inner, columns = steps_of(arrays["inner"]), g.shape[2] - hidden.shape[2]
        after = bool(operation.attributes.get("reset_after"))
        other = (hidden, inner, 0, shift) if after else (inner, g, columns, 0)
        return kernels.gradient_of_two.function, (
            hidden, g, columns, *other, out, shift, accumulate, scratch, parts,
        )  # fmt: skip


register(RecurrentGradient())
