"""Metrics over samples: accuracy, top-k, confusion matrix, precision, recall and F1; mean absolute error and R2.

Plain functions on arrays, and `ClassReport`, which gathers batch by batch so that no prediction must be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nntrainer_py.errors import UsageError

Counts = NDArray[np.signedinteger[Any]]
Float64 = NDArray[np.float64]

#: classes of which `ClassReport.as_record` gives the whole matrix; of more only the cells that are not zero
MOST_ROWS = 60
_PIECE = 1 << 16  # scores that are looked at together, so that a large batch of many classes takes no large arrays


def classes_of(values: ArrayLike) -> NDArray[np.int64]:
    """The class of each sample: indices stay, rows of scores give the place of the largest (the first of equals)."""
    rows = _rows(values)
    if rows.shape[1] <= 1:
        return np.asarray(rows.reshape(-1), np.int64)
    return np.asarray(rows.argmax(axis=1), np.int64)


def accuracy(predictions: ArrayLike, labels: ArrayLike) -> float:
    """Share of the samples whose predicted class is the label's; both are indices or rows (samples, classes)."""
    found, wanted = classes_of(predictions), classes_of(labels)
    _same_length(found, wanted)
    return float(np.mean(found == wanted))


def top_k_accuracy(scores: ArrayLike, labels: ArrayLike, k: int) -> float:
    """Share of the samples whose label is among the ``k`` largest scores (samples, classes).

    Of equal scores the one with the smaller index counts as larger, so that ``k = 1`` is `accuracy`.
    """
    rows = _rows(scores)
    wanted = classes_of(labels)
    _same_length(rows, wanted)
    return float(np.mean(_ranks(rows, wanted) < k))


def confusion_matrix(predictions: ArrayLike, labels: ArrayLike, classes: int | None = None) -> Counts:
    """Counts (classes, classes): the row is the label's class, the column the predicted one."""
    found, wanted = classes_of(predictions), classes_of(labels)
    _same_length(found, wanted)
    size = classes or int(max(found.max(), wanted.max())) + 1
    flat = np.bincount(wanted * size + found, minlength=size * size)
    return flat.reshape(size, size).astype(np.int64)


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """For each class, arrays (classes,): a share is 0 where it has nothing to divide by."""

    precision: Float64
    recall: Float64
    f1: Float64
    support: Counts


def precision_recall_f1(confusion: Counts) -> ClassFigures:
    """``precision = hits / predicted``, ``recall = hits / present``, ``f1 = 2 * hits / (predicted + present)``."""
    hits = np.diag(confusion).astype(np.float64)
    predicted, present = confusion.sum(axis=0), confusion.sum(axis=1)
    return ClassFigures(
        _share(hits, predicted), _share(hits, present), _share(2 * hits, predicted + present), present.astype(np.int64)
    )


def mean_absolute_error(predictions: ArrayLike, targets: ArrayLike) -> float:
    """Mean of ``|y - t|`` over all elements."""
    y, t = _pair(predictions, targets)
    return float(np.abs(y - t).mean())


def r2_score(predictions: ArrayLike, targets: ArrayLike) -> float:
    """``1 - sum((y - t)**2) / sum((t - mean(t))**2)`` over all elements; see `Tally.metrics` for constant targets."""
    y, t = _pair(predictions, targets)
    squares, spread = float(((y - t) ** 2).sum()), float(((t - t.mean()) ** 2).sum())
    if spread == 0.0:
        return 1.0 if squares == 0.0 else 0.0
    return 1.0 - squares / spread


class ClassReport:
    """Gathers a confusion matrix and top-k hits over batches.

    Args:
        classes: how many there are.
        top: the k of which top-k accuracies are wanted; those above ``classes`` are left out.
        names: of the classes, in index order.

    Attributes:
        confusion: counts (classes, classes), true by predicted; integers just wide enough for the samples so far.
        samples: so far.
    """

    def __init__(self, classes: int, top: Sequence[int] = (1, 5), names: Sequence[str] | None = None) -> None:
        if classes < 2:
            raise UsageError(f"a report on classes needs at least 2 of them, the model has {classes}")
        self.confusion: Counts = np.zeros((classes, classes), np.int8)
        self.names = tuple(names) if names is not None else tuple(map(str, range(classes)))
        self._hits = {k: 0 for k in top if k <= classes}
        self.samples = 0

    def add(self, scores: ArrayLike, labels: ArrayLike) -> None:
        """A batch: scores (samples, classes), labels as rows or indices.

        With two classes scores may also be (samples, 1), the probability of the second one, and labels the same: it is
        the second one above 0.5.
        """
        rows, wanted = _rows(scores), _rows(labels)
        single = rows.shape[1] == 1
        wanted = (wanted[:, 0] > 0.5).astype(np.int64) if single else classes_of(wanted)
        self.samples += len(rows)
        counts = np.promote_types(self.confusion.dtype, np.min_scalar_type(-self.samples - 1))
        self.confusion = self.confusion.astype(counts, copy=False)
        step = max(1, _PIECE // rows.shape[1])
        for first in range(0, len(rows), step):
            piece, true = rows[first : first + step], wanted[first : first + step]
            self._add(np.concatenate([1 - piece, piece], axis=1) if single else piece, true)

    def _add(self, rows: NDArray[Any], wanted: NDArray[np.int64]) -> None:
        np.add.at(self.confusion, (wanted, rows.argmax(axis=1)), 1)
        ranks = _ranks(rows, wanted)
        for k in self._hits:
            self._hits[k] += int((ranks < k).sum())

    @property
    def accuracy(self) -> float:
        """Share of right samples."""
        return float(np.trace(self.confusion)) / max(self.samples, 1)

    @property
    def top(self) -> dict[int, float]:
        """Top-k accuracies by k."""
        return {k: hits / max(self.samples, 1) for k, hits in self._hits.items()}

    @property
    def figures(self) -> ClassFigures:
        """Precision, recall and F1 of each class."""
        return precision_recall_f1(self.confusion)

    def as_record(self) -> dict[str, Any]:
        """Plain values for JSON: accuracy, top-k, macro averages (over classes that are there), the matrix.

        ``confusion`` are its rows, or, of more than `MOST_ROWS` classes, lists ``true``, ``predicted`` and ``count`` of
        the cells that are not zero.
        """
        figures = self.figures
        present = (self.confusion.sum(axis=0) + self.confusion.sum(axis=1)) > 0
        macro = {
            name: float(getattr(figures, name)[present].mean()) if present.any() else 0.0
            for name in ("precision", "recall", "f1")
        }
        return {
            "samples": self.samples,
            "accuracy": self.accuracy,
            "top": {str(k): value for k, value in self.top.items()},
            "macro": macro,
            "classes": [
                {
                    "name": name,
                    "precision": float(figures.precision[index]),
                    "recall": float(figures.recall[index]),
                    "f1": float(figures.f1[index]),
                    "support": int(figures.support[index]),
                }
                for index, name in enumerate(self.names)
            ],
            "confusion": self.confusion.tolist() if len(self.confusion) <= MOST_ROWS else self._cells(),
        }

    def _cells(self) -> dict[str, list[int]]:
        true, predicted = self.confusion.nonzero()
        count = self.confusion[true, predicted]
        return {"true": true.tolist(), "predicted": predicted.tolist(), "count": count.tolist()}


def _rows(values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    return array.reshape(len(array), array.size // max(len(array), 1))


def _ranks(rows: NDArray[Any], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many scores stand before that of the label; beyond every k where the label's score is NaN."""
    own = rows[np.arange(len(rows)), wanted][:, None]
    before = np.arange(rows.shape[1])[None, :] < wanted[:, None]
    ranks = ((rows > own) | ((rows == own) & before)).sum(axis=1)
    return np.where(np.isnan(own[:, 0]), np.iinfo(np.int64).max, ranks).astype(np.int64)


def _share(part: Float64, whole: Counts) -> Float64:
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)


def _pair(predictions: ArrayLike, targets: ArrayLike) -> tuple[Float64, Float64]:
    y, t = np.asarray(predictions, np.float64).reshape(-1), np.asarray(targets, np.float64).reshape(-1)
    _same_length(y, t)
    return y, t


def _same_length(first: NDArray[Any], second: NDArray[Any]) -> None:
    if len(first) != len(second) or not len(first):
        raise UsageError(f"expected as many predictions as labels, at least one: got {len(first)} and {len(second)}")
