"""What a kind of property is, and the kinds that hold one word: truth values, words, names, paths.

A kind knows its values in both forms, INI text and Python, and can give examples of good and bad texts from which tests
are generated. The syntaxes are those of NNTrainer's INI files; where ours differ, ``docs/differences.md`` says so.
"""

from __future__ import annotations

import enum as python_enum
import os
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from nntrainer_py.errors import PropertyError, did_you_mean

T = TypeVar("T")
Warn = Callable[[str], None]


def warn_python(message: str) -> None:
    """Where warnings of a value go when nobody else asks for them."""
    warnings.warn(message, UserWarning, stacklevel=4)


class Kind(ABC, Generic[T]):
    """Parses, checks, prints and explains the values of a property.

    ``expectation`` completes "expected ..., got ..." in messages.
    """

    expectation: str

    @abstractmethod
    def parse(self, text: str, warn: Warn = warn_python) -> T:
        """The value of an INI text; `PropertyError` when it is none."""

    @abstractmethod
    def convert(self, value: object, warn: Warn = warn_python) -> T:
        """The value of a Python object that is not a text; `PropertyError` when it does not fit."""

    def check(self, value: object, warn: Warn = warn_python) -> T:
        """The value of a Python object or of an INI text."""
        return self.parse(value, warn) if isinstance(value, str) else self.convert(value, warn)

    @abstractmethod
    def format(self, value: T) -> str:
        """INI text that parses to exactly ``value``."""

    @abstractmethod
    def describe(self) -> str:
        """The syntax in a few words, for documentation."""

    @abstractmethod
    def good_examples(self) -> list[str]:
        """INI texts that are accepted."""

    @abstractmethod
    def bad_examples(self) -> list[str]:
        """INI texts that are refused."""

    def refuse(self, found: object, hint: str = "") -> PropertyError:
        """The error for a value that does not fit."""
        return PropertyError(self.expectation, found, hint=hint)


class BooleanKind(Kind[bool]):
    """``true`` or ``false`` in any case."""

    expectation = "true or false"

    def parse(self, text: str, warn: Warn = warn_python) -> bool:
        word = text.strip().lower()
        if word not in ("true", "false"):
            raise self.refuse(text)
        return word == "true"

    def convert(self, value: object, warn: Warn = warn_python) -> bool:
        # NumPy's truth value is no bool, but nothing else is called so
        if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):
            raise self.refuse(value)
        return bool(value)

    def format(self, value: bool) -> str:
        return "true" if value else "false"

    def describe(self) -> str:
        return "true or false"

    def good_examples(self) -> list[str]:
        return ["true", "false", "True", "FALSE"]

    def bad_examples(self) -> list[str]:
        return ["", "yes", "0", "1", "truee", "true,false"]


class EnumKind(Kind[str]):
    """One of a list of words, compared without case; the value is the word as it was declared."""

    def __init__(self, words: Sequence[str], aliases: Mapping[str, str] | None = None) -> None:
        self.words = tuple(words)
        self.aliases = dict(aliases or {})
        unknown = set(self.aliases.values()) - set(self.words)
        if unknown or len({w.lower() for w in self.words}) != len(self.words) or not self.words:
            raise ValueError(f"enum needs distinct words, and aliases of these: {words}, {sorted(unknown)}")
        self._known = {w.lower(): w for w in self.words} | {a.lower(): w for a, w in self.aliases.items()}
        self.expectation = "one of " + ", ".join(self.words)

    def parse(self, text: str, warn: Warn = warn_python) -> str:
        word = self._known.get(text.strip().lower())
        if word is None:
            raise self.refuse(text, did_you_mean(text.strip(), self._known))
        return word

    def convert(self, value: object, warn: Warn = warn_python) -> str:
        if isinstance(value, python_enum.Enum) and isinstance(value.value, str):
            return self.parse(value.value)
        raise self.refuse(value)

    def format(self, value: str) -> str:
        return value

    def describe(self) -> str:
        extra = [f"{alias} = {word}" for alias, word in self.aliases.items()]
        return ", ".join(self.words) + (f" (also {', '.join(extra)})" if extra else "")

    def good_examples(self) -> list[str]:
        return [*self.words, self.words[0].upper(), self.words[-1].lower(), *self.aliases]

    def bad_examples(self) -> list[str]:
        return ["", self.words[0] + "_x", "no such word", ",".join(self.words) + ",", "1"]


class StringKind(Kind[str]):
    """Any text that is not empty, kept as it is."""

    expectation = "a text that is not empty"

    def parse(self, text: str, warn: Warn = warn_python) -> str:
        if not text.strip() or "\0" in text or "\n" in text or "\r" in text:
            raise self.refuse(text)
        return text

    def convert(self, value: object, warn: Warn = warn_python) -> str:
        raise self.refuse(value)

    def format(self, value: str) -> str:
        return value

    def describe(self) -> str:
        return "text"

    def good_examples(self) -> list[str]:
        return ["word", "two words", "50 % of $x [sic]"]

    def bad_examples(self) -> list[str]:
        return ["", " ", "a\nb", "a\0b"]


class PathKind(StringKind):
    """A path; blanks, brackets, ``%``, ``$``, quotes and letters of every script are ordinary characters in it."""

    expectation = "a path"

    def convert(self, value: object, warn: Warn = warn_python) -> str:
        if isinstance(value, os.PathLike):
            return self.parse(os.fsdecode(value))
        raise self.refuse(value)

    def describe(self) -> str:
        return "path"

    def good_examples(self) -> list[str]:
        return ["model.bin", "out/60% keyboard/$x/m.bin", "a [1]/b's.bin", "h\u00e9/\ud55c\uae00.bin"]


NAME_PATTERN = r"[a-z0-9][a-z0-9_./-]*"
_NAME = re.compile(NAME_PATTERN)
_LONGEST_NAME = 255


class NameKind(Kind[str]):
    """The name of a layer: a letter or digit, then letters, digits, ``-``, ``_``, ``.``, ``/``; lower-cased."""

    expectation = "a name (a letter or digit, then letters, digits and -_./)"

    def parse(self, text: str, warn: Warn = warn_python) -> str:
        name = text.strip().lower()
        if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
            raise self.refuse(text)
        return name

    def convert(self, value: object, warn: Warn = warn_python) -> str:
        raise self.refuse(value)

    def format(self, value: str) -> str:
        return value

    def describe(self) -> str:
        return "name"

    def good_examples(self) -> list[str]:
        return ["conv1", "Block/conv-1.a_b", "0"]

    def bad_examples(self) -> list[str]:
        return ["", "-a", "_a", "a b", "a(0)", "a,b", "\u00e9", "a" * (_LONGEST_NAME + 1)]
