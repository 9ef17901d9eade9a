"""constant: the same rate in every step."""

from __future__ import annotations

from nntrainer_py.optimizers.schedule import Schedule
from nntrainer_py.properties import number


class Constant(Schedule):
    """``learning_rate``."""

    keyword = "constant"

    learning_rate = number(minimum=0.0, doc="The rate.")

    def at(self, t: int) -> float:
        return self.learning_rate
