"""Which classes a model takes for which, on a data set: a `ClassReport` of training/metrics.py for the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nntrainer_py.data.loader import BatchLoader
    from nntrainer_py.model import Model
    from nntrainer_py.training.metrics import ClassReport

#: classes of which a table is still something to look at
MOST_CLASSES = 1000


def class_count(model: Model, batch: int) -> int | None:
    """How many classes the first output chooses between; None when it chooses between none, or too many."""
    lowered = model.lowered("evaluate", batch)
    if "correct" not in lowered.metrics or not lowered.outputs:
        return None
    width = lowered.outputs[0].size // batch
    count = 2 if width == 1 else width
    return count if count <= MOST_CLASSES else None


def class_names(model: Model, count: int) -> tuple[str, ...]:
    """The names of the training data, or numbers."""
    names = model.class_names
    return tuple(names) if names is not None and len(names) == count else tuple(map(str, range(count)))


def class_report(model: Model, loader: BatchLoader) -> ClassReport | None:
    """Confusions over one pass; None for a model that does not choose between classes."""
    from nntrainer_py.training import evaluation

    count = class_count(model, loader.batch_size)
    if count is None:
        return None
    loader.seek(0)
    try:
        return evaluation.evaluate_classes(model.compiled, loader, names=class_names(model, count))[1]
    finally:
        loader.close()
