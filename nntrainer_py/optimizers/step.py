"""step: one rate up to each of some iterations."""

from __future__ import annotations

from bisect import bisect_left

from nntrainer_py.errors import UsageError
from nntrainer_py.optimizers.schedule import Schedule
from nntrainer_py.properties import int_list, number_list


class Step(Schedule):
    """The k-th rate for the first k with ``t <= iteration[k]``; the last rate afterwards."""

    keyword = "step"

    learning_rate = number_list(minimum=0.0, doc="One rate more than there are iterations.")
    iteration = int_list(sign="unsigned", doc="Last step (from 0) of each rate but the last, rising.")

    def validate(self) -> None:
        if len(self.learning_rate) != len(self.iteration) + 1:
            wanted, given = len(self.iteration) + 1, len(self.learning_rate)
            raise UsageError(f"expected {wanted} numbers, one more than iteration, got {given}", key="learning_rate")
        if any(b <= a for a, b in zip(self.iteration, self.iteration[1:], strict=False)):
            shown = ",".join(map(str, self.iteration))
            raise UsageError(f"expected integers that rise, got '{shown}'", key="iteration")

    def at(self, t: int) -> float:
        return self.learning_rate[bisect_left(self.iteration, t)]
