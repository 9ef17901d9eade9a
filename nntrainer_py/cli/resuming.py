"""What a resumed run should know of its schedule: rates that depend on numbers that were changed meanwhile."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from nntrainer_py.errors import NNTrainerError, Notice, Origin

if TYPE_CHECKING:
    from nntrainer_py.data.loader import BatchLoader
    from nntrainer_py.graph.spec import ModelSpec
    from nntrainer_py.model import Model

#: schedules that come to an end after ``decay_steps`` -> what happens then
_AFTER = {"cosine": "starts from the top again", "linear": "stays at min_learning_rate"}


def schedule_notices(model: Model, checkpoint: Path, loader: BatchLoader) -> list[Notice]:
    """One line where a run goes on for more epochs than it was to have, or with another schedule; else none."""
    before = _spec_of(checkpoint)
    schedule = model.spec.scheduler
    if before is None or before.scheduler is None or schedule is None:
        return []
    where = Origin(model.spec.path, section="LearningRateScheduler")
    if before.scheduler.texts() != schedule.texts():
        message = "was changed since the run began; from here on the rates are those of the new numbers"
        return [Notice.at(where, "", message)]
    epochs, batches = model.spec.model.epochs, loader.batches_per_epoch
    if epochs <= before.model.epochs or batches is None or schedule.keyword not in _AFTER:
        return []
    updates = -(-batches // model.spec.model.gradient_accumulation)
    end = schedule.warmup_steps + schedule.decay_steps  # type: ignore[attr-defined]
    if end >= epochs * updates:
        return []
    what = f"the rate {_AFTER[schedule.keyword]} after step {end}, in epoch {end // updates + 1} of {epochs}"
    return [Notice.at(where, "decay_steps", f"{what}; more epochs do not stretch the schedule")]


def _spec_of(checkpoint: Path) -> ModelSpec | None:
    """The description in a checkpoint; None where it cannot be had, which going on will tell."""
    from nntrainer_py.graph.description import load_text
    from nntrainer_py.training.checkpoint import summary

    with contextlib.suppress(NNTrainerError):
        text = summary(checkpoint).ini
        return load_text(text, checkpoint.parent) if text else None
    return None
