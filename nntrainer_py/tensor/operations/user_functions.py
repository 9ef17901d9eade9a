"""Python functions over arrays that users register: activation functions, and the updates of their optimizers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nntrainer_py.plugins import users_code
from nntrainer_py.tensor.operations.record import Array, Call, Operation, OperationKind, Run, Spec, StepState, Value
from nntrainer_py.tensor.operations.record import register as register_kind

#: word -> (values of x, slopes at x)
USER_FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {}
#: state tensors that a user's optimizer may have
MOST_STATES = 8


class UserActivation(OperationKind):
    """``out = forward(x)`` of the registered ``function``."""

    name = "user_activation"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(reads["x"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        forward, _ = USER_FUNCTIONS[operation.attributes["function"]]
        return _values, (forward, _read_only(arrays["x"]), arrays["out"])


class UserActivationDerivative(OperationKind):
    """``out = g * derivative(x)``."""

    name = "user_activation_derivative"
    in_place = (("out", "g"),)

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(reads["g"].shape)}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        _, derivative = USER_FUNCTIONS[operation.attributes["function"]]
        return _slopes, (derivative, _read_only(arrays["x"]), arrays["g"], arrays["out"])


class UserUpdate(OperationKind):
    """A user's update of ``weight`` in NumPy.

    Attributes: ``function(weight, gradient, state, rate, t)``, ``names`` of the state tensors (operands ``state0``,
    ``state1``, ...), ``decay``. The gradient is handed over complete: clipped, with regularizer and decay.
    """

    name = "user_update"
    pure = False
    modifies = ("weight", *(f"state{i}" for i in range(MOST_STATES)))

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {name: Spec(v.shape, v.dtype, v.role) for name, v in reads.items() if name in self.modifies}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        state = {name: arrays[f"state{i}"] for i, name in enumerate(operation.attributes["names"])}
        scale = arrays["scale"] if "scale" in operation.reads else np.ones(1)
        gradient = arrays["gradient"].reshape(arrays["weight"].shape)
        decay = float(operation.attributes.get("decay", 0.0))
        function = operation.attributes["function"]
        return _update, (function, arrays["weight"], gradient, state, scale, decay, run.state)


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


def _values(forward: Callable[[Any], Any], x: Array, out: Array) -> None:
    with users_code("activation function"):
        out[...] = forward(x)


def _slopes(derivative: Callable[[Any], Any], x: Array, g: Array, out: Array) -> None:
    with users_code("derivative of an activation function"):
        np.multiply(g, derivative(x), out=out, casting="same_kind")


def _update(
    function: Callable[..., None],
    weight: Array,
    gradient: Array,
    state: dict[str, Array],
    scale: Array,
    decay: float,
    step: StepState,
) -> None:
    factor = np.float32(scale[0] / step.numbers[StepState.LOSS_SCALE])
    complete = gradient * factor + np.float32(decay) * weight
    with users_code("update of an optimizer"):
        function(weight, complete, state, float(step.numbers[StepState.LEARNING_RATE]), int(step.counters[0]))


register_kind(UserActivation())
register_kind(UserActivationDerivative())
register_kind(UserUpdate())
