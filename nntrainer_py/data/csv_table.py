"""Reads a table from a text file, line by line, into one array of float32."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np
import numpy.typing as npt

from nntrainer_py.data.csv_labels import LabelColumn
from nntrainer_py.data.files import reason
from nntrainer_py.data.numerals import MISSING, MISSING_LABELS, is_index, is_number
from nntrainer_py.data.texts import Series
from nntrainer_py.errors import DataError, counted, did_you_mean, printable, quoted

HEADERS = ("auto", "true", "false")
_LARGEST = float(np.finfo(np.float32).max)
_CHUNK = 1 << 18
_LONGEST_LINE = 1 << 24  # characters; a longer one is no table, and would be read into memory whole


@dataclass(frozen=True, slots=True)
class _Line:
    number: int  # of its first line in the file, from 1
    fields: list[str]


class Table:
    """Reads the file line by line; the label columns go to the end of each row.

    Where no label column is named, the only one of words under a header is read as the label wherever it stands;
    `doubt` says then what was wrong with it if the names of the columns do not confirm that.

    Args:
        features: names of the input columns in training, where they are known already; for messages.
    """

    def __init__(
        self,
        path: Path,
        header: str,
        labels: Sequence[str | int] | None,
        delimiter: str | None,
        features: Sequence[str] | None = None,
    ) -> None:
        self._path = path
        self._header = header
        self._wanted = labels
        self._delimiter = delimiter
        self._features = None if features is None else frozenset(features)
        # Before the first line is read, nobody knows how wide a row is.
        self._values = Series("f", 0)
        self._lines = Series("q", 0)
        self._capacity = 0  # rows
        self.labels: LabelColumn | None = None
        self.notices: list[str] = []
        self.columns: list[str] = []  # in the order kept
        self.header: tuple[str, ...] = ()  # the same in the order of the file
        self.doubt: str | None = None
        self.width = 0
        self._order: list[int] | None = None  # columns in the order kept, when it is not the order in the file

    @property
    def values(self) -> npt.NDArray[np.float32]:
        """The table (samples, width)."""
        return self._values.all().reshape(-1, self.width)

    @property
    def lines(self) -> npt.NDArray[np.int64]:
        """The line of the file that each sample stands in, from 1."""
        return self._lines.all()

    def read(self) -> None:
        try:
            self._capacity = _count_lines(self._path)
            with self._path.open(encoding="utf-8-sig", newline="") as stream, np.errstate(over="ignore"):
                self._read(stream)
        except UnicodeDecodeError as error:
            raise DataError(f"{self._place()}: is not UTF-8 text (byte {error.start}: {error.reason})") from None
        except OSError as error:
            raise DataError(f"{self._place()}: {reason(error)}") from None
        if not len(self._lines):
            raise DataError(f"{self._place()}: there is no sample in it")
        if self.labels is not None:
            try:
                self.notices += self.labels.check(self.lines)  # type: ignore[arg-type]
            except DataError:
                if self.doubt is None:
                    raise
                raise DataError(self.doubt) from None

    def count_columns(self) -> int:
        """Fields of the first line that is not blank, of which alone this reads; DataError when there is none."""
        try:
            with self._path.open(encoding="utf-8-sig", newline="") as stream:
                first = next(self._rows(stream), None)
        except (UnicodeDecodeError, OSError):
            first = None
        if first is None:
            raise DataError(f"{self._place()}: there is no line to read in it")
        return len(first.fields)

    def _read(self, stream: TextIO) -> None:
        rows = self._rows(stream)
        first = next(rows, None)
        if first is None:
            return
        self.width = len(first.fields)
        # A row takes a character and a mark for each value, so that a file cannot ask for more than it is long.
        self._capacity = min(self._capacity, self._path.stat().st_size // (2 * self.width) + 1)
        self._values, self._lines = Series("f", self._capacity * self.width), Series("q", self._capacity)
        if self._wanted is None or len(self._wanted) == 1:
            self.labels = LabelColumn(self._place, self._capacity)
        second = next(rows, None)
        if self._is_header(first, second):
            self.columns = [field.strip() for field in first.fields]
            self.header = tuple(self.columns)
            if second is not None:
                self._find_words(second)
        self._arrange(first)
        if not self.columns:
            self._add(first)
        if second is not None:
            self._add(second)
        for row in rows:
            self._add(row)

    def _rows(self, stream: TextIO) -> Iterator[_Line]:
        """Lines that are not blank, in fields."""
        lines = self._bounded(stream)
        start = next((number_line for number_line in lines if number_line[1].strip()), None)
        if start is None:
            return
        delimiter = self._delimiter or _find_delimiter(start[1])
        if delimiter == " ":
            yield _Line(start[0], start[1].split())
            yield from (_Line(number, line.split()) for number, line in lines if line.strip())
            return
        number = start[0]

        def texts() -> Iterator[str]:
            nonlocal number
            yield start[1]
            for number, line in lines:  # noqa: B007 - read by the loop below
                yield line

        reader = csv.reader(texts(), delimiter=delimiter, strict=True)
        before = number - 1
        try:
            for fields in reader:
                begin, before = before + 1, number
                if len(fields) > 1 or (fields and fields[0].strip()):
                    yield _Line(begin, fields)
        except csv.Error as error:
            raise DataError(f"{self._place(number)}: {error}") from None

    def _bounded(self, stream: TextIO) -> Iterator[tuple[int, str]]:
        number = 0
        while line := stream.readline(_LONGEST_LINE):
            number += 1
            if len(line) == _LONGEST_LINE:
                raise DataError(f"{self._place(number)}: the line has more than {_LONGEST_LINE} characters")
            if "\0" in line:
                raise DataError(f"{self._place(number)}: there is a NUL byte in the line, this is no text")
            yield number, line

    def _is_header(self, first: _Line, second: _Line | None) -> bool:
        if self._header != "auto":
            return self._header == "true"
        if self._wanted is not None and any(not is_index(column) for column in self._wanted):
            return True  # columns named in words need a line with the words
        fields = [field.strip() for field in first.fields]
        labels = {len(fields) - 1} if self._wanted is None else {int(c) % max(1, len(fields)) for c in self._wanted}
        features = [field for k, field in enumerate(fields) if k not in labels] or fields
        numeric = sum(is_number(field) for field in features)
        words = sum(field.lower() not in MISSING and not is_number(field) for field in features)
        if words and numeric:
            word = next(f for f in features if not is_number(f) and f.lower() not in MISSING)
            raise DataError(
                f"{self._place(first.number)}: expected a number, got {quoted(word)}; "
                "if the line is a header, say so with header = true"
            )
        if words:
            return True
        # Numbers as names of the features, but a word over a label column of numbers.
        return second is not None and len(second.fields) == len(fields) and any(
            not is_number(fields[k]) and is_number(second.fields[k].strip()) for k in labels
        )  # fmt: skip

    def _find_words(self, row: _Line) -> None:
        """Read the only column of words as the label, which nobody named, for now."""
        fields = [field.strip() for field in row.fields]
        words = [k for k, text in enumerate(fields) if not is_number(text) and text.lower() not in MISSING]
        if self._wanted is not None or len(fields) != self.width or len(words) != 1 or words[0] == self.width - 1:
            return
        self.doubt = self._bad_value(row).message
        self._order = [k for k in range(self.width) if k != words[0]] + words
        self.columns = [self.header[k] for k in self._order]

    def _arrange(self, first: _Line) -> None:
        if self._wanted is None or not self._wanted:
            return
        labels = [self._column(column, first) for column in self._wanted]
        distinct = set(labels)
        if len(distinct) != len(labels):
            raise DataError(f"{self._place(first.number)}: a label column is named twice")
        self._order = [k for k in range(self.width) if k not in distinct] + labels
        if self.columns:
            self.columns = [self.columns[k] for k in self._order]

    def _column(self, column: str | int, first: _Line) -> int:
        if isinstance(column, str) and column in self.columns:
            return self.columns.index(column)
        if is_index(column):
            index = int(column)
            if -self.width <= index < self.width:
                return index % self.width
            raise DataError(f"{self._place(first.number)}: there is no column {index}, the line has {self.width}")
        known = self.columns or []
        raise DataError(
            f"{self._place(first.number)}: there is no column {quoted(column)}{did_you_mean(str(column), known)}"
            + ("" if known else " (the file has no header)")
        )

    def _add(self, row: _Line) -> None:
        fields = row.fields
        if len(fields) != self.width:
            raise DataError(
                f"{self._place(row.number)}: expected {counted(self.width, 'value')}"
                f" as in the first line, got {len(fields)}"
            )
        if self._order is not None:
            fields = [fields[k] for k in self._order]
        recent = self._values.recent
        start = len(recent)
        try:
            recent.extend(map(float, fields if self.labels is None else fields[:-1]))
        except ValueError:
            raise self._bad_value(row) from None
        if self.labels is not None:
            text = fields[-1].strip()
            if text.lower() in MISSING_LABELS:
                raise self._bad_value(row)
            recent.append(self.labels.add(row.number, text))
        if not np.isfinite(np.frombuffer(recent, dtype=np.float32)[start:]).all() or "_" in "".join(fields[:-1]):
            raise self._bad_value(row)
        if len(self._lines) == self._capacity:
            raise DataError(f"{self._place(row.number)}: the file became longer while it was read")
        self._lines.recent.append(row.number)
        self._lines.keep()
        self._values.keep()

    def _bad_value(self, row: _Line) -> DataError:
        """What is wrong with the first bad value of a line."""
        last = self._order[-1] if self._order is not None else self.width - 1
        for k, field in enumerate(row.fields):
            text = field.strip()
            label = self.labels is not None and k == last
            if is_number(text) and abs(float(text)) <= _LARGEST and "_" not in text:
                continue
            of = f" ({printable(self.header[k])})" if self.header else ""
            if text.lower() in (MISSING_LABELS if label else MISSING):
                return DataError(
                    f"{self._place(row.number)}: column {k + 1}{of}: the value is missing, got {quoted(text)}"
                )
            if is_number(text) and abs(float(text)) > _LARGEST:
                return DataError(
                    f"{self._place(row.number)}: column {k + 1}{of}: {quoted(text)} is too large for float32"
                )
            if not is_number(text) and not label:
                known = self._features is None or not self.header or self.header[k] in self._features
                stranger = "" if known else "; it was no input in training, leave it out"
                return DataError(
                    f"{self._place(row.number)}: column {k + 1}{of}: expected a number, got {quoted(text)}{stranger}"
                )
        return DataError(f"{self._place(row.number)}: expected finite numbers")

    def _place(self, line: int = 0) -> str:
        return printable(str(self._path)) + (f":{line}" if line else "")


def _count_lines(path: Path) -> int:
    """How many lines the file has at most."""
    count = 1
    with path.open("rb") as stream:
        while piece := stream.read(_CHUNK):
            count += piece.count(b"\n") + piece.count(b"\r")
    return count


def _find_delimiter(line: str) -> str:
    return next((mark for mark in ("\t", ";", ",") if mark in line), " ")
