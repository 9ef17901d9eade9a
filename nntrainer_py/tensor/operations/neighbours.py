"""Nearest class mean and nearest samples: the scores are pure, what training keeps is a side effect of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

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


class NeighbourVotes(OperationKind):
    """Share of every class among the ``neighbours`` nearest of the ``stored`` samples; zeros with none."""

    name = "neighbour_votes"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec((reads["x"].shape[0], 1, 1, int(attributes["num_class"])))}

    def scratch(self, operation: Operation, threads: int) -> int:
        # distances of one sample, and which of them were taken
        return 2 * 8 * operation.reads["classes"].size

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import neighbours as kernels

        classes = arrays["classes"].reshape(-1)
        samples = arrays["samples"].reshape(classes.size, -1)
        scratch = run.scratch.view(np.float64)[: 2 * classes.size].reshape(2, -1)
        wanted = int(operation.attributes["neighbours"])
        stored, out = arrays["stored"].reshape(-1), _rows(arrays["out"])
        return kernels.neighbour_votes.function, (_rows(arrays["x"]), samples, classes, stored, wanted, scratch, out)


class NeighbourStore(OperationKind):
    """Keep every sample of the batch that is not kept already; once a step, never recomputed."""

    name = "neighbour_store"
    pure = False
    modifies = ("samples", "classes", "stored")

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {name: Spec(reads[name].shape) for name in self.modifies}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import neighbours as kernels

        classes = arrays["classes"].reshape(-1)
        samples = arrays["samples"].reshape(classes.size, -1)
        stored = arrays["stored"].reshape(-1)
        return kernels.neighbour_store.function, (_rows(arrays["x"]), _rows(arrays["label"]), samples, classes, stored)


for _kind in (CentroidDistance(), CentroidUpdate(), NeighbourVotes(), NeighbourStore()):
    register(_kind)
