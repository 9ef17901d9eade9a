"""Labels: class indices to one-hot rows, and the checks that keep a bad label from becoming a silent wrong number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import numpy as np
import numpy.typing as npt

from nntrainer_py.data.file_map import FAULT_BYTES, release
from nntrainer_py.data.numerals import number_of
from nntrainer_py.data.texts import Texts
from nntrainer_py.errors import DataError, counted, printable, quoted

Float32 = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]
Where = Callable[[int], str]

LABEL_KINDS = ("distribution", "probability", "finite", "any")
SUM_TOLERANCE = 1e-3  # how far the sum of a distribution may be from 1; float32 rows of 100,000 classes stay below
_CHECKED_BYTES = 1 << 19  # of labels looked at together; bounds the temporaries of a check
_CHECKED_VALUES = _CHECKED_BYTES // 8
_LISTED = 4096  # numbers that are Python objects at one time
_SHOWN = 10  # class names in a message


def encode_labels(raw: int, shape: Sequence[int]) -> Literal["direct", "index"] | None:
    """How ``raw`` values a sample become a label of ``shape``: unchanged, as class indices, or not at all."""
    channel, height, width = shape
    if raw == channel * height * width:
        return "direct"
    return "index" if raw == channel * height else None


class LabelEncoder:
    """Brings one label of the data into the shape of the model.

    Args:
        raw: values per sample in the data.
        shape: (channel, height, width) in the model.
        class_names: shown by messages.
    """

    def __init__(self, raw: int, shape: Sequence[int], class_names: tuple[str, ...] | None = None) -> None:
        mode = encode_labels(raw, shape)
        if mode is None:
            raise ValueError(f"{counted(raw, 'value')} cannot become a label of shape {tuple(shape)}")
        self.raw = raw
        self._shape = tuple(shape)
        self.classes = int(shape[2])
        self.direct = mode == "direct"
        self._names = class_names
        self._indices = np.empty((0, raw), dtype=np.float32)
        self._positions = np.empty(0, dtype=np.int64)
        self._offsets = np.empty(0, dtype=np.int64)

    def scratch_bytes(self, batch_size: int) -> int:
        """Memory kept for expanding batches of this size."""
        return 0 if self.direct else batch_size * self.raw * (4 + 8 + 8)

    def target(self, rows: Float32) -> Float32:
        """Where to write the raw values of ``rows``: (count, raw) float32, the rows themselves where they fit."""
        count = len(rows)
        if self.direct:
            return rows.reshape(count, self.raw)
        if len(self._indices) < count:
            self._indices = np.zeros((count, self.raw), dtype=np.float32)
            self._positions = np.empty(count * self.raw, dtype=np.int64)
            self._offsets = np.arange(count * self.raw, dtype=np.int64) * self.classes
        return self._indices[:count]

    def check(self, values: npt.NDArray[np.generic], kind: str, where: Where) -> None:
        """Refuse stored labels, (samples, ...) from sample 0 on, that are out of range or break ``kind``."""
        if self.direct and kind == "any":
            return
        # In a file, labels between inputs bring in pages of these.
        touched = min(values.strides[0], self.raw * values.itemsize + FAULT_BYTES) if len(values) else 0
        step = max(1, min(_CHECKED_VALUES // self.raw, 4 * _CHECKED_BYTES // max(1, touched)))
        for start in range(0, len(values), step):
            part = np.asarray(values[start : start + step])
            if self.direct:
                rows = part.astype(np.float32, copy=False).reshape(len(part), *self._shape)
                check_labels(kind, rows, start, where=where)
            else:
                check_classes(part, self.classes, None, where, first_index=start, names=self._names)
            release(values)

    def expand(self, rows: Float32, numbers: Indices, where: Where) -> None:
        """Turn the class indices last written to `target` into one-hot ``rows``; nothing to do for direct labels."""
        if self.direct:
            return
        raw = self._indices[: len(rows)]
        check_classes(raw, self.classes, numbers, where, names=self._names)
        positions = self._positions[: raw.size]
        positions[...] = raw.reshape(-1)
        positions += self._offsets[: raw.size]
        flat = rows.reshape(-1)
        flat.fill(0.0)
        flat[positions] = 1.0


def put_labels(values: npt.NDArray[np.generic], rows: Float32, classes: int, numbers: Indices, where: Where) -> None:
    """Copy labels (count, values) to ``rows`` (count, size); fewer values are class indices and become one-hot rows."""
    if values.shape == rows.shape:
        rows[...] = values
        return
    check_classes(values, classes, numbers, where)
    rows.fill(0.0)
    one_hot = rows.reshape(-1, classes)
    one_hot[np.arange(len(one_hot)), values.reshape(-1).astype(np.int64)] = 1.0


def check_classes(
    values: npt.NDArray[np.generic],
    classes: int,
    numbers: Indices | None = None,
    where: Where | None = None,
    *,
    first_index: int = 0,
    names: tuple[str, ...] | None = None,
) -> None:
    """Integer labels: whole numbers in 0..classes-1, else DataError with the sample and the value.

    Args:
        values: (samples,) or (samples, values per sample), of any real type.
        numbers: the sample number of each row; by default ``first_index`` and on.
    """
    rows = values.reshape(len(values), -1)
    step = max(1, _CHECKED_VALUES // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        good = (part >= 0) & (part < classes) & (part == np.floor(part))  # type: ignore[operator]
        if not good.all():
            break
    else:
        return
    row, column = np.argwhere(~good)[0]
    row += start
    value = rows[row, column].item()
    text = f"{value:g}" if isinstance(value, float) else str(value)
    hint = "; class numbers begin at 0" if value == classes else ""
    of = f" ({', '.join(printable(n) for n in names[:10])}{', ...' if len(names) > 10 else ''})" if names else ""
    raise DataError(
        f"{_place(row, numbers, where, first_index)}: expected a class index in 0..{classes - 1}{of}, got {text}{hint}"
    )


def check_labels(
    kind: str,
    labels: npt.NDArray[np.floating],
    first_index: int = 0,
    *,
    numbers: Indices | None = None,
    where: Where | None = None,
) -> None:
    """Refuse label rows that a loss cannot mean.

    Args:
        kind: "distribution" (softmax with cross entropy: along the last axis finite, >= 0, sum 1; soft rows are legal),
            "probability" (sigmoid with cross entropy: every value in 0..1), "finite", or "any".
        labels: (samples, ..., width).
        first_index: number of the first sample, unless ``numbers`` gives one for each row.
        where: turns a sample number into the words of the message.

    Raises:
        DataError: names the sample number and the value found.
    """
    if kind not in LABEL_KINDS:
        raise ValueError(f"label kind: expected one of {', '.join(LABEL_KINDS)}, got {kind!r}")
    if kind == "any" or labels.size == 0:
        return
    step = max(1, _CHECKED_VALUES // max(1, labels[0].size))
    for start in range(0, len(labels), step):
        part = labels[start : start + step]
        found = _first_bad(kind, part)
        if found is not None:
            row, what = found
            raise DataError(f"{_place(start + row, numbers, where, first_index)}: {what}")


def _first_bad(kind: str, part: npt.NDArray[np.floating]) -> tuple[int, str] | None:
    rows = part.reshape(len(part), -1)
    if kind == "distribution":
        low, high, meaning = 0.0, np.inf, "the label of a class must be finite and not negative"
    elif kind == "probability":
        low, high, meaning = 0.0, 1.0, "a label must lie between 0 and 1"
    else:
        low, high, meaning = -np.inf, np.inf, "a label must be finite"
    # The extremes take no memory, however long a row is; one of them is not a number where any value is none.
    least, most = rows.min(), rows.max()
    if not (np.isfinite(least) and np.isfinite(most) and least >= low and most <= high):
        bad = ~(np.isfinite(rows) & (rows >= low) & (rows <= high))
        row, column = np.argwhere(bad)[0]
        value = rows[row, column]
        hint = "; class numbers begin at 0" if kind == "probability" and value == 2 and rows.shape[1] == 1 else ""
        return int(row), f"{meaning}, got {value:g} at position {column}{hint}"
    if kind == "distribution":
        sums = part.sum(axis=-1, dtype=np.float64).reshape(len(part), -1)
        bad = np.abs(sums - 1.0) > SUM_TOLERANCE
        if bad.any():
            row, column = np.argwhere(bad)[0]
            return int(row), f"a one-hot or soft label row must sum to 1, got a sum of {sums[row, column]:g}"
    return None


def _place(row: int, numbers: Indices | None, where: Where | None, first_index: int) -> str:
    number = first_index + int(row) if numbers is None else int(numbers[row])
    return where(number) if where is not None else f"sample {number}"


class Classes:
    """Finds the index of a class by what the data calls it.

    A name stands for the class of that name, a number for the class whose name has that value (1.0 for "1"). Without
    names, when the training data has none, a number is the index itself.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._index = {name: index for index, name in enumerate(self._names)}
        values = [
            (_single(value), index) for index, name in enumerate(self._names) if (value := number_of(name)) is not None
        ]
        found = dict(values)
        #: none where two names have one value
        self._of_value: dict[float, int] = found if len(found) == len(values) else {}

    def of_text(self, text: str, place: Callable[[], str]) -> float:
        """The index of the class that a text stands for; DataError at ``place``."""
        index = self._index.get(text)
        if index is not None:
            return index
        value = number_of(text)
        if value is not None:
            return self.of_number(value, place)
        if self._names:
            raise DataError(f"{place()}: expected one of {self._shown()}, got {quoted(text)}")
        raise DataError(
            f"{place()}: got the class name {quoted(text)}, but the training data has numbers for its classes, or the "
            "weights came without its names; write these numbers here too, or train with the names"
        )

    def of_number(self, value: float, place: Callable[[], str]) -> float:
        """The index of the class that a number stands for."""
        if not self._names:
            return value
        index = self._of_value.get(_single(value))
        if index is None:
            raise DataError(
                f"{place()}: expected one of {self._shown()}, got the number {value:g}; write the names here too"
            )
        return index

    def _shown(self) -> str:
        more = ", ..." if len(self._names) > _SHOWN else ""
        return f"the class names that the model knows ({', '.join(map(printable, self._names[:_SHOWN]))}{more})"


def too_many_names(names: Texts, outputs: int, place: Callable[[int], str]) -> str | None:
    """What to tell of labels that have more names than a model has ``outputs``, of which one may be misspelt.

    ``place`` calls a sample, for a name that occurs once; None: the names are few enough.
    """
    count, classes = len(names.known), max(outputs, 2)  # one output tells two classes apart
    if count <= classes:
        return None
    amounts = np.bincount(names.codes, minlength=count)
    # of many names the rare ones, among which a slip would be
    shown = sorted(np.argsort(amounts, kind="stable")[:_SHOWN].tolist(), key=names.known.__getitem__)

    def of(name: int) -> str:
        times = f"{amounts[name]} times" if amounts[name] > 1 else f"once, {place(names.first(name))}"
        return f"{printable(names.known[name])} ({times})"

    more = f" and {count - _SHOWN} that are no rarer" if count > _SHOWN else ""
    apart = " for two classes" if outputs == 1 else ""
    return (
        f"{count} class names, but the model has {counted(outputs, 'output')}{apart}: "
        f"{', '.join(map(of, shown))}{more}; correct a name that is misspelt, or give the last layer unit = {count}"
    )


def indices_of_names(names: Texts, class_names: Sequence[str], where: Where, out: Float32 | None = None) -> Float32:
    """Class index of each name, see `Classes`; DataError with the sample for one that is none of ``class_names``.

    ``out`` (samples,) takes them, if it is given; it is not touched when there is an error.
    """
    classes = Classes(class_names)

    def find(place: int) -> float:
        return classes.of_text(names.known[place], lambda: where(names.first(place)))

    indices = np.array([find(place) for place in range(len(names.known))], dtype=np.float32)
    made = np.empty(len(names), dtype=np.float32) if out is None else out
    for start in range(0, len(names), _LISTED):
        made[start : start + _LISTED] = indices[names.codes[start : start + _LISTED]]
    return made


def indices_of_numbers(numbers: Float32, class_names: Sequence[str], where: Where) -> Float32:
    """The same for labels (samples,) that are numbers."""
    find = Classes(class_names).of_number
    known: dict[float, float] = {}
    indices = np.empty(len(numbers), dtype=np.float32)
    for start in range(0, len(numbers), _LISTED):
        for row, number in enumerate(numbers[start : start + _LISTED].tolist(), start):
            index = known.get(number)
            if index is None:
                index = known[number] = find(number, partial(where, row))
            indices[row] = index
    return indices


def _single(value: float) -> float:
    """The value that float32 keeps of a number."""
    with np.errstate(over="ignore"):
        return float(np.float32(value))
