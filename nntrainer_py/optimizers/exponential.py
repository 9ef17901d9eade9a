"""exponential: a constant factor in every decay_steps steps, without stairs."""

from __future__ import annotations

from nntrainer_py.optimizers.schedule import Schedule
from nntrainer_py.properties import number, positive_int


class Exponential(Schedule):
    """``learning_rate * decay_rate ** (t / decay_steps)``."""

    keyword = "exponential"

    learning_rate = number(minimum=0.0, doc="Rate of the first step.")
    decay_rate = number(above=0.0, doc="Factor in every decay_steps steps.")
    decay_steps = positive_int(doc="Steps in which the rate is multiplied by decay_rate.")

    def at(self, t: int) -> float:
        return float(self.learning_rate * self.decay_rate ** (t / self.decay_steps))
