"""Scaled dot-product attention over any number of heads, and its derivative (Vaswani et al., 2017).

``q`` [N, 1, Tq, heads * dk], ``k`` [N, 1, Tk, heads * dk] and ``v`` [N, 1, Tk, heads * dv] hold the heads side by side.
Attributes: ``heads``, ``scale``; ``causal`` hides the keys behind position i from query i; ``rate`` and ``key`` drop
weights (as the kind dropout would those of [N, heads, Tq, Tk], draw 0); ``weights`` (``before`` or ``after`` the
dropout) makes them an output. A ``mask`` [N, heads or 1, Tq, Tk] is added to the scores; a query all of whose keys
are hidden by -infinity attends to nothing: its weights, its result and its derivatives are zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register
from nntrainer_py.tensor.rng import threshold_of

_PARALLEL_FLOPS = 2_000_000  # below it one thread is as fast
_GFLOPS = 20.0  # floating-point operations per nanosecond of one core, for estimates of cost
_EMPTY = np.empty(0, np.float32)


def _check(reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> None:
    q, k, v, heads = reads["q"].shape, reads["k"].shape, reads["v"].shape, attributes["heads"]
    if q[1] != 1 or k[1] != 1 or v[1] != 1 or not q[0] == k[0] == v[0]:
        raise ValueError(f"attention of {q} to {k} and {v}: they must have one channel and the same batch")
    if q[3] != k[3]:
        raise ValueError(f"attention: queries are {q[3]} wide, keys {k[3]}")
    if k[2] != v[2]:
        raise ValueError(f"attention: {k[2]} keys, {v[2]} values")
    if q[3] % heads or v[3] % heads:
        raise ValueError(f"attention: widths {q[3]} and {v[3]} are no multiples of {heads} heads")
    if "mask" in reads:
        mask = reads["mask"].shape
        if mask not in ((q[0], heads, q[2], k[2]), (q[0], 1, q[2], k[2])):
            raise ValueError(f"attention: a mask of {mask[1:]}, it must be {(heads, q[2], k[2])} or {(1, q[2], k[2])}")


def _scores(operation: Operation) -> tuple[int, int, int, int]:
    """(N, heads, Tq, Tk)."""
    q, k = operation.reads["q"].shape, operation.reads["k"].shape
    return q[0], operation.attributes["heads"], q[2], k[2]


def _flat(arrays: Mapping[str, Array], name: str) -> Array:
    found = arrays.get(name)
    return _EMPTY if found is None else found.reshape(-1)


def _steps(array: Array) -> Array:
    return array.reshape(array.shape[0], array.shape[2], array.shape[3])


class _Attention(OperationKind):
    """What both directions share; ``products`` is the number of matrix products."""

    random = True
    products = 2

    def flops(self, operation: Operation) -> float:
        n, _, queries, keys = _scores(operation)
        return (
            float(self.products) * n * queries * keys * (operation.reads["q"].shape[3] + operation.reads["v"].shape[3])
        )

    def cost(self, operation: Operation) -> float:
        return self.flops(operation) / _GFLOPS + super().cost(operation)

    def _parts(self, operation: Operation, threads: int) -> int:
        n, heads, _, _ = _scores(operation)
        return min(threads, n * heads) if threads > 1 and self.flops(operation) >= _PARALLEL_FLOPS else 1

    def floats(self, keys: int, key_width: int, value_width: int) -> int:
        raise NotImplementedError(self.name)

    def scratch(self, operation: Operation, threads: int) -> int:
        _, heads, _, keys = _scores(operation)
        widths = (operation.reads[name].shape[3] // heads for name in ("q", "v"))
        return 4 * self._parts(operation, threads) * self.floats(keys, *widths)

    def options(self, operation: Operation) -> NDArray[np.int64]:
        """The settings of a call as the kernels read them."""
        from nntrainer_py.tensor.kernels import attention as kernels
        from nntrainer_py.tensor.kernels.recurrent import KEY, LIMIT

        attributes = operation.attributes
        made = np.zeros(kernels.ALL_OPTIONS, np.int64)
        made[kernels.HEADS] = attributes["heads"]
        made[kernels.MASK_HEADS] = operation.reads["mask"].shape[1] if "mask" in operation.reads else 0
        made[kernels.CAUSAL] = bool(attributes.get("causal"))
        made[kernels.AFTER_DROPOUT] = attributes.get("weights") == "after"
        made[LIMIT] = -1
        if "rate" in attributes:
            made[LIMIT] = threshold_of(float(attributes["rate"]))
            made[KEY] = np.uint64(attributes["key"]).astype(np.int64)
        return made


class Attention(_Attention):
    """``out = softmax(q k^T scale + mask) v`` per head; also two numbers per row for the way back, and the weights."""

    name = "attention"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        _check(reads, attributes)
        n, _, queries, _ = reads["q"].shape
        heads, keys = attributes["heads"], reads["k"].shape[2]
        made = {"out": Spec((n, 1, queries, reads["v"].shape[3])), "statistics": Spec((n, heads, queries, 2))}
        if "weights" in attributes:
            made["weights"] = Spec((n, heads, queries, keys))
        return made

    def floats(self, keys: int, key_width: int, value_width: int) -> int:
        from nntrainer_py.tensor.kernels.attention import forward_floats

        return forward_floats(keys, key_width, value_width)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import attention as kernels

        q, k, v, out = (_steps(arrays[name]) for name in ("q", "k", "v", "out"))
        return kernels.forward.function, (
            q, k, v, _flat(arrays, "mask"), out, _flat(arrays, "statistics"), _flat(arrays, "weights"),
            self.options(operation), run.state.counters, float(operation.attributes["scale"]),
            run.scratch.view(np.float32), self._parts(operation, run.threads),
        )  # fmt: skip


class AttentionDerivative(_Attention):
    """Derivatives by q, k and v from ``g`` by the result and ``gw`` by the weights; ``mask_wanted``: by the mask,
    too.
    """

    name = "attention_derivative"
    products = 5
    in_place = (("dq", "q"), ("dk", "k"), ("dv", "v"))

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        _check(reads, attributes)
        made = {f"d{name}": Spec(reads[name].shape) for name in ("q", "k", "v")}
        if attributes.get("mask_wanted"):
            made["dmask"] = Spec((reads["q"].shape[0], attributes["heads"], reads["q"].shape[2], reads["k"].shape[2]))
        return made

    def aliases(self, operation: Operation) -> tuple[tuple[str, str], ...]:
        roots = [value.root for value in operation.reads.values()]
        return tuple(pair for pair in self.in_place if roots.count(operation.reads[pair[1]].root) == 1)

    def floats(self, keys: int, key_width: int, value_width: int) -> int:
        from nntrainer_py.tensor.kernels.attention import backward_floats

        return backward_floats(keys, key_width, value_width)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import attention as kernels

        q, k, v, g, dq, dk, dv = (_steps(arrays[name]) for name in ("q", "k", "v", "g", "dq", "dk", "dv"))
        return kernels.backward.function, (
            q, k, v, _flat(arrays, "mask"), _flat(arrays, "statistics"), g, _flat(arrays, "gw"), dq, dk, dv,
            _flat(arrays, "dmask"), self.options(operation), run.state.counters,
            float(operation.attributes["scale"]), run.scratch.view(np.float32), self._parts(operation, run.threads),
        )  # fmt: skip


register(Attention())
register(AttentionDerivative())
