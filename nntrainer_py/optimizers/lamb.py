"""lamb: adam whose step has the length of the weight, for large batches."""

from __future__ import annotations

from typing import Any

from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.properties import number


class Lamb(Optimizer):
    """``r = m' / (sqrt(v') + epsilon) + weight_decay * w``, ``w -= rate * |w| / |r| * r`` (You et al., 2020).

    m' and v' are adam's corrected moments; where ``|w|`` or ``|r|`` is zero the step is ``rate * r``.
    """

    keyword = "lamb"
    kind = "lamb"
    state_names = ("m", "v")

    beta1 = number(default=0.9, minimum=0.0, below=1.0, doc="Decay of the first moment.")
    beta2 = number(default=0.999, minimum=0.0, below=1.0, doc="Decay of the second moment.")
    epsilon = number(default=1e-6, minimum=0.0, doc="Added to the divisor.")
    weight_decay = number(default=0.0, minimum=0.0, doc="Part of the weight in each step.")

    def attributes(self) -> dict[str, Any]:
        return {
            "beta1": self.beta1,
            "beta2": self.beta2,
            "epsilon": self.epsilon,
            "weight_decay": self.weight_decay,
        }
