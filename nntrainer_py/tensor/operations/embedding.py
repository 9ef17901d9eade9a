"""Elements chosen by index: rows of an embedding table, and gather along any axis; the ways back add in a fixed order.

Indices are floats, truncated. One outside the table leaves a word in the step's status, which ends the step before
anything is updated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register

_PARALLEL_ELEMENTS = 1 << 17


class Embedding(OperationKind):
    """``out[n, 0, k] = table[x[n, 0, 0, k]]``: x (N, 1, 1, K), table (1, 1, rows, width), out (N, 1, K, width)."""

    name = "embedding"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        x, table = reads["x"].shape, reads["table"].shape
        return {"out": Spec((x[0], 1, x[3], table[3]))}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import embedding as kernels

        x, table = arrays["x"].reshape(arrays["x"].shape[0], -1), arrays["table"].reshape(arrays["table"].shape[2:])
        out = arrays["out"].reshape(*x.shape, -1)
        return kernels.lookup.function, (x, table, out, run.state.status, run.state.counters)


class EmbeddingGradient(OperationKind):
    """The gradient of a table of ``rows`` rows: every ``g`` added to the row of its index, in order."""

    name = "embedding_gradient"
    accumulates = True

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec((1, 1, attributes["rows"], reads["g"].shape[3]))}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import embedding as kernels

        x, out = arrays["x"].reshape(-1), arrays["out"].reshape(operation.attributes["rows"], -1)
        g, width = arrays["g"].reshape(x.size, -1), out.shape[1]
        large = g.size + out.size > _PARALLEL_ELEMENTS and width >= 16 * run.threads
        return kernels.scatter.function, (x, g, out, operation.accumulate, run.threads if large else 1)


def _steps(shape: tuple[int, ...], axis: int) -> tuple[tuple[int, ...], int]:
    """Strides of a contiguous array in elements, 0 for ``axis``; and that axis's stride."""
    strides = [int(np.prod(shape[i + 1 :])) for i in range(4)]
    step, strides[axis] = strides[axis], 0
    return tuple(strides), step


class Gather(OperationKind):
    """``x`` with ``axis`` indexed by ``indices``, whose other axes are those of ``x`` or 1 (the same for all)."""

    name = "gather"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        x, indices, axis = reads["x"].shape, reads["indices"].shape, attributes["axis"]
        for other in range(4):
            if other != axis and indices[other] not in (1, x[other]):
                raise ValueError(f"indices {indices} for {x}: expected 1 or {x[other]} on axis {other}")
        return {"out": Spec(tuple(indices[i] if i == axis else size for i, size in enumerate(x)))}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import embedding as kernels

        x, out, axis = arrays["x"], arrays["out"], operation.attributes["axis"]
        steps, step = _steps(x.shape, axis)
        indices = np.broadcast_to(arrays["indices"], out.shape)
        return kernels.gather.function, (
            x.reshape(-1), indices, steps, step, x.shape[axis], out, run.state.status, run.state.counters,
        )  # fmt: skip


class GatherDerivative(OperationKind):
    """The derivative by the data, of ``shape``; what several outputs took is added up."""

    name = "gather_derivative"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(tuple(attributes["shape"]))}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import embedding as kernels

        g, shape, axis = arrays["g"], operation.attributes["shape"], operation.attributes["axis"]
        steps, step = _steps(shape, axis)
        indices = np.broadcast_to(arrays["indices"], g.shape)
        return kernels.gather_derivative.function, (indices, steps, step, shape[axis], g, arrays["out"].reshape(-1))


for _kind in (Embedding(), EmbeddingGradient(), Gather(), GatherDerivative()):
    register(_kind)
