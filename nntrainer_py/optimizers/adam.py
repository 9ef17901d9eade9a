"""adam: steps scaled by moments of the gradient."""

from __future__ import annotations

from typing import Any

from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.properties import boolean, number


class Adam(Optimizer):
    """``m = b1 m + (1 - b1) g``, ``v = b2 v + (1 - b2) g**2``, corrected for their start at zero.

    The step is ``rate * sqrt(1 - b2**t) / (1 - b1**t) * m / (sqrt(v) + epsilon)``, t from 1 (Kingma and Ba,
    end of section 2); with torch_ref ``rate * m' / (sqrt(v') + epsilon)`` of the corrected moments (their algorithm 1).
    """

    keyword = "adam"
    kind = "adam"
    state_names = ("m", "v")

    beta1 = number(default=0.9, minimum=0.0, below=1.0, doc="Decay of the first moment.")
    beta2 = number(default=0.999, minimum=0.0, below=1.0, doc="Decay of the second moment.")
    epsilon = number(default=1e-7, minimum=0.0, doc="Added to the divisor.")
    torch_ref = boolean(False, doc="Add epsilon after the bias correction, as PyTorch does, instead of before.")

    def attributes(self) -> dict[str, Any]:
        return {
            "beta1": self.beta1,
            "beta2": self.beta2,
            "epsilon": self.epsilon,
            "weight_decay": 0.0,
            "torch_ref": self.torch_ref,
        }
