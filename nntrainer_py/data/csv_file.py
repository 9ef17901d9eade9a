"""Tables in text files: numbers separated by commas (or semicolons, tabs, blanks), one sample a line."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from nntrainer_py.data.csv_table import HEADERS, Table
from nntrainer_py.data.dataset import Float32, Shape, size_of
from nntrainer_py.data.files import checked_file, known_format
from nntrainer_py.data.labels import indices_of_names, indices_of_numbers, too_many_names
from nntrainer_py.data.rows import TableDataset
from nntrainer_py.errors import DataError, Origin, printable, quoted

_ROWS = 1 << 12  # that change their order at once
_SHOWN = 5  # names of columns in a message


class CsvDataset(TableDataset):
    """A CSV file, read into memory as float32.

    Blank lines, CR LF, lone CR and a byte order mark are fine. Every value must be there and be a finite number, except
    in one label column, which may hold class names; they get their indices in sorted order. Where 9 of 10 labels are
    numbers, one that is none is a fault: it would make names of all of them. Columns under a header are taken by the
    names that `expected_features` has, in whatever order they come; labels are what is left then.

    Args:
        path: the file, UTF-8.
        header: "true", "false", or "auto": the first line is a header when none of its features is a number.
        labels: label columns by header name or number (from 0, negative from the end); () for none. The default, None,
            takes as many at the end of the line as the model needs: whole labels, or one class index or name.
        delimiter: one character, " " for any run of blanks; None finds it from the first line.
        features: `expected_features`, where they are known before the file is read: for its messages.
    """

    kind = "csv"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        header: str = "auto",
        labels: Sequence[str | int] | None = None,
        delimiter: str | None = None,
        features: Sequence[str] | None = None,
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
            table = Table(self.path, header, labels, delimiter, features)
            table.read()
        except DataError as error:
            raise error.located(origin, key) from None
        self._lines = table.lines
        self._names = None if table.labels is None else table.labels.names
        self._numbers: Float32 | None = None  # labels as written, where `bind` put class indices in their place
        self.columns = table.columns
        self._header, self._doubt = table.header, table.doubt
        super().__init__(
            table.values,
            str(path),
            label_columns=1 if labels is None else len(labels),
        )
        self.origin, self.key = origin, key
        self.notices += table.notices
        self._count_bytes()
        self._explicit = None if labels is None else len(labels)
        if self._names is not None:
            self._number_names(tuple(sorted(self._names.known)))

    def where(self, sample: int) -> str:
        return f"{printable(self.name)}:{self._lines[sample]}"

    def _fit(self, inputs: list[Shape], labels: list[Shape], class_names: tuple[str, ...] | None) -> list[int]:
        features = sum(map(size_of, inputs))
        if self.columns and self.expected_features is not None and len(self.expected_features) == features:
            self._arrange(self.expected_features, labels)
        elif self._doubt is not None:
            raise DataError(self._doubt)
        raw = super()._fit(inputs, labels, class_names)
        named = self.columns[:features]
        self.feature_names = tuple(named) if all(named) and len(set(named)) == len(named) > 0 else None
        if self._explicit is not None and labels and sum(raw) != self._explicit:
            raise self.error(f"the label columns named are {self._explicit}, the model takes {sum(raw)} or fewer")
        if self._names is not None and (sum(raw) > 1 or self._gatherer.width == features):
            raise self.error(f"line {self._lines[0]}: expected numbers in all columns, got {quoted(self._names[0])}")
        if labels and sum(raw) == 1:
            self._take_classes(class_names)
            self._count_names(labels[0][2])
        elif self._names is None and self.columns and len(labels) == 1 and raw[0] > 1:
            self._name_columns(self.columns[-raw[0] :], class_names)
        return raw

    @property
    def label_by_name(self) -> bool:
        """Whether only the names of the training data's columns can confirm which column is the label."""
        return self._doubt is not None

    def _arrange(self, features: tuple[str, ...], labels: list[Shape]) -> None:
        """Put the columns in the order of training, by their names; the others, which are labels, behind them."""
        wanted, place = set(features), {name: k for k, name in reversed(list(enumerate(self.columns)))}
        others = [k for k, name in enumerate(self.columns) if name not in wanted]
        missing = [name for name in features if name not in place]
        if missing:
            rest = f"; others in its header: {_listed([self.columns[k] for k in others])}" if others else ""
            raise self.error(f"the header lacks columns of the training data: {_listed(missing)}{rest}")
        order = [place[name] for name in features] + others
        if len(order) != len(self.columns):
            amounts = Counter(self.columns)
            twice = [name for name in features if amounts[name] > 1]
            raise self.error(f"the header names a column twice: {_listed(twice)}")
        self._refuse_strangers(others, labels)
        if self._doubt is not None and self.columns[-1] in wanted:
            raise DataError(self._doubt)
        if order == sorted(order):
            return
        if self._names is not None and order[-1] != len(order) - 1:
            raise self.error(f"line {self._lines[0]}: expected a number in {_listed(self.columns[-1:])}")
        table = self._gatherer.source
        for start in range(0, len(table), _ROWS):  # in pieces: a copy of the whole would double the memory
            table[start : start + _ROWS] = table[start : start + _ROWS, order]
        self.columns = [self.columns[k] for k in order]

    def _refuse_strangers(self, others: list[int], labels: list[Shape]) -> None:
        """Columns that are no inputs must be as many as the labels take."""
        skipped = self._label_columns or 0
        takes = {sum(map(size_of, labels)), sum(shape[0] * shape[1] for shape in labels)} if labels else {0, skipped}
        if len(others) in takes or len(others) < min(takes):
            return  # too few are told by their number
        if self._explicit is not None:
            others, takes = others[: len(others) - self._explicit], {0}
        elif self._names is not None:
            others, takes = [k for k in others if k != len(self.columns) - 1], {0}
        named = [f"{self._header.index(self.columns[k]) + 1} ({printable(self.columns[k])})" for k in others]
        if len(named) == 1:
            what = "was not in the training data" if labels else "was no input in training"
            raise self.error(f"column {named[0]} {what}; leave it out")
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        room = f", and the labels take {' or '.join(map(str, sorted(takes)))} of them" if takes != {0} else ""
        raise self.error(
            f"columns {', '.join(named[:_SHOWN])}{more} were not among the inputs of the training data{room}; "
            "leave out what the model does not know"
        )

    def _name_columns(self, columns: list[str], class_names: tuple[str, ...] | None) -> None:
        """One-hot columns under a header name the classes; another order than in training would mix them up."""
        if class_names is None:
            self.class_names = tuple(columns)
        elif set(columns) == set(class_names) and tuple(columns) != class_names:
            raise self.error(
                f"the label columns are {', '.join(map(printable, columns))}, "
                f"in the training data they are {', '.join(map(printable, class_names))}"
            )

    def _take_classes(self, class_names: tuple[str, ...] | None) -> None:
        """Bring the last column to the class indices of the training data."""
        if self._names is not None:
            if class_names is not None and class_names != self.class_names:
                self._number_names(class_names)
            return
        column = self._gatherer.source[:, -1]
        if self._numbers is not None:  # bound to names before
            column[...], self._numbers, self.class_names = self._numbers, None, None
        if class_names:
            indices = indices_of_numbers(column, class_names, self.where)
            self._numbers = column.copy()
            column[...] = indices
            self.class_names = class_names
        self._count_bytes()

    def _count_names(self, outputs: int) -> None:
        """A name too many is refused as what it is, before the number that it got is found too large."""
        if self._names is None or (outputs == 1 and self._kind(0) != "probability"):
            return  # a single output may take any number
        found = too_many_names(self._names, outputs, lambda sample: f"line {self._lines[sample]}")
        if found is not None:
            raise self.error(found)

    def _count_bytes(self) -> None:
        numbers = 0 if self._numbers is None else self._numbers.nbytes
        names = 0 if self._names is None else self._names.nbytes
        self.resident_bytes = self._gatherer.source.nbytes + self._lines.nbytes + names + numbers

    def _number_names(self, class_names: tuple[str, ...]) -> None:
        """Write the index of each class name to the last column."""
        assert self._names is not None
        indices_of_names(self._names, class_names, self.where, self._gatherer.source[:, -1])
        self.class_names = class_names or None


def _listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(map(quoted, names[:_SHOWN])) + more
