"""lion: steps of one size, in the direction of a momentum."""

from __future__ import annotations

from typing import Any

from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.properties import number


class Lion(Optimizer):
    """``w -= rate * (sign(b1 m + (1 - b1) g) + weight_decay * w)``, then ``m = b2 m + (1 - b2) g``.

    Chen et al., Symbolic Discovery of Optimization Algorithms (2023).
    """

    keyword = "lion"
    kind = "lion"
    state_names = ("m",)

    learning_rate = number(default=0.0001, minimum=0.0, doc="Step size; a schedule replaces it.")
    beta1 = number(default=0.9, minimum=0.0, below=1.0, doc="Part of the momentum in the direction of a step.")
    beta2 = number(default=0.99, minimum=0.0, below=1.0, doc="Decay of the momentum.")
    weight_decay = number(default=0.0, minimum=0.0, doc="Part of each weight that a step of rate 1 takes away.")

    def attributes(self) -> dict[str, Any]:
        return {"beta1": self.beta1, "beta2": self.beta2, "weight_decay": self.weight_decay}
