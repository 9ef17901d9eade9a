"""What can go wrong, and how it is said.

The tree (exit code of the command-line tools in brackets)::

    NNTrainerError                      [2]
    +-- UsageError                      [2]    a call or a command that cannot be right
    |   +-- PropertyError               [2]    one value does not fit its property (also a ValueError)
    |   +-- MissingExtraError           [2]    an optional library is not installed
    |   +-- LibraryVersionError         [2]    a library of a version that does not do (also an ImportError)
    |   +-- ForkError                   [2]    used in a forked child, where our threads do not exist
    +-- DescriptionError                [2]    a model description with one or more faults
    +-- PlanError                       [2]    the memory budget cannot be met
    +-- DataError                       [3]    data missing, empty, unreadable, of the wrong stride or range
    +-- WeightFileError                 [3]    a weight file of the wrong size, layout or content
    +-- NumericalError                  [4]    loss, gradient or weight is not finite
    +-- InterruptedRun                  [130]  Ctrl-C; 143 for a termination request

Every message follows one grammar, ``model.ini:27: [conv1] kernel_size: expected 2 positive integers, got '5'``, of
which any part that is not known is left out.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Self

_SHOWN = 80  # characters of a user's value that a message repeats
_BEGINNING = 4  # characters that a known word has at least, of which it is told that it begins an unknown one


def quoted(value: object) -> str:
    """``value`` as a message shows it: in quotes when text, control characters escaped, long ones cut."""
    try:
        text = value if isinstance(value, str) else str(value)
    except ValueError:  # an integer of more digits than Python converts
        text = f"a {type(value).__name__} too long to show"
    shown = printable(text[:_SHOWN])
    if len(text) > _SHOWN:
        shown += f"... ({len(text)} characters)"
    return f"'{shown}'" if isinstance(value, str) else shown


def printable(text: str) -> str:
    """``text`` with control characters and lone surrogates escaped; letters of every script stay as they are."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def counted(number: int, noun: str, plural: str = "") -> str:
    """``1 epoch``, ``2 epochs``; ``plural`` where an s does not make it."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The known word closest to ``word``, or None when none is close enough to be a likely slip.

    The dashes of options make no two of them alike. Where no word is close, one that begins the other is a likely
    slip, too: ``crossentropy`` for ``cross``.
    """
    known = {w.lower().lstrip("-"): w for w in words}
    wanted = word.lower().lstrip("-")[:_SHOWN]
    match = difflib.get_close_matches(wanted, list(known), n=1, cutoff=0.6)
    if match:
        return known[match[0]]
    beginnings = [w for w in known if len(w) >= _BEGINNING and wanted.startswith(w)]
    return known[max(beginnings, key=len)] if beginnings else None


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """``"; did you mean 'unit'?"`` for a slip, an empty text otherwise."""
    match = nearest(word, words)
    return f"; did you mean '{match}'?" if match is not None else ""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where something was written: a file, a line (1-based, 0 when unknown) and a section as the user spelled it."""

    file: str = ""
    line: int = 0
    section: str | None = None

    def __str__(self) -> str:
        place = printable(self.file)
        if self.line:
            place += f":{self.line}" if place else f"line {self.line}"
        if self.section is not None:
            place += f"{': ' if place else ''}[{printable(self.section)}]"
        return place


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, and where. ``str`` gives the grammar at the top of this file."""

    file: str
    line: int
    section: str | None
    key: str
    message: str

    @classmethod
    def at(cls, origin: Origin | None, key: str, message: str) -> Self:
        """A fault at ``origin`` (None: nowhere in particular)."""
        where = origin or Origin()
        return cls(where.file, where.line, where.section, key, message)

    @property
    def origin(self) -> Origin:
        """The place without the key."""
        return Origin(self.file, self.line, self.section)

    def __str__(self) -> str:
        place = str(self.origin)
        key = printable(self.key)
        if place and key:
            # after "[section]" a blank joins the key; after a bare file and line a colon does
            place += f" {key}" if self.section is not None else f": {key}"
        else:
            place = place or key
        if not place:
            return self.message
        joint = " " if self.section is not None and not key else ": "
        return f"{place}{joint}{self.message}"


class Notice(Fault):
    """A warning: the run goes on, but the user should know."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"warning: {Fault.__str__(self)}"


class DataWarning(UserWarning):
    """Data that can be trained on, but looks as if it were not meant so; for the filters of Python's `warnings`."""


class NNTrainerError(Exception):
    """Base of every error this package raises on purpose.

    ``origin`` and ``key`` say where the cause was written, when that is known; a caller that knows more adds it with
    `located`.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, *, origin: Origin | None = None, key: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.origin = origin
        self.key = key

    def located(self, origin: Origin | None, key: str = "") -> Self:
        """Fill in the place where none is known yet, and return the error itself."""
        if self.origin is None:
            self.origin = origin
        self.key = self.key or key
        return self

    @property
    def faults(self) -> list[Fault]:
        """The error as a list of faults (one, except for `DescriptionError`)."""
        return [Fault.at(self.origin, self.key, self.message)]

    def __str__(self) -> str:
        return "\n".join(map(str, self.faults))


class UsageError(NNTrainerError):
    """A call or a command that cannot be right."""


class PropertyError(UsageError, ValueError):
    """A value that does not fit its property: what was expected, and what was found (INI text or a Python value)."""

    def __init__(
        self, expectation: str, found: object, *, origin: Origin | None = None, key: str = "", hint: str = ""
    ) -> None:
        super().__init__(f"expected {expectation}, got {quoted(found)}{hint}", origin=origin, key=key)
        self.expectation = expectation
        self.found = found


class MissingExtraError(UsageError):
    """A feature needs an optional library; the message names the extra that installs it."""

    def __init__(self, extra: str, feature: str) -> None:
        super().__init__(f'{feature} needs an optional library; install it with: pip install "nntrainer_py[{extra}]"')
        self.extra = extra
        self.feature = feature


class LibraryVersionError(UsageError, ImportError):
    """An installed library is of a version that does not do."""


class ForkError(UsageError):
    """The package is used in a forked child of a process that already used it; start workers by spawn instead."""


class DescriptionError(NNTrainerError):
    """A model description that cannot be used; carries every fault that was found."""

    def __init__(self, faults: str | Fault | Iterable[Fault], *, origin: Origin | None = None, key: str = "") -> None:
        if isinstance(faults, str):
            faults = Fault.at(origin, key, faults)
        self._faults: list[Fault] = [faults] if isinstance(faults, Fault) else list(faults)
        super().__init__("\n".join(map(str, self._faults)), origin=origin, key=key)

    def located(self, origin: Origin | None, key: str = "") -> Self:
        """Fill in the place of those faults that have none."""
        self._faults = [
            replace(f, file=origin.file, line=origin.line, section=origin.section, key=f.key or key)
            if origin is not None and f.origin == Origin()
            else f
            for f in self._faults
        ]
        self.message = "\n".join(map(str, self._faults))
        return super().located(origin, key)

    @property
    def faults(self) -> list[Fault]:
        """Every fault, in the order found."""
        return list(self._faults)


class PlanError(NNTrainerError):
    """No plan fits the memory budget; the message gives the least that would do.

    ``smallest`` is that budget in bytes, 0 where it is not known.
    """

    def __init__(self, message: str, *, origin: Origin | None = None, key: str = "", smallest: int = 0) -> None:
        super().__init__(message, origin=origin, key=key)
        self.smallest = smallest


class DataError(NNTrainerError):
    """Data that is missing, empty, unreadable, of the wrong size or out of range."""

    exit_code: ClassVar[int] = 3


class WeightFileError(NNTrainerError):
    """A weight file whose size, layout or content does not fit the model."""

    exit_code: ClassVar[int] = 3


class NumericalError(NNTrainerError):
    """A loss, gradient or weight stopped being finite."""

    exit_code: ClassVar[int] = 4


class InterruptedRun(NNTrainerError):
    """The user or the system stopped the run: signal 2 (interrupt) or 15 (termination)."""

    exit_code: ClassVar[int] = 130

    def __init__(self, message: str = "interrupted", *, signal: int = 2) -> None:
        super().__init__(message)
        self.signal = signal
        self.exit_code = 128 + signal  # type: ignore[misc]  # the one error whose code depends on its cause


class Faults:
    """Gathers faults and notices, so that a user sees all of them at once."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []
        self.notices: list[Notice] = []

    def __bool__(self) -> bool:
        return bool(self.faults)

    def __len__(self) -> int:
        return len(self.faults)

    def __iter__(self) -> Iterator[Fault]:
        return iter(self.faults)

    def add(self, message: str, origin: Origin | None = None, key: str = "") -> None:
        """Note a fault."""
        self.faults.append(Fault.at(origin, key, message))

    def warn(self, message: str, origin: Origin | None = None, key: str = "") -> None:
        """Note a warning."""
        self.notices.append(Notice.at(origin, key, message))

    def keys(self, origin: Origin | None) -> set[str]:
        """The keys of the section at ``origin`` with which something is wrong."""
        where = origin or Origin()
        return {fault.key for fault in self.faults if (fault.file, fault.section) == (where.file, where.section)}

    def absorb(self, error: NNTrainerError, origin: Origin | None = None, key: str = "") -> None:
        """Note every fault of an error; ``origin`` and ``key`` fill in what it does not know itself."""
        self.faults.extend(error.located(origin, key).faults)

    @contextmanager
    def gather(self, origin: Origin | None = None, key: str = "") -> Iterator[None]:
        """Turn usage and description errors raised in the block into faults; all others pass."""
        try:
            yield
        except (UsageError, DescriptionError, PlanError) as error:
            self.absorb(error, origin, key)

    def raise_if_any(self) -> None:
        """Raise one `DescriptionError` with all faults, ordered by line within each file, or do nothing."""
        if self.faults:
            files = list(dict.fromkeys(f.file for f in self.faults))
            # faults without a line (something is missing) come after those that have one
            ordered = sorted(self.faults, key=lambda f: (files.index(f.file), f.line or float("inf")))
            raise DescriptionError(dict.fromkeys(ordered))
