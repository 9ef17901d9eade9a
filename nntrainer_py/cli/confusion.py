"""Which classes a model takes for which, on a data set: a `ClassReport` of training/metrics.py for the command line.

And the table of it that is still something to look at when there are many classes: `Confusions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.training.metrics import MOST_ROWS

if TYPE_CHECKING:
    from nntrainer_py.data.loader import BatchLoader
    from nntrainer_py.model import Model
    from nntrainer_py.training.metrics import ClassReport

#: classes of which a report is still something to look at
MOST_CLASSES = 1000


@dataclass(frozen=True, slots=True)
class Confusions:
    """The cells of a confusion matrix that are not zero.

    Attributes:
        names: of the classes.
        true, predicted, count: integers (cells,).
    """

    names: tuple[str, ...]
    true: NDArray[np.int64]
    predicted: NDArray[np.int64]
    count: NDArray[np.int64]

    @classmethod
    def of_matrix(cls, names: Sequence[str], matrix: NDArray[Any]) -> Confusions:
        """Of the counts (classes, classes), true by predicted."""
        true, predicted = matrix.nonzero()
        return cls(tuple(names), true, predicted, matrix[true, predicted].astype(np.int64))

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Confusions:
        """Of what `ClassReport.as_record` gave; ValueError, KeyError or TypeError when it is not that."""
        names = tuple(str(one["name"]) for one in record["classes"])
        given = record["confusion"]
        if isinstance(given, Mapping):
            true, predicted, count = (np.array(given[key], np.int64) for key in ("true", "predicted", "count"))
        else:
            true, predicted, count = _cells(given)
        if not true.shape == predicted.shape == count.shape:
            raise ValueError("the confusion matrix has lists of different lengths")
        if any(len(places) and not 0 <= places.min() <= places.max() < len(names) for places in (true, predicted)):
            raise ValueError("the confusion matrix has other classes than the list of them")
        return cls(names, true, predicted, count)

    def groups(self, most: int = MOST_ROWS) -> list[range]:
        """The classes of each row and column to draw: one, or as many neighbours as it takes for ``most`` rows."""
        classes = len(self.names)
        number = min(classes, most)
        bounds = [place * classes // number for place in range(number + 1)]
        return [range(first, end) for first, end in pairwise(bounds)]

    def table(self, groups: Sequence[range]) -> NDArray[np.int64]:
        """Counts (groups, groups), true by predicted."""
        starts = [group.start for group in groups]
        made = np.zeros((len(groups), len(groups)), np.int64)
        rows, columns = (np.searchsorted(starts, places, "right") - 1 for places in (self.true, self.predicted))
        np.add.at(made, (rows, columns), self.count)
        return made

    def worst(self, most: int) -> list[tuple[str, str, int]]:
        """The pairs that are confused most often: true class, predicted one, samples."""
        wrong = np.flatnonzero(self.true != self.predicted)
        first = wrong[np.argsort(-self.count[wrong], kind="stable")[:most]]
        return [
            (self.names[self.true[place]], self.names[self.predicted[place]], int(self.count[place])) for place in first
        ]

    @property
    def right(self) -> float:
        """Share of right samples."""
        return int(self.count[self.true == self.predicted].sum()) / max(int(self.count.sum()), 1)


def _cells(rows: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Row, column and value of what is not zero; a row at a time, for lists take much more room than arrays."""
    found = [(row := np.array(values, np.int64), row.nonzero()[0]) for values in rows]
    true = np.repeat(np.arange(len(found)), [len(places) for _, places in found])
    predicted = np.concatenate([places for _, places in found])
    return true, predicted, np.concatenate([row[places] for row, places in found])


def class_count(model: Model, batch: int) -> int | None:
    """How many classes the first output chooses between; None when it chooses between none, or too many."""
    lowered = model.lowered("evaluate", batch)
    if "correct" not in lowered.metrics or not lowered.outputs:
        return None
    width = lowered.outputs[0].size // batch
    count = 2 if width == 1 else width
    return count if count <= MOST_CLASSES else None


def class_names(model: Model, count: int) -> tuple[str, ...]:
    """The names of the training data, as far as it has some, and numbers for the other classes."""
    names = model.class_names or ()
    if len(names) > count:
        names = ()
    taken = set(names)
    return (*names, *(str(k) if str(k) not in taken else f"unnamed_{k}" for k in range(len(names), count)))


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
