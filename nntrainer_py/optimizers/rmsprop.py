"""rmsprop: steps divided by a running size of the gradient."""

from __future__ import annotations

from typing import Any

from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.properties import number


class RmsProp(Optimizer):
    """``v = rho * v + (1 - rho) * g**2``, ``w -= rate * g / (sqrt(v) + epsilon)`` (Hinton, 2012)."""

    keyword = "rmsprop"
    kind = "rmsprop"
    state_names = ("v",)

    rho = number(default=0.9, minimum=0.0, below=1.0, doc="Decay of the running mean of squares.")
    epsilon = number(default=1e-7, minimum=0.0, doc="Added to the divisor.")

    def attributes(self) -> dict[str, Any]:
        return {"rho": self.rho, "epsilon": self.epsilon}
