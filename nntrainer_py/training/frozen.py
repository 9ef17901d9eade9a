"""Training that cannot change a weight, which is allowed and seldom meant."""

from __future__ import annotations

from nntrainer_py.training.trainee import Trainee

#: updates at which a schedule is asked for its rate
_ASKED = (0, 1, 10, 1_000, 1_000_000)


def nothing_trained(model: Trainee, batch: int | None = None) -> str | None:
    """Why no weight will change in training, or None where one can; None, too, for a model that cannot be trained.

    ``batch``: at which the operations are listed, best one that is needed anyway.
    """
    if not model.trainable or not model.spec.needs_optimizer:
        return None
    lowered = model.lowered("train", batch)
    if not any(weight.trainable for weight in lowered.weights):
        return None  # nobody expects it
    if not lowered.gradients:
        return "nothing is trained: every layer is frozen"
    if _ours(model.spec.scheduler) and all(model.learning_rate(iteration) == 0.0 for iteration in _ASKED):
        return "nothing is trained: the learning rate is 0"
    return None


def _ours(scheduler: object) -> bool:
    """A user's schedule is asked for no update that is not made: it may have no answer, or count."""
    return scheduler is None or type(scheduler).__module__.startswith(f"{__name__.partition('.')[0]}.")
