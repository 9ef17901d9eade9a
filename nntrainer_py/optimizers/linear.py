"""linear: down in a straight line, then flat."""

from __future__ import annotations

from nntrainer_py.optimizers.schedule import Descent
from nntrainer_py.properties import positive_int


class Linear(Descent):
    """``max(max_rate - (max_rate - min_rate) * t / decay_steps, min_rate)``."""

    keyword = "linear"

    decay_steps = positive_int(doc="Steps from the largest rate to the smallest.")

    def at(self, t: int) -> float:
        span = self.max_learning_rate - self.min_learning_rate
        return max(self.max_learning_rate - span * t / self.decay_steps, self.min_learning_rate)
