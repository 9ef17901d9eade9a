"""What a text in a table or list stands for: a number, a missing value, a column by its number."""

from __future__ import annotations

import math

MISSING_LABELS = frozenset({"", "na", "n/a", "nan", "?"})
MISSING = MISSING_LABELS | frozenset({"null", "none", "-"})


def number_of(text: str) -> float | None:
    """The finite number that ``text`` is; None for any other text."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in text else None


def is_number(text: str) -> bool:
    """Whether a text is a finite number."""
    return number_of(text) is not None


def is_infinite(text: str) -> bool:
    """Whether a text is read as a number that is not finite."""
    try:
        return not math.isfinite(float(text))
    except ValueError:
        return False


def is_index(column: str | int) -> bool:
    """Whether a column is named by its number."""
    return isinstance(column, int) or column.lstrip("+-").isdecimal()
