"""one_cycle: up once, and down again further than it began."""

from __future__ import annotations

import math

from nntrainer_py.optimizers.schedule import Schedule
from nntrainer_py.properties import number, positive_int


class OneCycle(Schedule):
    """Half a cosine from ``max / start_divisor`` up to max, then one down to ``max / (start_divisor * end_divisor)``.

    The top is at step ``rise * decay_steps - 1``, the end at ``decay_steps - 1``, after which the rate stays
    (Smith and Topin, 2018; in PyTorch's form).
    """

    keyword = "one_cycle"

    max_learning_rate = number(minimum=0.0, doc="Rate at the top.")
    decay_steps = positive_int(doc="Steps of the whole cycle.")
    rise = number(default=0.3, above=0.0, below=1.0, doc="Part of the cycle in which the rate rises.")
    start_divisor = number(default=25.0, minimum=1.0, doc="The top rate over the first rate.")
    end_divisor = number(default=1e4, minimum=1.0, doc="The first rate over the last rate.")

    def at(self, t: int) -> float:
        first = self.max_learning_rate / self.start_divisor
        last, top, end = first / self.end_divisor, self.rise * self.decay_steps - 1.0, self.decay_steps - 1.0
        if t < top:
            return _between(first, self.max_learning_rate, t / top)
        return _between(self.max_learning_rate, last, min((t - top) / (end - top), 1.0) if end > top else 1.0)


def _between(start: float, stop: float, part: float) -> float:
    """Half a cosine from ``start`` (part 0) to ``stop`` (part 1)."""
    return stop + (start - stop) / 2.0 * (1.0 + math.cos(math.pi * part))
