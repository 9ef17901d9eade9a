"""Optimizer updates, and the clipping of gradients by their global norm.

An update changes ``weight`` and the optimizer's state in place. It reads ``gradient`` and, where gradients are clipped,
``scale`` (a float64 scalar); the learning rate, the loss scale (taken out of the gradient again) and the count of
updates come from the step state. Attribute ``decay``: ``decay * weight`` is added to the gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from nntrainer_py.tensor.kernels import update
from nntrainer_py.tensor.kernels.shares import CHUNK
from nntrainer_py.tensor.operations.elementwise import parts
from nntrainer_py.tensor.operations.record import (
    Array,
    Call,
    Operation,
    OperationKind,
    Role,
    Run,
    Spec,
    Value,
    register,
)

SCALAR = Spec((1,), "float64", Role.SCALAR)
_ONE = np.ones(1)  # the scale of gradients that are not clipped


class Update(OperationKind):
    """Base of the updates: ``state`` and ``numbers`` name operands and attributes in the kernel's order."""

    pure = False
    elementwise = True
    state: ClassVar[tuple[str, ...]] = ()
    numbers: ClassVar[tuple[str, ...]] = ()

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        made: dict[str, Spec] = {}
        for name in ("weight", *self.state):
            if reads[name].size != reads["gradient"].size:
                raise ValueError(f"a gradient of {reads['gradient'].shape} for a {name} of {reads[name].shape}")
            made[name] = Spec(reads[name].shape, reads[name].dtype, reads[name].role)
        return made

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        flat = tuple(arrays[name].reshape(-1) for name in ("weight", "gradient", *self.state))
        scale = arrays["scale"] if "scale" in operation.reads else _ONE
        decay = float(operation.attributes.get("decay", 0.0))
        values = tuple(operation.attributes[name] for name in self.numbers)
        arguments = (*flat, scale, decay, *values, run.state.numbers, run.state.counters)
        return getattr(update, self.name).function, (*arguments, parts(flat[0].size, run))


class Sgd(Update):
    """``w -= rate * g``."""

    name = "sgd"
    modifies = ("weight",)


class Momentum(Update):
    """``v = momentum * v + g``; ``w -= rate * v``, with ``nesterov`` ``w -= rate * (g + momentum * v)``."""

    name = "momentum"
    modifies = ("weight", "v")
    state = ("v",)
    numbers = ("momentum", "nesterov")


class Adam(Update):
    """Adam. ``torch_ref``: epsilon is added after the bias correction; ``weight_decay``: decoupled (adamw)."""

    name = "adam"
    modifies = ("weight", "m", "v")
    state = ("m", "v")
    numbers = ("beta1", "beta2", "epsilon", "weight_decay", "torch_ref")


class Rmsprop(Update):
    """``v = rho * v + (1 - rho) * g**2``; ``w -= rate * g / (sqrt(v) + epsilon)``."""

    name = "rmsprop"
    modifies = ("weight", "v")
    state = ("v",)
    numbers = ("rho", "epsilon")


class Adagrad(Update):
    """``v += g**2``; ``w -= rate * g / (sqrt(v) + epsilon)``."""

    name = "adagrad"
    modifies = ("weight", "v")
    state = ("v",)
    numbers = ("epsilon",)


class Lion(Update):
    """``w = (1 - rate * weight_decay) * w - rate * sign(beta1 * m + (1 - beta1) * g)``, then m with beta2."""

    name = "lion"
    modifies = ("weight", "m")
    state = ("m",)
    numbers = ("beta1", "beta2", "weight_decay")


class Lamb(Update):
    """Adam's step plus ``weight_decay * w``, of the length ``rate * |w|``."""

    name = "lamb"
    elementwise = False
    modifies = ("weight", "m", "v")
    state = ("m", "v")
    numbers = ("beta1", "beta2", "epsilon", "weight_decay")

    def scratch(self, operation: Operation, threads: int) -> int:
        return 16 * -(-operation.reads["gradient"].size // CHUNK)

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        function, (*arguments, _) = super().bind(operation, arrays, run)
        count = -(-operation.reads["gradient"].size // CHUNK)
        norms = run.scratch[: 16 * count].view(np.float64).reshape(count, 2)
        return function, (*arguments, norms)


class GlobalNorm(OperationKind):
    """Square root of the sum of squares of all gradients ``x0``, ``x1``, ...; a float64 scalar without loss scale."""

    name = "global_norm"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        if not reads:
            raise ValueError("a norm needs gradients")
        return {"norm": SCALAR}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        flat = tuple(arrays[name].reshape(-1) for name in operation.reads)
        return update.global_norm.function, (flat, run.state.numbers, arrays["norm"])


class ClipScale(OperationKind):
    """``limit / (norm + 1e-6)`` where that is below 1, else 1; attribute ``limit``."""

    name = "clip_scale"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"scale": SCALAR}

    def bind(self, operation: Operation, arrays: Mapping[str, Array], run: Run) -> Call:
        return update.clip_scale.function, (arrays["norm"], float(operation.attributes["limit"]), arrays["scale"])


for _kind in (Sgd, Momentum, Adam, Rmsprop, Adagrad, Lion, Lamb, GlobalNorm, ClipScale):
    register(_kind())
