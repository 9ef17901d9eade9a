"""The learning-rate finder: raise the rate from step to step and watch the loss.

The rate grows from ``lowest`` to ``highest`` in equal factors. The loss is smoothed, ``s = 0.98 s + 0.02 loss`` with
the bias of its beginning taken out; the search stops where it exceeds four times the lowest seen. Suggested is the
rate where the smoothed loss falls most steeply over the logarithm of the rate. The model ends as it began. Source:
L. N. Smith, "Cyclical Learning Rates for Training Neural Networks" (2017), section 3.3.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nntrainer_py.errors import NumericalError, UsageError
from nntrainer_py.graph.lower import Lowered
from nntrainer_py.training.copies import copies_of
from nntrainer_py.training.engine import persistent
from nntrainer_py.training.feeding import open_loaders
from nntrainer_py.training.interrupt import InterruptGuard
from nntrainer_py.training.stepper import Stepper
from nntrainer_py.training.trainee import Trainee

if TYPE_CHECKING:
    from nntrainer_py.data.loader import BatchLoader

_SMOOTHING = 0.98
_TOO_HIGH = 4.0
#: steps at the beginning that are too uncertain, and at the end too high, to be suggested
_MARGIN = 5


@dataclass(frozen=True, slots=True)
class RateSearch:
    """Rates tried, the loss of each step, the smoothed losses, and the suggestion."""

    rates: tuple[float, ...]
    losses: tuple[float, ...]
    smoothed: tuple[float, ...]
    suggestion: float


def find_learning_rate(
    model: Trainee,
    x: Any = None,
    y: Any = None,
    *,
    lowest: float = 1e-7,
    highest: float = 10.0,
    steps: int = 100,
    batch_size: int | None = None,
) -> RateSearch:
    """Search on the data of the description, or on ``x`` and ``y`` as `Model.train` takes them.

    Raises:
        UsageError: rates or steps that make no search, or a loss that never falls.
        InterruptedRun: Ctrl-C; the model is as it was.
    """
    if not 0 < lowest < highest or not math.isfinite(highest):
        raise UsageError(f"expected 0 < lowest < highest learning rate, got {lowest} and {highest}")
    if steps < 2 * _MARGIN + 2:
        raise UsageError(f"steps: expected at least {2 * _MARGIN + 2}, got {steps}")
    if not model.trainable:
        raise UsageError("a learning rate needs a loss and an optimizer")
    loaders = open_loaders(model, x if y is None else (x, y), batch_size=batch_size)
    keep = _Keeper(model)
    try:
        return _search(model, loaders.train, [lowest * (highest / lowest) ** (k / (steps - 1)) for k in range(steps)])
    finally:
        keep.put_back()
        loaders.close()


def _search(model: Trainee, loader: BatchLoader, rates: list[float]) -> RateSearch:
    tried: list[float] = []
    losses: list[float] = []
    smoothed: list[float] = []
    model.reset_training()
    place = 0
    stepper = Stepper(
        model.compiled, lambda iteration: rates[place], loader.batch_size, model.spec.model.gradient_accumulation
    )
    average = 0.0
    with InterruptGuard() as guard:
        while place < len(rates):
            stepper.begin_epoch(loader.samples_per_epoch)
            for batch in loader:
                try:
                    loss = stepper.step(batch)
                except NumericalError:
                    return _result(tried, losses, smoothed)
                tried.append(rates[place])
                losses.append(loss)
                average = _SMOOTHING * average + (1 - _SMOOTHING) * loss
                smoothed.append(average / (1 - _SMOOTHING ** len(losses)))
                place += 1
                guard.check("the search was interrupted; the model is as it was")
                if smoothed[-1] > _TOO_HIGH * min(smoothed) > 0 or place == len(rates):
                    return _result(tried, losses, smoothed)
            stepper.finish_epoch()
    return _result(tried, losses, smoothed)


def _result(rates: list[float], losses: list[float], smoothed: list[float]) -> RateSearch:
    if len(smoothed) < 2 * _MARGIN + 2:
        raise UsageError("the loss was not finite after a few steps; search below a smaller highest learning rate")
    slopes = np.gradient(np.array(smoothed), np.log(np.array(rates)))[_MARGIN:-_MARGIN]
    steepest = int(slopes.argmin())
    if not slopes[steepest] < 0:
        raise UsageError("the loss fell at none of the learning rates; check the data and the model")
    return RateSearch(tuple(rates), tuple(losses), tuple(smoothed), rates[steepest + _MARGIN])


class _Keeper:
    """Copies of everything that a step changes."""

    def __init__(self, model: Trainee) -> None:
        self._model = model
        lowered: Lowered = model.lowered("train")
        model.weights()
        arrays = model.compiled.engine.store.arrays
        self._copies = copies_of(model, {value.name: arrays[value.name] for value in persistent(lowered)})
        self._copies.take()
        self._counters = model.compiled.state.counters.copy()
        self._epoch = model.epoch
        scheduler = model.spec.scheduler
        self._schedule = {} if scheduler is None else scheduler.state()  # type: ignore[attr-defined]

    def put_back(self) -> None:
        """The model as it was."""
        self._copies.put_back()
        np.copyto(self._model.compiled.state.counters, self._counters)
        self._model.epoch = self._epoch
        if self._model.spec.scheduler is not None:
            self._model.spec.scheduler.load_state(self._schedule)  # type: ignore[attr-defined]
