"""What a run went through, epoch by epoch, and the files that show it: ``history.csv`` and JSON lines."""

from __future__ import annotations

import json
import math
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from nntrainer_py.errors import DataError
from nntrainer_py.formats.atomic import write_atomically


@dataclass(frozen=True, slots=True)
class EpochRow:
    """The figures of one epoch.

    Attributes:
        epoch: from 1.
        step: updates done since the beginning of training, when the epoch was over.
        loss: mean over the samples of the epoch, each batch before its update.
        metrics: of the training samples by name (``accuracy`` as a fraction; ``mae`` and ``r2`` for regression).
        valid_loss, valid_metrics: the same of the validation data with inference behaviour; None and empty without.
        learning_rate: of the last step.
        seconds: duration of the epoch with its validation.
        samples: training samples seen in the epoch.
    """

    epoch: int
    step: int
    loss: float
    metrics: Mapping[str, float] = field(default_factory=dict)
    valid_loss: float | None = None
    valid_metrics: Mapping[str, float] = field(default_factory=dict)
    learning_rate: float = 0.0
    seconds: float = 0.0
    samples: int = 0

    def columns(self) -> dict[str, float | int | None]:
        """The columns of ``history.csv``: epoch, loss, metrics, valid_loss, valid_ metrics, learning_rate, seconds."""
        names = list(self.metrics or self.valid_metrics)
        found: dict[str, float | int | None] = {"epoch": self.epoch, "loss": self.loss}
        found |= {name: self.metrics.get(name) for name in names}
        found["valid_loss"] = self.valid_loss
        found |= {f"valid_{name}": self.valid_metrics.get(name) for name in names}
        found |= {"learning_rate": self.learning_rate, "seconds": round(self.seconds, 6)}
        return found

    def as_record(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            "loss": self.loss,
            "metrics": dict(self.metrics),
            "valid_loss": self.valid_loss,
            "valid_metrics": dict(self.valid_metrics),
            "learning_rate": self.learning_rate,
            "seconds": self.seconds,
            "samples": self.samples,
        }

    def figure(self, monitor: str) -> float | None:
        """A figure by its column name (``valid_loss``, ``accuracy`` ...); None when the epoch does not have it."""
        value = self.columns().get(monitor)
        return None if value is None else float(value)


class _Layout(NamedTuple):
    """Which figures a row has: names of the metrics of training and of validation, and whether there is its loss."""

    metrics: tuple[str, ...]
    valid_metrics: tuple[str, ...]
    validated: bool


class History(Sequence[EpochRow]):
    """The rows of a run, also of the part before it was resumed.

    They are kept as numbers in arrays, some 100 bytes each, and made anew when asked for: runs may have many thousands.
    """

    def __init__(self, rows: Iterable[EpochRow] = ()) -> None:
        self._counts = array("q")  # epoch, step, samples of each row
        self._figures = array("d")  # of all rows: loss, learning rate, seconds, loss of the validation, metrics
        self._begins = array("q")  # of each row in them
        self._layouts: list[_Layout] = []  # that there are; mostly one
        self._kinds = array("l")  # of each row, its place in them
        self._texts = bytearray()  # lines of the first rows
        self._encoded = 0  # how many these are
        for row in rows:
            self.append(row)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._row(place) for place in range(len(self))[index]]
        return self._row(range(len(self))[index])

    def __len__(self) -> int:
        return len(self._begins)

    def __iter__(self) -> Iterator[EpochRow]:
        return (self._row(place) for place in range(len(self)))

    def append(self, row: EpochRow) -> None:
        """Add an epoch."""
        layout = _Layout(tuple(row.metrics), tuple(row.valid_metrics), row.valid_loss is not None)
        if layout not in self._layouts:
            self._layouts.append(layout)
        self._kinds.append(self._layouts.index(layout))
        self._counts.extend((row.epoch, row.step, row.samples))
        self._begins.append(len(self._figures))
        self._figures.extend((row.loss, row.learning_rate, row.seconds))
        if row.valid_loss is not None:
            self._figures.append(row.valid_loss)
        self._figures.extend(row.metrics.values())
        self._figures.extend(row.valid_metrics.values())

    def _row(self, place: int) -> EpochRow:
        layout = self._layouts[self._kinds[place]]
        epoch, step, samples = self._counts[3 * place : 3 * place + 3]
        begin = self._begins[place]
        loss, rate, seconds = self._figures[begin : begin + 3]
        begin += 3
        valid_loss = self._figures[begin] if layout.validated else None
        begin += layout.validated
        middle = begin + len(layout.metrics)
        metrics = dict(zip(layout.metrics, self._figures[begin:middle], strict=True))
        end = middle + len(layout.valid_metrics)
        valid_metrics = dict(zip(layout.valid_metrics, self._figures[middle:end], strict=True))
        return EpochRow(epoch, step, loss, metrics, valid_loss, valid_metrics, rate, seconds, samples)

    def column(self, name: str) -> list[float | None]:
        """One column of all epochs."""
        return [row.figure(name) for row in self]

    def columns(self) -> list[str]:
        """Names of the columns, in the order of the file."""
        return list(self[-1].columns()) if len(self) else []

    def csv(self) -> str:
        """The text of ``history.csv``; numbers so that they read back equal."""
        return "".join(self._csv_lines())

    def _csv_lines(self) -> Iterator[str]:
        if len(self):
            names = self.columns()
            yield ",".join(names) + "\n"  # neither names nor numbers need quotes
            for row in self:
                values = row.columns()
                yield ",".join(["" if (value := values.get(name)) is None else repr(value) for name in names]) + "\n"

    def json_lines(self) -> str:
        """One JSON object an epoch; a figure that is not finite is null."""
        return "".join(self._json_lines())

    def _json_lines(self) -> Iterator[str]:
        return (json.dumps(finite(row.as_record()), allow_nan=False) + "\n" for row in self)

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Replace the file atomically; DataError with the cause when that is not possible."""
        write_atomically(Path(path), map(str.encode, self._csv_lines()), error=DataError)

    def write_json_lines(self, path: str | os.PathLike[str]) -> None:
        """Replace the file atomically; DataError with the cause when that is not possible."""
        write_atomically(Path(path), map(str.encode, self._json_lines()), error=DataError)

    def lines(self) -> Iterator[str]:
        """Rows as JSON for a checkpoint; `of_records` takes the values back. Each row is encoded only once."""
        for place in range(self._encoded, len(self)):
            self._texts += json.dumps(self._row(place).as_record()).encode() + b"\n"
        self._encoded = len(self)
        begin = 0
        while begin < len(self._texts):
            end = self._texts.index(b"\n", begin)
            yield self._texts[begin:end].decode()
            begin = end + 1

    @classmethod
    def of_records(cls, records: Iterable[Mapping[str, Any]]) -> History:
        """The rows of plain values, as `EpochRow.as_record` and `lines` have them."""
        return cls(EpochRow(**record) for record in records)


def finite(value: Any) -> Any:
    """``value`` with None in the place of every number that JSON does not know."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return value
