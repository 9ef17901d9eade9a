"""The only label column of a table in a text file: numbers, or names of classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nntrainer_py.data.numerals import is_infinite, is_number, number_of
from nntrainer_py.data.texts import Series, Texts
from nntrainer_py.errors import DataError, quoted

_MOSTLY = 0.9  # share of numbers among labels from which on a word among them is taken for a slip
_MOST_CLASSES = 10_000  # numbers of more different values are measurements, not names of classes


class LabelColumn:
    """Takes the labels one after the other and keeps their texts as long as they may turn out to be names of classes.

    Args:
        place: how a message calls a line of the file.
        capacity: labels that may come at most.
    """

    def __init__(self, place: Callable[[int], str], capacity: int) -> None:
        self._place = place
        self._named = False  # whether there was a label that is no number
        self._odd: tuple[int, str] | None = None  # line and text of the first such label
        self._infinite: tuple[int, str] | None = None  # of the first that is a number, but none that is finite
        self._codes: Series | None = Series("i", capacity)  # None when they can only be numbers
        self._known: dict[str, int] = {}

    @property
    def names(self) -> Texts | None:
        """The class name of each sample; None when the labels are numbers."""
        return Texts(tuple(self._known), self._codes.all()) if self._named and self._codes is not None else None

    def add(self, line: int, text: str) -> float:
        """The label of the next sample as a number, 0 for a name; DataError for a word among too many numbers."""
        number = number_of(text)
        if number is None:
            if self._codes is None:
                raise DataError(f"{self._place(line)}: expected a number as in the lines before, got {quoted(text)}")
            self._named = True
            self._odd = self._odd or (line, text)
            if self._infinite is None and is_infinite(text):
                self._infinite = (line, text)
        if self._codes is not None:
            self._codes.recent.append(self._known.setdefault(text, len(self._known)))
            self._codes.keep()
            if len(self._known) > _MOST_CLASSES and not self._named:
                self._codes, self._known = None, {}
        return 0.0 if number is None else number

    def check(self, lines: Sequence[int]) -> list[str]:
        """Numbers and words together are names of classes only where a slip cannot have made them that.

        Args:
            lines: of all samples.

        Returns:
            What the user should know of.
        """
        names = self.names
        if names is None or self._odd is None:
            return []
        numeric = {text for text in self._known if is_number(text)}
        if self._infinite is not None and numeric:
            line, text = self._infinite
            raise DataError(f"{self._place(line)}: expected a finite number, got {quoted(text)}")
        amounts = np.bincount(names.codes, minlength=len(names.known)).tolist()
        count, total = sum(n for n, text in zip(amounts, names.known, strict=True) if text in numeric), len(names)
        line, text = self._odd
        if count >= _MOSTLY * total:
            raise DataError(
                f"{self._place(line)}: expected a number, as {count} of {total} samples have in this column, "
                f"got {quoted(text)}; if all are names of classes, write the numbers with a letter, such as class_1"
            )
        self._refuse_spellings(names, lines)
        if not count:
            return []
        return [
            f"{self._place(line)}: the label {quoted(text)} is no number, so that all labels are names of classes, "
            "in the order of text"
        ]

    def _refuse_spellings(self, names: Texts, lines: Sequence[int]) -> None:
        """One number in two spellings, such as 1 and 1.0, would be two classes."""
        spelled: dict[float, str] = {}
        for text in self._known:
            value = number_of(text)
            first = text if value is None else spelled.setdefault(value, text)
            if first != text:
                here, there = (lines[names.first(self._known[one])] for one in (text, first))
                raise DataError(
                    f"{self._place(here)}: the label {quoted(text)} is the same number as "
                    f"{quoted(first)} in line {there}, and as names they would be two "
                    "classes; write it in one way"
                )
