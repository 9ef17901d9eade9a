"""Nearest class mean: the distances are pure, the moving means a side effect of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register


def _rows(array: Array) -> Array:
    return array.reshape(array.shape[0], -1)


class CentroidDistance(OperationKind):
    """``-||x - map[k]||`` for every class k; the smallest normal float32 where ``num_samples[k]`` is 0."""

    name = "centroid_distance"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec((reads["x"].shape[0], 1, 1, reads["num_samples"].size))}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import neighbours as kernels

        counts = arrays["num_samples"].reshape(-1)
        means = arrays["map"].reshape(counts.size, -1)
        return kernels.centroid_distance.function, (_rows(arrays["x"]), means, counts, _rows(arrays["out"]))


class CentroidUpdate(OperationKind):
    """Move the mean of every sample's class; once a step, never recomputed."""

    name = "centroid_update"
    pure = False
    modifies = ("map", "num_samples")

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {name: Spec(reads[name].shape) for name in self.modifies}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import neighbours as kernels

        counts = arrays["num_samples"].reshape(-1)
        means = arrays["map"].reshape(counts.size, -1)
        return kernels.centroid_update.function, (_rows(arrays["x"]), _rows(arrays["label"]), means, counts)


for _kind in (CentroidDistance(), CentroidUpdate()):
    register(_kind)
