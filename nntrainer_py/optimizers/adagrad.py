"""adagrad: steps divided by the size of all gradients so far."""

from __future__ import annotations

from typing import Any

from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.properties import number


class Adagrad(Optimizer):
    """``v += g**2``, ``w -= rate * g / (sqrt(v) + epsilon)`` (Duchi et al., 2011)."""

    keyword = "adagrad"
    kind = "adagrad"
    state_names = ("v",)

    learning_rate = number(default=0.01, minimum=0.0, doc="Step size; a schedule replaces it.")
    epsilon = number(default=1e-7, minimum=0.0, doc="Added to the divisor.")

    def attributes(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon}
