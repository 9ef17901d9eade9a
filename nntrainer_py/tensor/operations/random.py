"""dropout: zero a share of the elements, by counter-based random numbers (Srivastava et al., 2014)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register
from nntrainer_py.tensor.rng import threshold_of


class Dropout(OperationKind):
    """``out = x * scale`` where kept, 0 where dropped; the way back is the same operation on the derivative.

    Attributes: ``key`` (of seed and layer), ``draw``, ``rate``. The bits of an element depend on key, step, index of
    the sample in the logical batch, draw and element, so forward, backward and a recomputed forward agree.
    """

    name = "dropout"
    random = True
    elementwise = True
    in_place = (("out", "x"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(reads["x"].shape)}

    def cost(self, operation: Operation) -> float:
        return 2.0 * operation.reads["x"].size  # about 2 ns an element for the ten rounds

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import random as kernels

        rate = float(operation.attributes["rate"])
        scale = 0.0 if rate >= 1.0 else 1.0 / (1.0 - rate)
        x = arrays["x"].reshape(arrays["x"].shape[0], -1)
        out = arrays["out"].reshape(x.shape)
        arguments = (
            np.uint64(operation.attributes["key"]), run.state.counters, int(operation.attributes["draw"]),
            threshold_of(rate), scale, x, out, run.threads if x.size >= kernels.PARALLEL_ELEMENTS else 1,
        )  # fmt: skip
        return kernels.dropout.function, arguments


register(Dropout())
