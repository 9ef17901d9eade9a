"""Matrix products: ``matmul`` and the gradient of its weight."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register

_GFLOPS = 60.0  # floating-point operations per nanosecond, for estimates of cost (see convolution.py)


def _flops(batch: int, m: int, k: int, n: int) -> float:
    return 2.0 * batch * m * k * n


def _parts(flops: float, threads: int) -> int:
    from nntrainer_py.tensor.kernels.matmul import PARALLEL_FLOPS

    return threads if threads > 1 and flops >= PARALLEL_FLOPS else 1


class _Product(OperationKind):
    """What the two kinds share: the sizes of ``C[batch, m, n] = A[batch, m, k] B[batch or 1, k, n]`` and the call."""

    def sizes(self, operation: Operation) -> tuple[int, int, int, int]:
        raise NotImplementedError

    def scratch(self, operation: Operation, threads: int) -> int:
        from nntrainer_py.tensor.kernels.matmul import matmul_scratch

        _, _, k, n = sizes = self.sizes(operation)
        return matmul_scratch(k, n, _parts(_flops(*sizes), threads))

    def cost(self, operation: Operation) -> float:
        return max(_flops(*self.sizes(operation)) / _GFLOPS, super().cost(operation))

    def call(
        self, operation: Operation, a: Array, b: Array, c: Array, bias: Array | None, run: Run, flags: tuple[bool, bool]
    ) -> Call:
        from nntrainer_py.tensor.kernels import matmul as kernels

        parts = _parts(_flops(*self.sizes(operation)), run.threads)
        added = np.empty(0, np.float32) if bias is None else bias.reshape(-1)
        relu = int(operation.attributes.get("activation") == "relu")
        rate = np.empty(0, np.float64)
        scratch = run.scratch.view(np.float32)
        arguments = (
            a,
            int(flags[0]),
            b,
            int(flags[1]),
            added,
            c,
            rate,
            int(operation.accumulate),
            relu,
            scratch,
            parts,
        )
        return kernels.matmul.function, arguments


class Matmul(_Product):
    """``out = op(a) @ op(b) (+ bias)`` on the last two axes; ``transpose_a`` and ``transpose_b`` exchange theirs.

    ``b`` either has the leading axes of ``a`` or holds one matrix, used for all; ``bias`` has one element per column.
    ``activation="relu"`` rectifies the result in the same pass (for fusion). May add to a target (without bias).
    A row of the result depends on its own row of ``a`` only, bit by bit, whatever stands beside it.
    """

    name = "matmul"
    accumulates = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        a, b = reads["a"].shape, reads["b"].shape
        m, k = (a[-1], a[-2]) if attributes.get("transpose_a") else (a[-2], a[-1])
        inner, n = (b[-1], b[-2]) if attributes.get("transpose_b") else (b[-2], b[-1])
        if k != inner:
            raise ValueError(f"matmul: the inner sizes of {a} and {b} differ: {k} and {inner}")
        if k == 0:
            raise ValueError(f"matmul: there is nothing to add up, the inner size of {a} and {b} is 0")
        if math.prod(b[:-2]) != 1 and math.prod(b[:-2]) != math.prod(a[:-2]):
            raise ValueError(f"matmul: the leading axes of {b} fit neither {a} nor one matrix")
        if "bias" in reads and reads["bias"].size != n:
            raise ValueError(f"matmul: a bias of {reads['bias'].size} elements for {n} columns")
        if attributes.get("activation") not in (None, "relu"):
            raise ValueError(f"matmul: no fused activation {attributes['activation']!r}")
        return {"out": Spec((*a[:-2], m, n))}

    def sizes(self, operation: Operation) -> tuple[int, int, int, int]:
        a, b = operation.reads["a"].shape, operation.reads["b"].shape
        transposed = bool(operation.attributes.get("transpose_a"))
        m, k = (a[-1], a[-2]) if transposed else (a[-2], a[-1])
        n = b[-2] if operation.attributes.get("transpose_b") else b[-1]
        batch = math.prod(a[:-2])
        if math.prod(b[:-2]) == 1 and not transposed:  # one matrix for all: the leading axes are just more rows
            batch, m = 1, batch * m
        return batch, m, k, n

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        batch, m, k, n = self.sizes(operation)
        flags = bool(operation.attributes.get("transpose_a")), bool(operation.attributes.get("transpose_b"))
        a = arrays["a"].reshape(batch, k, m) if flags[0] else arrays["a"].reshape(batch, m, k)
        b = arrays["b"].reshape(-1, n, k) if flags[1] else arrays["b"].reshape(-1, k, n)
        return self.call(operation, a, b, arrays["out"].reshape(batch, m, n), arrays.get("bias"), run, flags)


class MatmulGradient(_Product):
    """``out[K, N] (+)= sum over all rows of x[..., K]^T g[..., N]``: the gradient of the weight of ``x @ weight``."""

    name = "matmul_gradient"
    accumulates = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        x, g = reads["x"].shape, reads["g"].shape
        if x[:-1] != g[:-1]:
            raise ValueError(f"matmul_gradient: the rows of {x} and {g} differ")
        if 0 in x[:-1]:
            raise ValueError(f"matmul_gradient: there is nothing to add up, {x} has no rows")
        return {"out": Spec((1, 1, x[-1], g[-1]))}

    def sizes(self, operation: Operation) -> tuple[int, int, int, int]:
        x, g = operation.reads["x"].shape, operation.reads["g"].shape
        return 1, x[-1], math.prod(x[:-1]), g[-1]

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        _, k, rows, n = self.sizes(operation)
        x, g = arrays["x"].reshape(1, rows, k), arrays["g"].reshape(1, rows, n)
        return self.call(operation, x, g, arrays["out"].reshape(1, k, n), None, run, (True, False))


register(Matmul())
register(MatmulGradient())
