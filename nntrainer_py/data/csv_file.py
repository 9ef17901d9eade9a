"""Tables in text files: numbers separated by commas (or semicolons, tabs, blanks), one sample a line."""

from __future__ import annotations

import csv
import os
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from nntrainer_py.data.dataset import Shape, size_of
from nntrainer_py.data.files import checked_file, known_format, reason
from nntrainer_py.data.labels import indices_of_names
from nntrainer_py.data.rows import TableDataset
from nntrainer_py.errors import DataError, Origin, counted, did_you_mean, printable, quoted

HEADERS = ("auto", "true", "false")
MISSING_LABELS = frozenset({"", "na", "n/a", "nan", "?"})
MISSING = MISSING_LABELS | frozenset({"null", "none", "-"})
_MOSTLY = 0.9  # share of numbers among labels from which on a word among them is taken for a slip
_MOST_CLASSES = 10_000  # numbers of more different values are measurements, not names of classes
_LARGEST = float(np.finfo(np.float32).max)
_ROWS = 1 << 12  # that change their order at once
_SHOWN = 5  # names of columns in a message
_LONGEST_LINE = 1 << 24  # characters; a longer one is no table, and would be read into memory whole


@dataclass(frozen=True, slots=True)
class _Line:
    number: int  # of its first line in the file, from 1
    fields: list[str]


class CsvDataset(TableDataset):
    """A CSV file, read into memory as float32.

    Blank lines, CR LF, lone CR and a byte order mark are fine. Every value must be there and be a finite number, except
    in one label column, which may hold class names; they get their indices in sorted order. Where 9 of 10 labels are
    numbers, one that is none is a fault: it would make names of all of them. Columns under a header are taken by the
    names that `expected_features` has, in whatever order they come.

    Args:
        path: the file, UTF-8.
        header: "true", "false", or "auto": the first line is a header when none of its features is a number.
        labels: label columns by header name or number (from 0, negative from the end); () for none. The default, None,
            takes as many at the end of the line as the model needs: whole labels, or one class index or name.
        delimiter: one character, " " for any run of blanks; None finds it from the first line.
    """

    kind = "csv"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        header: str = "auto",
        labels: Sequence[str | int] | None = None,
        delimiter: str | None = None,
        origin: Origin | None = None,
        key: str = "",
    ) -> None:
        if header not in HEADERS:
            raise ValueError(f"header: expected one of {', '.join(HEADERS)}, got {header!r}")
        self.path = checked_file(path, origin=origin, key=key)
        try:
            found = known_format(self.path)
            if found is not None:
                raise DataError(f"{printable(str(self.path))}: expected a text file, this looks like {found}")
            table = _Table(self.path, header, labels, delimiter)
            table.read()
        except DataError as error:
            raise error.located(origin, key) from None
        self._lines = np.frombuffer(table.lines, dtype=np.int64)
        self._names = table.names
        self.columns = table.columns
        super().__init__(
            np.frombuffer(table.values, dtype=np.float32).reshape(len(self._lines), table.width),
            str(path),
            label_columns=1 if labels is None else len(labels),
        )
        self.origin, self.key = origin, key
        self.notices += table.notices
        self.resident_bytes = self._gatherer.source.nbytes + self._lines.nbytes
        self._explicit = None if labels is None else len(labels)
        if self._names is not None:
            self._number_names(tuple(sorted(set(self._names))))

    def where(self, sample: int) -> str:
        return f"{printable(self.name)}:{self._lines[sample]}"

    def _fit(self, inputs: list[Shape], labels: list[Shape], class_names: tuple[str, ...] | None) -> list[int]:
        if self._names is not None and class_names is not None and class_names != self.class_names:
            self._number_names(class_names)
        features = sum(map(size_of, inputs))
        if self.columns and self.expected_features is not None and len(self.expected_features) == features:
            self._arrange(self.expected_features)
        raw = super()._fit(inputs, labels, class_names)
        named = self.columns[:features]
        self.feature_names = tuple(named) if all(named) and len(set(named)) == len(named) > 0 else None
        if self._explicit is not None and labels and sum(raw) != self._explicit:
            raise self.error(
                f"wrong stride: {self._explicit} label columns are named, the model takes {sum(raw)} or fewer"
            )
        if self._names is not None and sum(raw) > 1:
            raise self.error(f"line {self._lines[0]}: expected numbers in all columns, got {quoted(self._names[0])}")
        if self._names is None and self.columns and len(labels) == 1 and raw[0] > 1:
            self._name_columns(self.columns[-raw[0] :], class_names)
        return raw

    def _arrange(self, features: tuple[str, ...]) -> None:
        """Put the columns in the order of training, by their names; the others, which are labels, behind them."""
        others = [k for k, name in enumerate(self.columns) if name not in features]
        missing = [name for name in features if name not in self.columns]
        if missing:
            rest = f"; others in its header: {_listed([self.columns[k] for k in others])}" if others else ""
            raise self.error(f"the header lacks columns of the training data: {_listed(missing)}{rest}")
        order = [self.columns.index(name) for name in features] + others
        if len(order) != len(self.columns):
            twice = [name for name in features if self.columns.count(name) > 1]
            raise self.error(f"the header names a column twice: {_listed(twice)}")
        if order == sorted(order):
            return
        if self._names is not None and order[-1] != len(order) - 1:
            raise self.error(f"line {self._lines[0]}: expected a number in {_listed(self.columns[-1:])}")
        table = self._gatherer.source
        for start in range(0, len(table), _ROWS):  # in pieces: a copy of the whole would double the memory
            table[start : start + _ROWS] = table[start : start + _ROWS, order]
        self.columns = [self.columns[k] for k in order]

    def _name_columns(self, columns: list[str], class_names: tuple[str, ...] | None) -> None:
        """One-hot columns under a header name the classes; another order than in training would mix them up."""
        if class_names is None:
            self.class_names = tuple(columns)
        elif set(columns) == set(class_names) and tuple(columns) != class_names:
            raise self.error(
                f"the label columns are {', '.join(map(printable, columns))}, "
                f"in the training data they are {', '.join(map(printable, class_names))}"
            )

    def _number_names(self, class_names: tuple[str, ...]) -> None:
        """Write the index of each class name to the last column."""
        assert self._names is not None
        self._gatherer.source[:, -1] = indices_of_names(self._names, class_names, self.where)
        self.class_names = class_names


class _Table:
    """Reads the file line by line; the label columns go to the end of each row."""

    def __init__(self, path: Path, header: str, labels: Sequence[str | int] | None, delimiter: str | None) -> None:
        self._path = path
        self._header = header
        self._wanted = labels
        self._delimiter = delimiter
        self.values = array("f")
        self.lines = array("q")
        self.named = False  # whether the label column holds class names
        self.notices: list[str] = []
        self._odd: tuple[int, str] | None = None  # line and text of the first label that is no number
        self._infinite: tuple[int, str] | None = None  # of the first that is a number, but none that is finite
        self.columns: list[str] = []
        self.width = 0
        self._order: list[int] | None = None  # columns in the order kept, when it is not the order in the file
        self._texts: list[str] | None = []  # of a single label column; None when they can only be numbers
        self._known: dict[str, str] = {}

    def read(self) -> None:
        try:
            with self._path.open(encoding="utf-8-sig", newline="") as stream:
                self._read(stream)
        except UnicodeDecodeError as error:
            raise DataError(f"{self._place()}: is not UTF-8 text (byte {error.start}: {error.reason})") from None
        except OSError as error:
            raise DataError(f"{self._place()}: {reason(error)}") from None
        if not self.lines:
            raise DataError(f"{self._place()}: there is no sample in it")
        self._look_at_labels()

    def _look_at_labels(self) -> None:
        """Numbers and words together are names of classes only where a slip cannot have made them that."""
        if not self.named or self._texts is None or self._odd is None:
            return
        numeric = {text for text in self._known if _is_number(text)}
        if self._infinite is not None and numeric:
            line, text = self._infinite
            raise DataError(f"{self._place(line)}: expected a finite number, got {quoted(text)}")
        count, total = sum(text in numeric for text in self._texts), len(self._texts)
        line, text = self._odd
        if count >= _MOSTLY * total:
            raise DataError(
                f"{self._place(line)}: expected a number, as {count} of {total} samples have in this column, "
                f"got {quoted(text)}; if all are names of classes, write the numbers with a letter, such as class_1"
            )
        if count:
            self.notices.append(
                f"{self._place(line)}: the label {quoted(text)} is no number, so that all labels are names of classes, "
                "in the order of text"
            )

    def _read(self, stream: TextIO) -> None:
        rows = self._rows(stream)
        first = next(rows, None)
        if first is None:
            return
        self.width = len(first.fields)
        second = next(rows, None)
        if self._is_header(first, second):
            self.columns = [field.strip() for field in first.fields]
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
        if self._wanted is not None and any(not _is_index(column) for column in self._wanted):
            return True  # columns named in words need a line with the words
        fields = [field.strip() for field in first.fields]
        labels = {len(fields) - 1} if self._wanted is None else {int(c) % max(1, len(fields)) for c in self._wanted}
        features = [field for k, field in enumerate(fields) if k not in labels] or fields
        numeric = sum(_is_number(field) for field in features)
        words = sum(field.lower() not in MISSING and not _is_number(field) for field in features)
        if words and numeric:
            word = next(f for f in features if not _is_number(f) and f.lower() not in MISSING)
            raise DataError(
                f"{self._place(first.number)}: expected a number, got {quoted(word)}; "
                "if the line is a header, say so with header = true"
            )
        if words:
            return True
        # Numbers as names of the features, but a word over a label column of numbers.
        return second is not None and len(second.fields) == len(fields) and any(
            not _is_number(fields[k]) and _is_number(second.fields[k].strip()) for k in labels
        )  # fmt: skip

    def _arrange(self, first: _Line) -> None:
        if self._wanted is None or not self._wanted:
            return
        labels = [self._column(column, first) for column in self._wanted]
        if len(set(labels)) != len(labels):
            raise DataError(f"{self._place(first.number)}: a label column is named twice")
        self._order = [k for k in range(self.width) if k not in labels] + labels
        if self.columns:
            self.columns = [self.columns[k] for k in self._order]

    def _column(self, column: str | int, first: _Line) -> int:
        if isinstance(column, str) and column in self.columns:
            return self.columns.index(column)
        if _is_index(column):
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
        single = self._wanted is None or len(self._wanted) == 1
        start = len(self.values)
        try:
            self.values.extend(map(float, fields[:-1] if single else fields))
        except ValueError:
            raise self._bad_value(row) from None
        if single:
            self._add_label(row, fields[-1].strip())
        if not np.isfinite(np.frombuffer(self.values, dtype=np.float32)[start:]).all() or "_" in "".join(fields[:-1]):
            raise self._bad_value(row)
        self.lines.append(row.number)

    def _add_label(self, row: _Line, text: str) -> None:
        """Keep the only label as a number, and as text as long as it may turn out to be a class name."""
        if text.lower() in MISSING_LABELS:
            raise self._bad_value(row)
        number = _is_number(text)
        if not number and not self.named:
            if self._texts is None:
                raise DataError(
                    f"{self._place(row.number)}: expected a number as in the lines before, got {quoted(text)}"
                )
            self.named = True
        if not number:
            self._odd = self._odd or (row.number, text)
            if self._infinite is None and _is_infinite(text):
                self._infinite = (row.number, text)
        self.values.append(float(text) if number else 0.0)
        if self._texts is not None:
            self._texts.append(self._known.setdefault(text, text))  # one object for each name
            if len(self._known) > _MOST_CLASSES and not self.named:
                self._texts = None

    @property
    def names(self) -> list[str] | None:
        """The class name of each sample; None when the label is a number."""
        return self._texts if self.named else None

    def _bad_value(self, row: _Line) -> DataError:
        """What is wrong with the first bad value of a line."""
        single = self._wanted is None or len(self._wanted) == 1
        last = self._order[-1] if self._order is not None else self.width - 1
        for k, field in enumerate(row.fields):
            text = field.strip()
            of = f" ({printable(self._name(k))})" if self.columns else ""
            label = single and k == last
            if text.lower() in (MISSING_LABELS if label else MISSING):
                return DataError(
                    f"{self._place(row.number)}: column {k + 1}{of}: the value is missing, got {quoted(text)}"
                )
            if _is_number(text) and abs(float(text)) > _LARGEST:
                return DataError(
                    f"{self._place(row.number)}: column {k + 1}{of}: {quoted(text)} is too large for float32"
                )
            if not _is_number(text) and not label:
                return DataError(
                    f"{self._place(row.number)}: column {k + 1}{of}: expected a number, got {quoted(text)}"
                )
        return DataError(f"{self._place(row.number)}: expected finite numbers")

    def _name(self, column: int) -> str:
        return self.columns[column if self._order is None else self._order.index(column)]

    def _place(self, line: int = 0) -> str:
        return printable(str(self._path)) + (f":{line}" if line else "")


def _listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(quoted, names[:_SHOWN])) + more


def _find_delimiter(line: str) -> str:
    return next((mark for mark in ("\t", ";", ",") if mark in line), " ")


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text))) and "_" not in text
    except ValueError:
        return False


def _is_infinite(text: str) -> bool:
    """Whether a text is read as a number that is not finite."""
    try:
        return not np.isfinite(float(text))
    except ValueError:
        return False


def _is_index(column: str | int) -> bool:
    return isinstance(column, int) or column.lstrip("+-").isdecimal()
