"""adamw: adam with decoupled weight decay."""

from __future__ import annotations

from typing import Any

from nntrainer_py.optimizers.adam import Adam
from nntrainer_py.properties import boolean, number


class AdamW(Adam):
    """First ``w *= 1 - rate * weight_decay`` for every trainable weight, biases too, then adam's step.

    The weight_decay and bias_decay of layers are not added to the gradient.
    """

    keyword = "adamw"
    decoupled = True

    epsilon = number(default=1e-8, minimum=0.0, doc="Added to the divisor.")
    torch_ref = boolean(
        False, doc="Accepted and without effect, as in NNTrainer: epsilon is added before the correction."
    )
    weight_decay = number(default=0.0, minimum=0.0, doc="Part of each weight that a step of rate 1 takes away.")

    def attributes(self) -> dict[str, Any]:
        return {**super().attributes(), "torch_ref": False, "weight_decay": self.weight_decay}
