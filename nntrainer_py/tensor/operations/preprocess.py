"""Scaling and random changes of input samples; none passes a derivative back.

The random ones draw by counters (see tensor/rng.py): a sample's change depends on key, step and its index in the
logical batch, so a recomputed forward pass makes the same one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register


class _Same(OperationKind):
    """Output shaped as ``x``."""

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(reads["x"].shape)}


def _rows(array: Array) -> Array:
    return array.reshape(array.shape[0], -1)


class NormalizeBatch(_Same):
    """``(x - min) / (max - min)``, minimum and maximum over the whole batch; 0 when they are equal."""

    name = "normalize_batch"
    in_place = (("out", "x"),)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import preprocess as kernels

        return kernels.normalize_batch.function, (arrays["x"].reshape(-1), arrays["out"].reshape(-1))


class StandardizeSample(_Same):
    """Per sample ``(x - mean) / (||x - mean|| / features)``, no standard deviation; 0 for a constant sample."""

    name = "standardize_sample"
    in_place = (("out", "x"),)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import preprocess as kernels

        return kernels.standardize_sample.function, (_rows(arrays["x"]), _rows(arrays["out"]))


class UnitLength(_Same):
    """Per sample ``x / (||x|| + epsilon)``."""

    name = "unit_length"
    in_place = (("out", "x"),)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import preprocess as kernels

        epsilon = float(operation.attributes["epsilon"])
        return kernels.unit_length.function, (_rows(arrays["x"]), epsilon, _rows(arrays["out"]))


class Flip(_Same):
    """Mirror samples at random: attributes ``key``, ``draw``, ``across`` and ``down`` (which directions may happen)."""

    name = "flip"
    random = True

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import preprocess as kernels

        a = operation.attributes
        return kernels.flip.function, (
            np.uint64(a["key"]), run.state.counters, int(a["draw"]), bool(a["across"]), bool(a["down"]),
            arrays["x"], arrays["out"],
        )  # fmt: skip


class Translate(_Same):
    """Shift samples at random by up to ``share`` of their size; attributes ``key``, ``draw``, ``share``."""

    name = "translate"
    random = True

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import preprocess as kernels

        a = operation.attributes
        return kernels.translate.function, (
            np.uint64(a["key"]), run.state.counters, int(a["draw"]), float(a["share"]), arrays["x"], arrays["out"],
        )  # fmt: skip


for _kind in (NormalizeBatch(), StandardizeSample(), UnitLength(), Flip(), Translate()):
    register(_kind)
