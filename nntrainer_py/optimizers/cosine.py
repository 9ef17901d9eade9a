"""cosine: half a cosine down, again and again."""

from __future__ import annotations

import math

from nntrainer_py.optimizers.schedule import Descent
from nntrainer_py.properties import positive_int


class Cosine(Descent):
    """``min + (max - min) * (1 + cos(pi * (t mod decay_steps) / decay_steps)) / 2``; restarts every decay_steps."""

    keyword = "cosine"

    decay_steps = positive_int(doc="Steps until the rate starts from the top again.")

    def at(self, t: int) -> float:
        phase = math.pi * (t % self.decay_steps) / self.decay_steps
        return self.min_learning_rate + (self.max_learning_rate - self.min_learning_rate) * 0.5 * (1 + math.cos(phase))
