"""Text of an INI file <-> sections, with the line of everything.

The lexical rules are NNTrainer's (iniparser and, on top, its property parser), the differences those of
``docs/differences.md``. This is the standard library's ``configparser`` in spirit; it is a reader of our own because
that class keeps no lines, ends at the first duplicate, knows neither quoted values nor continuation by backslash, and
gives ``%`` and ``:`` a meaning that they do not have here.

The rules: ``#`` and ``;`` begin a comment at the start of a line, after a section header, and anywhere in a value that
is not quoted. A value whose first character is a quote ends at the next such quote; inside it everything is literal,
except that a backslash makes a following quote or backslash literal. ``key = 1 | other = 2`` sets two keys. A line that
ends in a backslash is joined with the next. Keys and section names are compared in lower case. Lines end in LF, CRLF
or CR.

Values come out trimmed and unquoted but otherwise as written; what blanks and brackets mean is the property's business.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from nntrainer_py.errors import DescriptionError, Fault, Faults, Notice, Origin, quoted

LONGEST_LINE = 1024  # characters, as in iniparser
LONGEST_JOINED = 65536  # characters of a line with its continuations
LARGEST_FILE = 4 * 1024 * 1024  # bytes

_BLANKS = " \t\v\f"
_COMMENT = "#;"
_QUOTES = "\"'"
_LINE_END = re.compile(r"\r\n|\n|\r")
_PLAIN_END = re.compile(r"[|#;]")
_ESCAPE = re.compile(r"\\([\\\"'])")


@dataclass(frozen=True, slots=True)
class Entry:
    """One ``key = value``: the key in lower case, the value trimmed and unquoted, ``raw`` the value as written."""

    key: str
    value: str
    line: int = 0
    raw: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A section: its name in lower case, the line of its header, its entries, and ``title``, the name as written."""

    name: str
    line: int = 0
    entries: list[Entry] = field(default_factory=list)
    title: str = ""

    def get(self, key: str) -> Entry | None:
        """The entry of a key, in any case, or None."""
        return next((entry for entry in self.entries if entry.key == key.lower()), None)


@dataclass(frozen=True, slots=True)
class IniFile:
    """A file that was read: its path as the caller named it, its sections in order, and the warnings about it."""

    path: str
    sections: list[Section]
    notices: list[Notice] = field(default_factory=list)

    def get(self, name: str) -> Section | None:
        """The section of a name, in any case, or None."""
        return next((section for section in self.sections if section.name == name.lower()), None)

    def origin(self, section: Section, entry: Entry | None = None) -> Origin:
        """Where a section's header or one of its entries stands."""
        return Origin(self.path, entry.line if entry else section.line, section.title or section.name)

    def items(self, section: Section) -> Iterator[tuple[str, str, Origin]]:
        """Key, value and place of each entry, as `Configurable.from_texts` takes them."""
        for entry in section.entries:
            yield entry.key, entry.value, self.origin(section, entry)


def read(path: str | os.PathLike[str], faults: Faults | None = None) -> IniFile:
    """Read a file. Faults are raised together as one `DescriptionError`, or added to ``faults`` when that is given."""
    name = os.fspath(path)
    try:
        if not stat.S_ISREG(os.stat(name).st_mode):
            raise DescriptionError("not a regular file", origin=Origin(name))
        with open(name, "rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise DescriptionError(f"cannot be read: {reason}", origin=Origin(name)) from None
    return parse(_decode(data, name), name, faults)


def _decode(data: bytes, name: str) -> str:
    if len(data) > LARGEST_FILE:
        raise DescriptionError(f"larger than {LARGEST_FILE} bytes, which no model file is", origin=Origin(name))
    head = data[:256]
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or head.count(0) * 4 >= len(head) > 0:
        raise DescriptionError("encoded as UTF-16 or UTF-32; save the file as UTF-8", origin=Origin(name))
    # bytes that are no UTF-8 do not matter in comments; elsewhere the reader refuses the surrogates they become
    return data.decode("utf-8", errors="surrogateescape")


def parse(text: str, name: str = "", faults: Faults | None = None) -> IniFile:
    """Read a text; ``name`` stands for the file in messages. Faults go where `read` sends them."""
    gathered = Faults() if faults is None else faults
    notices_before = len(gathered.notices)
    reader = _Reader(name, gathered)
    reader.read(text.removeprefix("\ufeff"))
    if faults is None:
        gathered.raise_if_any()
    return IniFile(name, reader.sections, gathered.notices[notices_before:])


@dataclass(frozen=True, slots=True)
class _Line:
    """A line with its continuations joined: the text, its number, and where in the text the joints are."""

    text: str
    number: int
    joints: list[int]

    def number_at(self, position: int) -> int:
        """The number of the physical line that holds a position of the joined text."""
        return self.number + sum(joint <= position for joint in self.joints)


class _Reader:
    """Goes through a text once; keeps the section that is open and what was seen."""

    def __init__(self, name: str, faults: Faults) -> None:
        self.name = name
        self.faults = faults
        self.sections: list[Section] = []
        self._by_name: dict[str, Section] = {}
        self._keys: dict[str, Entry] = {}
        self._section: Section | None = None
        self._tried = False  # whether the open section had any line, good or bad

    def read(self, text: str) -> None:
        for line in self._lines(text):
            stripped = line.text.lstrip(_BLANKS)
            if not stripped or stripped[0] in _COMMENT:
                self._warn_swallowed(line, 0)
            elif stripped[0] == "[":
                self._close_section()
                self._header(line, stripped)
            else:
                self._tried = True
                self._pairs(line)
        self._close_section()

    def _fault(self, message: str, line: int, key: str = "") -> None:
        self.faults.add(message, self._origin(line), key)

    def _warn(self, message: str, line: int, key: str = "") -> None:
        self.faults.warn(message, self._origin(line), key)

    def _origin(self, line: int) -> Origin:
        return Origin(self.name, line, self._section.title if self._section else None)

    def _lines(self, text: str) -> Iterator[_Line]:
        """Physical lines joined at backslashes; too long ones and those with a NUL are reported and left out."""
        joined, joints, first = "", list[int](), 0
        physical = _LINE_END.split(text)
        for number, piece in enumerate(physical, 1):
            first = first or number
            content = piece.rstrip(_BLANKS)
            fits = self._fits(content, len(joined), number)
            continued = fits and content.endswith("\\") and number < len(physical)
            joined += (content[:-1] if continued else content) if fits else ""
            if continued:
                joints.append(len(joined))
                continue
            if fits:
                yield _Line(joined, first, joints)
            joined, joints, first = "", [], 0

    def _fits(self, content: str, before: int, number: int) -> bool:
        if len(content) > LONGEST_LINE or before + len(content) > LONGEST_JOINED:
            limit = LONGEST_LINE if len(content) > LONGEST_LINE else LONGEST_JOINED
            self._fault(f"expected a line of at most {limit} characters, got {before + len(content)}", number)
        elif "\0" in content:
            self._fault("expected text, got a NUL byte", number)
        else:
            return True
        self._tried = True
        return False

    def _warn_swallowed(self, line: _Line, comment: int) -> None:
        """A comment that ends in a backslash takes the next line with it, as in NNTrainer; say so."""
        for index, joint in enumerate(line.joints, 1):
            following = line.text[joint : line.joints[index] if index < len(line.joints) else None]
            if joint >= comment and following.strip(_BLANKS):
                self._warn(
                    f"the comment on line {line.number + index - 1} ends in a backslash, so this line is part of it",
                    line.number + index,
                )

    def _header(self, line: _Line, stripped: str) -> None:
        title, bracket, rest = stripped[1:].partition("]")
        title, rest = title.strip(_BLANKS), rest.strip(_BLANKS)
        section = Section(title.lower(), line.number, [], title)
        earlier = self._by_name.get(section.name)
        self._section, self._keys, self._tried = section, {}, False
        if not bracket or not _is_text(title):
            self._fault(f"expected [name], got {quoted(stripped)}", line.number)
        elif rest and rest[0] not in _COMMENT:
            self._fault(f"expected nothing but a comment after the section name, got {quoted(rest)}", line.number)
        elif earlier is not None:
            self._fault(f"the section stands on line {earlier.line} already", line.number)
        else:
            self._by_name[section.name] = section
            self.sections.append(section)
            return
        self._tried = True  # what is wrong with its name was said; its lines are still looked at

    def _close_section(self) -> None:
        if self._section is not None and not self._tried:
            self._fault("the section is empty, expected at least one 'key = value'", self._section.line)

    def _pairs(self, line: _Line) -> None:
        """``key = value``, and more of these after a ``|``."""
        position = 0
        while position < len(line.text):
            start = position
            equals = line.text.find("=", position)
            number = line.number_at(start)
            key = line.text[start:equals].strip(_BLANKS)
            if equals < 0 or not key or key[0] in _QUOTES or not _is_text(key) or any(c in key for c in "#;|"):
                self._no_pair(line.text[start:].strip(_BLANKS), start > 0, number)
                return
            position = self._value(line, equals + 1, key.lower(), number)

    def _no_pair(self, found: str, after_bar: bool, number: int) -> None:
        if after_bar:
            hint = "; a value that holds '|' needs quotes"
            self._fault(f"expected 'key = value' after '|', got {quoted(found)}{hint}", number)
        else:
            self._fault(f"expected 'key = value', a [section] or a comment, got {quoted(found)}", number)

    def _value(self, line: _Line, start: int, key: str, number: int) -> int:
        """Take one value; returns the position behind it and its ``|``, or the end of the line."""
        text = line.text
        while start < len(text) and text[start] in _BLANKS:
            start += 1
        is_quoted = start < len(text) and text[start] in _QUOTES
        if is_quoted:
            stop = _closing_quote(text, start)
            if stop < 0:
                self._fault(f"expected a closing {text[start]}, got {quoted(text[start:])}", number, key)
                return len(text)
            value, behind = _ESCAPE.sub(r"\1", text[start + 1 : stop]), stop + 1
        else:
            behind = start
        match = _PLAIN_END.search(text, behind)
        end = match.start() if match else len(text)
        left = text[behind:end].strip(_BLANKS)
        if not is_quoted:
            value = left
        elif left:
            self._warn(f"the text {quoted(left)} after the closing quote is ignored", number, key)
        self._keep(Entry(key, value, number, text[start:end].rstrip(_BLANKS)))
        if match is None:
            return len(text)
        if match[0] == "|":
            return self._behind_bar(text, end + 1, number, key)
        if end > start and text[end - 1] not in _BLANKS and not is_quoted:
            self._warn(f"the value ends before '{match[0]}'; a value that holds it needs quotes", number, key)
        self._warn_swallowed(line, end)
        return len(text)

    def _behind_bar(self, text: str, position: int, number: int, key: str) -> int:
        rest = text[position:].strip(_BLANKS)
        if not rest or rest[0] in _COMMENT:
            self._fault("expected 'key = value' after '|'", number, key)
            return len(text)
        return position

    def _keep(self, entry: Entry) -> None:
        if self._section is None:
            self._fault("expected a [section] before the first key", entry.line, entry.key)
        elif entry.key in self._keys:
            self._fault(f"set on line {self._keys[entry.key].line} already", entry.line, entry.key)
        elif not entry.value.strip(_BLANKS):
            self._fault("expected a value, got nothing", entry.line, entry.key)
        elif not _is_text(entry.value):
            self._fault("expected UTF-8 text; save the file as UTF-8", entry.line, entry.key)
        else:
            self._section.entries.append(entry)
        self._keys.setdefault(entry.key, entry)


def _is_text(text: str) -> bool:
    """Whether no byte of it failed to decode."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _closing_quote(text: str, start: int) -> int:
    """The position of the quote that closes the one at ``start``, or -1."""
    position = start + 1
    while position < len(text):
        if text[position] == "\\" and text[position + 1 : position + 2] in ("\\", '"', "'"):
            position += 2
        elif text[position] == text[start]:
            return position
        else:
            position += 1
    return -1


def dump(sections: Iterable[Section]) -> str:
    """The text of sections; reading it gives the same sections, and dumping those the same text.

    Values are quoted where they need it, and lines that would be too long are continued. `DescriptionError` when a
    name, key or value cannot be written at all (line ends, NUL, nothing), or a section has no entry.
    """
    faults: list[Fault] = []
    blocks = []
    for section in sections:
        title = section.title or section.name
        if any(c in title for c in "]\r\n\0") or title != title.strip(_BLANKS):
            faults.append(Fault("", 0, title, "", f"the section name {quoted(title)} cannot be written"))
        if not section.entries:
            faults.append(Fault("", 0, title, "", "a section without entries cannot be written"))
        lines = [f"[{title}]"]
        for entry in section.entries:
            if not _writable(entry):
                faults.append(Fault("", 0, title, entry.key, f"{quoted(entry.value)} cannot be written"))
            lines += _folded(f"{entry.key} = {_quote(entry.value)}")
        blocks.append("\n".join(lines) + "\n")
    if faults:
        raise DescriptionError(faults)
    return "\n".join(blocks)


def _writable(entry: Entry) -> bool:
    key_fits = entry.key.strip(_BLANKS) == entry.key != "" and entry.key[0] not in "['\""
    key_fits = key_fits and not any(c in entry.key for c in "=#;|\r\n\0")
    return key_fits and bool(entry.value.strip(_BLANKS)) and not any(c in entry.value for c in "\r\n\0")


def _quote(value: str) -> str:
    plain = value[:1] not in _QUOTES and value == value.strip(_BLANKS) and not any(c in value for c in "#;|")
    if plain and not value.endswith("\\"):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _folded(line: str) -> list[str]:
    width = LONGEST_LINE - 1  # and the backslash
    if len(line) <= LONGEST_LINE:
        return [line]
    pieces = [line[i : i + width] for i in range(0, len(line), width)]
    return [piece + "\\" for piece in pieces[:-1]] + pieces[-1:]
