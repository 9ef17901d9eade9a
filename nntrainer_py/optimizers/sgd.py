"""sgd: gradient descent, with momentum if wanted."""

from __future__ import annotations

from typing import Any

from nntrainer_py.errors import UsageError
from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.properties import boolean, number


class Sgd(Optimizer):
    """``w -= rate * g``; with momentum ``v = momentum * v + g`` and ``w -= rate * v``.

    nesterov: ``w -= rate * (g + momentum * v)``. (The rate stands outside of v, as in PyTorch.)
    """

    keyword = "sgd"

    learning_rate = number(default=0.0001, minimum=0.0, doc="Step size; a schedule replaces it.")
    momentum = number(default=0.0, minimum=0.0, below=1.0, doc="How much of the last step goes on.")
    nesterov = boolean(False, doc="Look ahead along the momentum; needs a momentum.")

    def validate(self) -> None:
        super().validate()
        if self.nesterov and self.momentum == 0.0:
            raise UsageError("needs a momentum above 0", key="nesterov")

    def states(self) -> tuple[str, ...]:
        return ("v",) if self.momentum > 0.0 else ()

    def update_kind(self) -> str:
        return "momentum" if self.momentum > 0.0 else "sgd"

    def attributes(self) -> dict[str, Any]:
        return {"momentum": self.momentum, "nesterov": self.nesterov} if self.momentum > 0.0 else {}
