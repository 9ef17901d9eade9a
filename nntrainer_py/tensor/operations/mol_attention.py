"""Scores of attention by a mixture of logistic distributions (spec of mol_attention; Vasquez and Lewis, 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register

_EMPTY = np.empty(0, np.float32)


def _check(reads: Mapping[str, Value]) -> tuple[int, int]:
    """(N, K)."""
    n, count = reads["state"].shape[0], reads["state"].shape[3]
    if reads["p"].size != 3 * n * count or reads["state"].size != n * count:
        raise ValueError(f"mol_scores: {reads['p'].shape} is no mixture for a state of {reads['state'].shape}")
    if "length" in reads and reads["length"].size != n:
        raise ValueError(f"mol_scores: lengths of {reads['length'].shape} for {n} samples")
    return n, count


def _rows(arrays: Mapping[str, Array], *names: str) -> list[Array]:
    return [arrays[name].reshape(arrays[name].shape[0], -1) for name in names]


def _flat(arrays: Mapping[str, Array], name: str) -> Array:
    found = arrays.get(name)
    return _EMPTY if found is None else found.reshape(-1)


class _Mixture(OperationKind):
    def scratch(self, operation: Operation, threads: int) -> int:
        return 4 * operation.reads["state"].shape[3]

    def cost(self, operation: Operation) -> float:
        steps = (operation.writes | operation.reads)["g" if "g" in operation.reads else "out"].size
        return 30.0 * steps * operation.reads["state"].shape[3]


class MolScores(_Mixture):
    """Scores [N, 1, 1, T] of ``steps`` T positions and the moved centres, from ``p`` [N, 1, 1, 3K] and the state.

    kappa, beta = exp of the first two thirds of ``p``, alpha = softmax of the last; ``moved = state + kappa``;
    ``out_u = sum_k alpha (sigmoid((u + 0.5 - moved) / (beta + 1e-8)) - sigmoid((u - 0.5 - moved) / (beta + 1e-8)))``
    for u from 1 to T, zero where u is beyond ``length``.
    """

    name = "mol_scores"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        n, _ = _check(reads)
        return {"out": Spec((n, 1, 1, attributes["steps"])), "moved": Spec(reads["state"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import mol_attention as kernels

        p, state, out, moved = _rows(arrays, "p", "state", "out", "moved")
        return kernels.scores.function, (p, state, _flat(arrays, "length"), out, moved, run.scratch.view(np.float32))


class MolScoresDerivative(_Mixture):
    """Derivatives by ``p`` and the state from ``g`` by the scores and ``gmoved`` by the moved centres."""

    name = "mol_scores_derivative"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        _check(reads)
        return {"dp": Spec(reads["p"].shape), "dstate": Spec(reads["state"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import mol_attention as kernels

        p, state, g, dp, dstate = _rows(arrays, "p", "state", "g", "dp", "dstate")
        return kernels.derivative.function, (
            p, state, _flat(arrays, "length"), g, _flat(arrays, "gmoved"), dp, dstate, run.scratch.view(np.float32),
        )  # fmt: skip


register(MolScores())
register(MolScoresDerivative())
