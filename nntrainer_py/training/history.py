"""What a run went through, epoch by epoch, and the files that show it: ``history.csv`` and JSON lines."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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


class History(Sequence[EpochRow]):
    """The rows of a run, also of the part before it was resumed."""

    def __init__(self, rows: Sequence[EpochRow] = ()) -> None:
        self.rows = list(rows)
        self._texts: list[str] = []  # of the first rows

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[EpochRow]:
        return iter(self.rows)

    def append(self, row: EpochRow) -> None:
        """Add an epoch."""
        self.rows.append(row)

    def column(self, name: str) -> list[float | None]:
        """One column of all epochs."""
        return [row.figure(name) for row in self.rows]

    def columns(self) -> list[str]:
        """Names of the columns, in the order of the file."""
        return list(self.rows[-1].columns()) if self.rows else []

    def csv(self) -> str:
        """The text of ``history.csv``; numbers so that they read back equal."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        if self.rows:
            names = self.columns()
            writer.writerow(names)
            for row in self.rows:
                values = row.columns()
                writer.writerow(["" if (value := values.get(name)) is None else repr(value) for name in names])
        return stream.getvalue()

    def json_lines(self) -> str:
        """One JSON object an epoch; a figure that is not finite is null."""
        return "".join(json.dumps(finite(row.as_record()), allow_nan=False) + "\n" for row in self.rows)

    def write_csv(self, path: str | os.PathLike[str]) -> None:
        """Replace the file atomically; DataError with the cause when that is not possible."""
        write_atomically(Path(path), [self.csv().encode()], error=DataError)

    def write_json_lines(self, path: str | os.PathLike[str]) -> None:
        """Replace the file atomically; DataError with the cause when that is not possible."""
        write_atomically(Path(path), [self.json_lines().encode()], error=DataError)

    def lines(self) -> list[str]:
        """Rows as JSON for a checkpoint; `of_records` takes the values back. Each row is encoded only once."""
        self._texts += [json.dumps(row.as_record()) for row in self.rows[len(self._texts) :]]
        return self._texts

    @classmethod
    def of_records(cls, records: Iterable[Mapping[str, Any]]) -> History:
        """The rows of plain values, as `EpochRow.as_record` and `lines` have them."""
        return cls([EpochRow(**record) for record in records])


def finite(value: Any) -> Any:
    """``value`` with None in the place of every number that JSON does not know."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return value
