"""polynomial: down along a power of the remaining time, then flat."""

from __future__ import annotations

from nntrainer_py.optimizers.schedule import Descent
from nntrainer_py.properties import number, positive_int


class Polynomial(Descent):
    """``min + (max - min) * (1 - t / decay_steps) ** power`` up to decay_steps, then min."""

    keyword = "polynomial"

    decay_steps = positive_int(doc="Steps from the largest rate to the smallest.")
    power = number(default=2.0, above=0.0, doc="Exponent; 1 is linear.")

    def at(self, t: int) -> float:
        left = 1.0 - min(t, self.decay_steps) / self.decay_steps
        span = self.max_learning_rate - self.min_learning_rate
        return float(self.min_learning_rate + span * left**self.power)
