"""An optimizer of one's own: steps of one size against the sign of a running mean of the gradient."""

import numpy as np

from nntrainer_py import Optimizer, register_optimizer
from nntrainer_py.properties import number


@register_optimizer("signed")
class Signed(Optimizer):
    keep = number(default=0.9, minimum=0.0, below=1.0, doc="How much of the running mean stays.")
    state_names = ("mean",)

    def update(self, weight, gradient, state, rate, t):
        state["mean"] *= self.keep
        state["mean"] += (1 - self.keep) * gradient
        weight -= rate * np.sign(state["mean"])
