"""The base class of learning-rate schedules: the rate of a step from the number of updates done before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from nntrainer_py.errors import UsageError
from nntrainer_py.properties import Configurable, number, unsigned_int


class Schedule(Configurable):
    """Base of every schedule. A subclass writes ``at(t)``; one that watches metrics also ``epoch_end`` and its state.

    With ``warmup_steps`` W the rate rises in equal steps from ``warmup_start * at(0)`` at t = 0 to ``at(0)`` at t = W,
    and the schedule proper starts there: the rate of step t is then ``at(t - W)``.
    """

    keyword: ClassVar[str] = ""

    warmup_steps = unsigned_int(0, doc="Steps in which the rate rises before the schedule proper starts.")
    warmup_start = number(default=0.0, minimum=0.0, maximum=1.0, doc="Part of the first rate at which warm-up starts.")

    def rate(self, t: int) -> float:
        """Learning rate of the step before which ``t`` updates were done."""
        if t < self.warmup_steps:
            return self.at(0) * (self.warmup_start + (1.0 - self.warmup_start) * t / self.warmup_steps)
        return self.at(t - self.warmup_steps)

    def at(self, t: int) -> float:
        """The rate without warm-up."""
        raise NotImplementedError(f"{type(self).__name__}.at")

    def watches(self) -> str | None:
        """Name of the metric that ``epoch_end`` needs, as in history.csv; None: no metric."""
        return None

    def epoch_end(self, metrics: Mapping[str, float]) -> None:
        """Told the metrics of an epoch after it, by their names in history.csv."""

    def state(self) -> dict[str, float]:
        """What a resumed run must know besides t."""
        return {}

    def load_state(self, state: Mapping[str, float]) -> None:
        """Go on from a saved `state`; an empty one is the start of a run."""


class Descent(Schedule):
    """Base of schedules that fall from max_learning_rate to min_learning_rate in decay_steps."""

    max_learning_rate = number(minimum=0.0, doc="Rate at the start.")
    min_learning_rate = number(minimum=0.0, doc="Rate at the end.")

    def validate(self) -> None:
        if self.min_learning_rate > self.max_learning_rate:
            raise UsageError(
                f"expected at most max_learning_rate {self.max_learning_rate!r}, got {self.min_learning_rate!r}",
                key="min_learning_rate",
            )
