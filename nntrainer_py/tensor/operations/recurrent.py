"""Recurrent layers: one operation for all steps forward, one for the way back through time.

Sequences are [N, 1, T, features]. ``projection`` is ``x W + b`` for all steps, made by one matrix product
beforehand. The ways back write the derivatives by the arguments of the gates for all steps, from which matrix
products make the rest.

Attributes of all kinds: ``activation`` (of the hidden state), ``recurrent_activation`` (of the gates), ``reverse``
(the last step comes first) and, for dropout of the stored hidden state, ``rate`` and ``key``: a step sees the
dropped state of the one before, and the mask is drawn as the kind dropout does, with draw 1 for ``reverse`` and else 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.tensor.kernels import recurrent as shared
from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, Value, register
from nntrainer_py.tensor.rng import threshold_of

#: functions whose derivative is had from their result; only these are gate functions
FUNCTIONS = shared.FUNCTIONS
PARALLEL_FLOPS = 2_000_000  # below it one thread is as fast
GFLOPS = 30.0  # floating-point operations per nanosecond of one core, for estimates of cost
_EMPTY = np.empty(0, np.float32)


def _sequence(reads: Mapping[str, Value], name: str, gates: int) -> tuple[int, int, int]:
    """(N, T, units) of an operand that holds ``gates`` blocks per step."""
    n, channel, steps, width = reads[name].shape
    if channel != 1 or width % gates:
        raise ValueError(f"{name} of shape {reads[name].shape} holds no {gates} blocks per step")
    return n, steps, width // gates


def _check_functions(attributes: Mapping[str, Any]) -> None:
    for key in ("activation", "recurrent_activation"):
        if attributes.get(key, "none") not in FUNCTIONS:
            raise ValueError(f"{key}: {attributes[key]!r} is no gate function")


def _options(operation: Operation) -> NDArray[np.int64]:
    """The settings of a call as the kernels read them."""
    attributes = operation.attributes
    made = np.zeros(shared.OPTIONS, np.int64)
    made[shared.RECURRENT] = FUNCTIONS.index(attributes.get("recurrent_activation", "none"))
    made[shared.HIDDEN] = FUNCTIONS.index(attributes["activation"])
    made[shared.REVERSE] = bool(attributes.get("reverse"))
    made[shared.AFTER] = bool(attributes.get("reset_after"))
    made[shared.AT] = attributes.get("at", -1)
    made[shared.LIMIT] = -1
    if "rate" in attributes:
        made[shared.LIMIT] = threshold_of(float(attributes["rate"]))
        made[shared.KEY] = np.uint64(attributes["key"]).astype(np.int64)
    return made


def _scale(operation: Operation) -> float:
    rate = float(operation.attributes.get("rate", 0.0))
    return 0.0 if rate >= 1.0 else 1.0 / (1.0 - rate)


class _Recurrent(OperationKind):
    """What the kinds share. ``gates``: blocks of units per step; ``hidden_as``: an operand or write [N, 1, T,
    units].
    """

    gates = 1
    random = True

    def extent(self, operation: Operation) -> tuple[int, int, int]:
        """(N, T, units)."""
        n, _, steps, units = (operation.reads | operation.writes)["hidden" if self.gates != 4 else "cell"].shape
        return n, steps, units

    def flops(self, operation: Operation) -> float:
        n, steps, units = self.extent(operation)
        return 2.0 * n * steps * units * self.gates * units

    def cost(self, operation: Operation) -> float:
        return self.flops(operation) / GFLOPS + super().cost(operation)

    def parts(self, operation: Operation, threads: int) -> int:
        if threads == 1 or self.flops(operation) < PARALLEL_FLOPS:
            return 1
        return min(threads, self.extent(operation)[0])

    def packed(self, operation: Operation) -> list[int]:
        """Floats of each packed matrix."""
        raise NotImplementedError(self.name)

    def work(self, operation: Operation) -> int:
        """Floats of work space for all samples."""
        return 0

    def scratch(self, operation: Operation, threads: int) -> int:
        return 4 * (sum(self.packed(operation)) + self.work(operation))

    def places(self, operation: Operation, run: Run) -> list[Array]:
        """The scratch as packed matrices and work space."""
        floats, made, start = run.scratch.view(np.float32), [], 0
        for size in (*self.packed(operation), self.work(operation)):
            made.append(floats[start : start + size])
            start += size
        return made


def _flat(arrays: Mapping[str, Array], name: str) -> Array:
    """An operand as a flat array, empty where there is none."""
    found = arrays.get(name)
    return _EMPTY if found is None else found.reshape(-1)


def _square(arrays: Mapping[str, Array], gates: int) -> Array:
    weight = arrays.get("weight")
    return np.empty((0, 0), np.float32) if weight is None else weight.reshape(-1, weight.shape[-1])


def steps_of(array: Array) -> Array:
    """[N, T, width]."""
    return array.reshape(array.shape[0], array.shape[2], array.shape[3])


def _check(reads: Mapping[str, Value], n: int, units: int, gates: int, steps: int) -> None:
    if "weight" in reads and reads["weight"].shape != (1, 1, units, gates * units):
        raise ValueError(f"a recurrent weight of {reads['weight'].shape} for {units} units")
    for name in ("hidden0", "cell0"):
        if name in reads and reads[name].size != n * units:
            raise ValueError(f"{name} of {reads[name].shape} for {n} samples of {units} units")
    if "g" in reads and reads["g"].shape not in ((n, 1, steps, units), (n, 1, 1, units)):
        raise ValueError(f"a derivative of {reads['g'].shape} by {n} samples, {steps} steps, {units} units")


def _at(operation: Operation, steps: int) -> int:
    """Which step ``g`` belongs to; -1: it holds all of them."""
    if "g" not in operation.reads or operation.reads["g"].shape[2] == steps:
        return -1
    return int(operation.attributes["at"])


class Rnn(_Recurrent):
    """``h = activation(projection + h' U)``: reads projection [N, 1, T, u], weight U, hidden0 (default zero)."""

    name = "rnn"
    in_place = (("hidden", "projection"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        n, steps, units = _sequence(reads, "projection", 1)
        _check_functions(attributes)
        _check(reads, n, units, 1, steps)
        return {"hidden": Spec((n, 1, steps, units))}

    def packed(self, operation: Operation) -> list[int]:
        units = self.extent(operation)[2]
        return [shared.packed_floats(units, units)]

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import rnn as kernels

        packed, _ = self.places(operation, run)
        return kernels.forward.function, (
            steps_of(arrays["projection"]), _square(arrays, 1), _flat(arrays, "hidden0"), steps_of(arrays["hidden"]),
            _options(operation), run.state.counters, _scale(operation), packed, self.parts(operation, run.threads),
        )  # fmt: skip


class RnnDerivative(_Recurrent):
    """Derivatives by the arguments of the activation, all steps; reads hidden, weight, g (of all steps or step
    ``at``).
    """

    name = "rnn_derivative"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        n, steps, units = _sequence(reads, "hidden", 1)
        _check_functions(attributes)
        _check(reads, n, units, 1, steps)
        made = {"out": Spec((n, 1, steps, units))}
        if attributes.get("initial"):
            made["dhidden0"] = Spec((n, 1, 1, units))
        return made

    def aliases(self, operation: Operation) -> tuple[tuple[str, str], ...]:
        return (("out", "g"),) if operation.reads["g"].size == operation.writes["out"].size else ()

    def packed(self, operation: Operation) -> list[int]:
        units = self.extent(operation)[2]
        return [shared.packed_floats(units, units)]

    def work(self, operation: Operation) -> int:
        n, _, units = self.extent(operation)
        return 2 * n * units

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import rnn as kernels

        packed, work = self.places(operation, run)
        options = _options(operation)
        options[shared.AT] = _at(operation, self.extent(operation)[1])
        return kernels.backward.function, (
            steps_of(arrays["hidden"]), _square(arrays, 1), _flat(arrays, "g"), steps_of(arrays["out"]),
            _flat(arrays, "dhidden0"), options, run.state.counters, _scale(operation), packed, work,
            self.parts(operation, run.threads),
        )  # fmt: skip


class Lstm(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997; with the forget gate of Gers et al., 2000).

    Reads projection [N, 1, T, 4u] in the order i, f, g, o, weight U, and the initial hidden0 and cell0 (default zero).
    Makes the hidden states and cell states [N, 1, T, u] and the activated gates [N, 1, T, 4u].
    """

    name = "lstm"
    gates = 4
    in_place = (("gates", "projection"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        n, steps, units = _sequence(reads, "projection", 4)
        _check_functions(attributes)
        _check(reads, n, units, 4, steps)
        state = Spec((n, 1, steps, units))
        return {"hidden": state, "cell": state, "gates": Spec((n, 1, steps, 4 * units))}

    def packed(self, operation: Operation) -> list[int]:
        units = self.extent(operation)[2]
        return [shared.packed_floats(units, 4 * units)]

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import lstm as kernels

        packed, _ = self.places(operation, run)
        return kernels.forward.function, (
            steps_of(arrays["projection"]), _square(arrays, 4), _flat(arrays, "hidden0"), _flat(arrays, "cell0"),
            steps_of(arrays["hidden"]), steps_of(arrays["cell"]), steps_of(arrays["gates"]), _options(operation),
            run.state.counters, _scale(operation), packed, self.parts(operation, run.threads),
        )  # fmt: skip


class LstmDerivative(_Recurrent):
    """Derivatives by the arguments of the gates, all steps.

    Reads gates, cell, weight, cell0, g (by the hidden states: all steps, or step ``at``) and gc (by the last cell
    state). With ``initial`` it also makes the derivatives by hidden0 and, where it is read, cell0.
    """

    name = "lstm_derivative"
    gates = 4
    in_place = (("out", "gates"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        n, steps, units = _sequence(reads, "cell", 1)
        _check_functions(attributes)
        _check(reads, n, units, 4, steps)
        made = {"out": Spec((n, 1, steps, 4 * units))}
        if attributes.get("initial"):
            made |= {"dhidden0": Spec((n, 1, 1, units)), "dcell0": Spec((n, 1, 1, units))}
        return made

    def packed(self, operation: Operation) -> list[int]:
        units = self.extent(operation)[2]
        return [shared.packed_floats(4 * units, units)]

    def work(self, operation: Operation) -> int:
        n, _, units = self.extent(operation)
        return 4 * n * units

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import lstm as kernels

        packed, work = self.places(operation, run)
        options = _options(operation)
        options[shared.AT] = _at(operation, self.extent(operation)[1])
        return kernels.backward.function, (
            steps_of(arrays["gates"]), steps_of(arrays["cell"]), _square(arrays, 4), _flat(arrays, "cell0"),
            _flat(arrays, "g"), _flat(arrays, "gc"), steps_of(arrays["out"]), _flat(arrays, "dhidden0"),
            _flat(arrays, "dcell0"), options, run.state.counters, _scale(operation), packed, work,
            self.parts(operation, run.threads),
        )  # fmt: skip


class Gru(_Recurrent):
    """Gated recurrent units (Cho et al., 2014): ``h = z h' + (1 - z) g``, z keeping the old state.

    Reads projection [N, 1, T, 3u] in the order z, r, g, weight U, ``bias`` of the recurrent product, hidden0. With
    ``reset_after``: ``g = activation(p + r (h' U + b))``, else ``g = activation(p + (r h') U + b)``. Makes hidden
    states, activated gates, and ``inner``: ``h' U + b`` of g, or ``r h'``.
    """

    name = "gru"
    gates = 3
    in_place = (("gates", "projection"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        n, steps, units = _sequence(reads, "projection", 3)
        _check_functions(attributes)
        _check(reads, n, units, 3, steps)
        state = Spec((n, 1, steps, units))
        return {"hidden": state, "gates": Spec((n, 1, steps, 3 * units)), "inner": state}

    def packed(self, operation: Operation) -> list[int]:
        units = self.extent(operation)[2]
        return [shared.packed_floats(units, 2 * units), shared.packed_floats(units, units)]

    def work(self, operation: Operation) -> int:
        n, _, units = self.extent(operation)
        return 2 * n * units

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import gru as kernels

        packed_zr, packed_g, work = self.places(operation, run)
        return kernels.forward.function, (
            steps_of(arrays["projection"]), _square(arrays, 3), _flat(arrays, "bias"), _flat(arrays, "hidden0"),
            steps_of(arrays["hidden"]), steps_of(arrays["gates"]), steps_of(arrays["inner"]), _options(operation),
            run.state.counters, _scale(operation), packed_zr, packed_g, work, self.parts(operation, run.threads),
        )  # fmt: skip


class GruDerivative(_Recurrent):
    """Derivatives by the arguments of the gates and, with ``reset_after``, by the product inside of g (``dinner``)."""

    name = "gru_derivative"
    gates = 3
    in_place = (("out", "gates"), ("dinner", "inner"))

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        n, steps, units = _sequence(reads, "hidden", 1)
        _check_functions(attributes)
        _check(reads, n, units, 3, steps)
        made = {"out": Spec((n, 1, steps, 3 * units))}
        if attributes.get("reset_after"):
            made["dinner"] = Spec((n, 1, steps, units))
        if attributes.get("initial"):
            made["dhidden0"] = Spec((n, 1, 1, units))
        return made

    def aliases(self, operation: Operation) -> tuple[tuple[str, str], ...]:
        return self.in_place if "dinner" in operation.writes else self.in_place[:1]

    def packed(self, operation: Operation) -> list[int]:
        units = self.extent(operation)[2]
        return [shared.packed_floats(2 * units, units), shared.packed_floats(units, units)]

    def work(self, operation: Operation) -> int:
        n, _, units = self.extent(operation)
        return 4 * n * units

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        from nntrainer_py.tensor.kernels import gru as kernels

        packed_zr, packed_g, work = self.places(operation, run)
        options = _options(operation)
        options[shared.AT] = _at(operation, self.extent(operation)[1])
        dinner = steps_of(arrays["dinner"]) if "dinner" in arrays else np.empty((0, 0, 0), np.float32)
        return kernels.backward.function, (
            steps_of(arrays["gates"]), steps_of(arrays["inner"]), steps_of(arrays["hidden"]), _square(arrays, 3),
            _flat(arrays, "hidden0"), _flat(arrays, "g"), steps_of(arrays["out"]), dinner, _flat(arrays, "dhidden0"),
            options, run.state.counters, _scale(operation), packed_zr, packed_g, work,
            self.parts(operation, run.threads),
        )  # fmt: skip


for _kind in (Rnn(), RnnDerivative(), Lstm(), LstmDerivative(), Gru(), GruDerivative()):
    register(_kind)
