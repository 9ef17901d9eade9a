"""Which classes a model takes for which: the confusion matrix of a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from nntrainer_py.data.loader import BatchLoader
    from nntrainer_py.model import Model

_MOST_CLASSES = 200  # of which a table is still something to look at
_MOST_VALUES = 20_000_000  # predictions kept at once


@dataclass(frozen=True)
class Confusion:
    """``counts[t, p]`` samples of class ``t`` were taken for class ``p``."""

    names: tuple[str, ...]
    counts: NDArray[np.int64]

    @property
    def scores(self) -> list[tuple[float, float, float]]:
        """Precision, recall and F1 of each class; 0 where nothing was predicted or there is nothing to find."""
        hits = np.diag(self.counts).astype(np.float64)
        precision = hits / np.maximum(self.counts.sum(axis=0), 1)
        recall = hits / np.maximum(self.counts.sum(axis=1), 1)
        f1 = 2 * precision * recall / np.where(precision + recall > 0, precision + recall, 1)
        return [(float(p), float(r), float(f)) for p, r, f in zip(precision, recall, f1, strict=True)]

    @property
    def accuracy(self) -> float:
        """Fraction on the diagonal."""
        return float(np.trace(self.counts) / max(int(self.counts.sum()), 1))

    def as_record(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "classes": list(self.names),
            "confusion": self.counts.tolist(),
            "accuracy": self.accuracy,
            "scores": [dict(zip(("precision", "recall", "f1"), values, strict=True)) for values in self.scores],
        }

    @classmethod
    def of_record(cls, record: dict[str, Any]) -> Confusion:
        """What `as_record` gave."""
        return cls(tuple(record["classes"]), np.array(record["confusion"], np.int64))


def class_names(model: Model, count: int) -> tuple[str, ...]:
    """The names of the training data, or numbers."""
    names = model.class_names
    return tuple(names) if names is not None and len(names) == count else tuple(map(str, range(count)))


def confusion_of(model: Model, loader: BatchLoader) -> Confusion | None:
    """The matrix over one pass; None for a model that does not choose between a bearable number of classes."""
    from nntrainer_py.training.evaluation import predict_batches

    lowered = model.lowered("evaluate", loader.batch_size)
    if "correct" not in lowered.metrics:
        return None
    width = lowered.predictions[0].shape[-1]
    samples = loader.samples_per_epoch
    if (
        width > _MOST_CLASSES
        or samples is None
        or samples * sum(p.size for p in lowered.predictions) > (_MOST_VALUES * loader.batch_size)
    ):
        return None
    loader.seek(0)
    try:
        predictions, labels, _ = predict_batches(model.compiled, loader)
    finally:
        loader.close()
    order = model.compiled.graph("evaluate").label_order
    return confusion(model, predictions[0], labels[order.index(0)])


def confusion(model: Model, prediction: NDArray[Any], label: NDArray[Any]) -> Confusion:
    """The matrix of one output: predictions (samples, ..., classes) and labels of the same size or one index each."""
    classes = prediction.shape[-1]
    rows = prediction.reshape(-1, classes)
    truth = label.reshape(len(rows), -1)
    if classes == 1:
        # a single logit: its sign says which of two
        taken, true, classes = (rows[:, 0] > 0).astype(int), (truth[:, 0] > 0.5).astype(int), 2
    else:
        taken = rows.argmax(axis=1)
        true = truth[:, 0].astype(int) if truth.shape[1] == 1 else truth.argmax(axis=1)
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (true, taken), 1)
    return Confusion(class_names(model, classes), counts)
