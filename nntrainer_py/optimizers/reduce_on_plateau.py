"""reduce_on_plateau: smaller steps when a metric stops getting better."""

from __future__ import annotations

import math
from collections.abc import Mapping

from nntrainer_py.errors import UsageError
from nntrainer_py.optimizers.schedule import Schedule
from nntrainer_py.properties import enum, number, unsigned_int

_METRICS = ("valid_loss", "valid_accuracy", "loss", "accuracy")


class ReduceOnPlateau(Schedule):
    """``learning_rate``, times ``factor`` each time the metric was no better for more than ``patience`` epochs.

    Better than the best so far means by more than ``threshold`` of it. After a reduction ``cooldown`` epochs are not
    counted.
    """

    keyword = "reduce_on_plateau"

    learning_rate = number(minimum=0.0, doc="Rate at the start.")
    factor = number(default=0.1, above=0.0, below=1.0, doc="What the rate is multiplied by.")
    patience = unsigned_int(10, doc="Epochs without improvement that are let pass.")
    threshold = number(default=1e-4, minimum=0.0, doc="Part of the best value that counts as an improvement.")
    cooldown = unsigned_int(0, doc="Epochs after a reduction that are not counted.")
    min_learning_rate = number(default=0.0, minimum=0.0, doc="The rate does not fall below this.")
    monitor = enum(_METRICS, default="valid_loss", doc="Metric that is watched.")

    def __init__(self, **properties: object) -> None:
        super().__init__(**properties)
        self._rate: float = self.learning_rate
        self._best: float = math.inf
        self._waited: int = 0
        self._pause: int = 0

    def at(self, t: int) -> float:
        return self._rate

    def watches(self) -> str | None:
        return self.monitor

    def epoch_end(self, metrics: Mapping[str, float]) -> None:
        if self.monitor not in metrics:
            known = ", ".join(sorted(metrics)) or "none"
            raise UsageError(f"{self.monitor} is not known after an epoch (known: {known})", key="monitor")
        value = float(metrics[self.monitor])
        value = -value if self.monitor.endswith("accuracy") else value  # lower is better from here on
        if value < self._best - self.threshold * abs(self._best) if math.isfinite(self._best) else value < math.inf:
            self._best, self._waited = value, 0
        elif self._pause == 0:
            self._waited += 1
        if self._pause > 0:
            self._pause -= 1
            self._waited = 0
        if self._waited > self.patience:
            self._rate = max(self._rate * self.factor, self.min_learning_rate)
            self._waited, self._pause = 0, self.cooldown

    def state(self) -> dict[str, float]:
        known = {"best": self._best} if math.isfinite(self._best) else {}
        return {"rate": self._rate, "waited": self._waited, "pause": self._pause, **known}

    def load_state(self, state: Mapping[str, float]) -> None:
        self._rate = float(state.get("rate", self.learning_rate))
        self._best = float(state.get("best", math.inf))
        self._waited = int(state.get("waited", 0))
        self._pause = int(state.get("pause", 0))
