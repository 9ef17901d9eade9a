"""Kinds of properties that hold numbers or lists of numbers.

Blanks and brackets in the text are dropped, so ``[3, 3]`` equals ``3,3``. Where NNTrainer reads ``12abc`` as 12 and
``-1`` as 4294967295 we refuse; a C float suffix (``1e-4f``) is accepted with a warning.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Generic, SupportsIndex, TypeVar

from nntrainer_py.errors import PropertyError, quoted
from nntrainer_py.properties.kinds import Kind, Warn, warn_python

T = TypeVar("T")
LARGEST_UNSIGNED = 2**32 - 1
LARGEST_INT = 2**31 - 1
SMALLEST_INT = -(2**31)
_LONGEST_NUMBER = 400  # characters; longer digit strings are refused before anything converts them
_LONGEST_LIST = 65536  # items
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)([fF]?)")
_DROPPED = str.maketrans("", "", " \t[]")


def bare(text: str) -> str:
    """The text without blanks and brackets, as NNTrainer compares numbers and lists."""
    return text.translate(_DROPPED)


class IntegerKind(Kind[int]):
    """A whole number from ``minimum`` to ``maximum``, both included."""

    def __init__(self, minimum: int = SMALLEST_INT, maximum: int = LARGEST_INT) -> None:
        self.minimum, self.maximum = minimum, maximum
        self.expectation = f"{'an' if self.noun[0] in 'aeiou' else 'a'} {self.noun}{self.limits}"

    @property
    def noun(self) -> str:
        """What such a number is called."""
        return {0: "non-negative integer", 1: "positive integer"}.get(self.minimum, "integer")

    @property
    def limits(self) -> str:
        """The bounds, where the noun does not already say them."""
        low = self.minimum not in (0, 1, SMALLEST_INT)
        high = self.maximum not in (LARGEST_INT, LARGEST_UNSIGNED)
        if low and high:
            return f" from {self.minimum} to {self.maximum}"
        return f" of at least {self.minimum}" if low else f" up to {self.maximum}" if high else ""

    def parse(self, text: str, warn: Warn = warn_python) -> int:
        digits = bare(text)
        if len(digits) > _LONGEST_NUMBER or not _INTEGER.fullmatch(digits):
            raise self.refuse(text)
        return self._bounded(int(digits), text)

    def convert(self, value: object, warn: Warn = warn_python) -> int:
        if isinstance(value, bool) or not isinstance(value, SupportsIndex):
            raise self.refuse(value)
        return self._bounded(operator.index(value), value)

    def _bounded(self, number: int, found: object) -> int:
        if not self.minimum <= number <= self.maximum:
            hint = f"; it must lie between {self.minimum} and {self.maximum}" if number > self.maximum else ""
            raise self.refuse(found, hint)
        return number

    def format(self, value: int) -> str:
        return str(value)

    def describe(self) -> str:
        return f"{self.noun}{self.limits}"

    def good_examples(self) -> list[str]:
        return [str(self.minimum), str(self.maximum), f" [{max(self.minimum, 0)}] "]

    def bad_examples(self) -> list[str]:
        outside = [str(self.minimum - 1), str(self.maximum + 1)]
        return ["", "a", "2x", "1.5", "1e1", "0x1", "1,1", "1_0", "--1", "\u0663", "9" * 5000, *outside]


class NumberKind(Kind[float]):
    """A finite number; ``minimum`` and ``maximum`` are allowed values, ``above`` and ``below`` are not."""

    def __init__(
        self,
        minimum: float | None = None,
        maximum: float | None = None,
        above: float | None = None,
        below: float | None = None,
        nonzero: bool = False,
    ) -> None:
        self.minimum, self.maximum, self.above, self.below, self.nonzero = minimum, maximum, above, below, nonzero
        self.expectation = f"a {self.describe()}"

    def parse(self, text: str, warn: Warn = warn_python) -> float:
        word = bare(text)
        match = _NUMBER.fullmatch(word) if len(word) <= _LONGEST_NUMBER else None
        if match is None:
            raise self.refuse(text)
        number = self._bounded(float(match[1]), text)
        if match[2]:
            warn(f"the suffix '{match[2]}' of '{word}' is ignored; write {match[1]}")
        return number

    def convert(self, value: object, warn: Warn = warn_python) -> float:
        if isinstance(value, bool) or not isinstance(value, Real):
            raise self.refuse(value)
        try:
            number = float(value)
        except OverflowError:
            raise self.refuse(value) from None
        return self._bounded(number, value)

    def _bounded(self, number: float, found: object) -> float:
        fits = (
            math.isfinite(number)
            and (self.minimum is None or number >= self.minimum)
            and (self.maximum is None or number <= self.maximum)
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
            and not (self.nonzero and number == 0)
        )
        if not fits:
            raise self.refuse(found)
        return number

    def format(self, value: float) -> str:
        return repr(value)

    def describe(self) -> str:
        bounds = [
            f"of at least {self.minimum:g}" if self.minimum is not None else "",
            f"above {self.above:g}" if self.above is not None else "",
            f"of at most {self.maximum:g}" if self.maximum is not None else "",
            f"below {self.below:g}" if self.below is not None else "",
            "other than 0" if self.nonzero else "",
        ]
        limits = " and ".join(filter(None, bounds))
        return f"number {limits}" if limits else "finite number"

    def good_examples(self) -> list[str]:
        tried = ["0.5", "1e-4", ".25", "[ 1. ]", "+2", "-3", "5e-324", "0.1", "10", "-0.5"]
        tried += [repr(float(b)) for b in (self.minimum, self.maximum) if b is not None]
        return [text for text in tried if self._accepts(text)]

    def bad_examples(self) -> list[str]:
        outside = [repr(float(b)) for b in (self.above, self.below) if b is not None]
        outside += [repr(b - 1.0) for b in (self.minimum,) if b is not None]
        outside += [repr(b + 1.0) for b in (self.maximum,) if b is not None]
        outside += ["0"] * self.nonzero
        return ["", "a", "nan", "inf", "-inf", "1e999", "1e", "0.1x", "1,1", "1.2.3", "1_0", "9" * 5000, *outside]

    def _accepts(self, text: str) -> bool:
        try:
            self.parse(text)
        except PropertyError:
            return False
        return True


class ListKind(Kind[tuple[T, ...]], Generic[T]):
    """Values separated by commas. ``lengths`` are the permitted numbers of items (empty: one or more)."""

    def __init__(self, item: Kind[T], lengths: Sequence[int] = (), plural: str = "") -> None:
        self.item = item
        self.lengths = tuple(lengths)
        self.plural = plural or "values"
        counts = " or ".join(map(str, self.lengths)) if self.lengths else "one or more"
        self.expectation = f"{counts} {self.plural if self.lengths != (1,) else self.plural.removesuffix('s')}"

    def parse(self, text: str, warn: Warn = warn_python) -> tuple[T, ...]:
        pieces = text.translate(str.maketrans("", "", "[]")).split(",")
        return self._gather(pieces, text, warn)

    def convert(self, value: object, warn: Warn = warn_python) -> tuple[T, ...]:
        if not isinstance(value, Iterable) or isinstance(value, (bytes, dict, set)):
            raise self.refuse(value)
        return self._gather(list(value), value, warn)

    def _gather(self, items: Sequence[object], found: object, warn: Warn) -> tuple[T, ...]:
        allowed = self.lengths or range(1, _LONGEST_LIST + 1)
        if len(items) not in allowed:
            raise self.refuse(found)
        try:
            return tuple(self.item.check(item, warn) for item in items)
        except PropertyError as error:
            wrong = "" if len(items) == 1 else f", where {quoted(error.found)} does not fit"
            raise self.refuse(found, wrong) from None

    def format(self, value: tuple[T, ...]) -> str:
        return ",".join(map(self.item.format, value))

    def describe(self) -> str:
        return self.expectation + ", separated by commas"

    def good_examples(self) -> list[str]:
        item = self.item.good_examples()[0]
        return [",".join([item] * n) for n in self.lengths or (1, 2, 3)] + [
            "[" + " , ".join([item] * n) + " ]" for n in self.lengths or (2,)
        ]

    def bad_examples(self) -> list[str]:
        count = self.lengths[0] if self.lengths else 2
        good = self.item.good_examples()[0]
        wrong = [",".join([good] * (count - 1) + [bad]) for bad in self.item.bad_examples() if "," not in bad]
        too_many = [",".join([good] * (max(self.lengths) + 1))] if self.lengths else []
        return ["", ",", ",".join([good] * count) + ",", *wrong, *too_many]


def integers(sign: str, lengths: Sequence[int] = ()) -> ListKind[int]:
    """A list of integers; ``sign`` is ``positive``, ``unsigned`` or ``any``."""
    kinds = {
        "positive": (IntegerKind(1, LARGEST_UNSIGNED), "positive integers"),
        "unsigned": (IntegerKind(0, LARGEST_UNSIGNED), "non-negative integers"),
        "any": (IntegerKind(), "integers"),
    }
    item, plural = kinds[sign]
    return ListKind(item, lengths, plural)
