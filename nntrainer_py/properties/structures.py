"""Kinds of properties with a structure of their own: connections, shapes and paddings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from nntrainer_py.errors import PropertyError
from nntrainer_py.properties.kinds import NAME_PATTERN, Kind, NameKind, Warn, warn_python
from nntrainer_py.properties.numbers import LARGEST_UNSIGNED, IntegerKind, ListKind, bare

Shape = tuple[int, int, int, int]
Padding2D = Literal["same"] | tuple[int, int, int, int]
Padding1D = Literal["same", "causal"] | tuple[int, int]

_NAME = NameKind()
_POSITIVE = IntegerKind(1, LARGEST_UNSIGNED)
_UNSIGNED = IntegerKind(0, LARGEST_UNSIGNED)
_CONNECTION = re.compile(rf"({NAME_PATTERN})(?:\(([0-9]{{1,9}})\))?")


@dataclass(frozen=True, slots=True)
class Connection:
    """One output of a layer: its name and the index of the output."""

    name: str
    output: int = 0

    def __str__(self) -> str:
        return f"{self.name}({self.output})" if self.output else self.name


class ConnectionKind(Kind[Connection]):
    """``name`` or ``name(k)`` with the index of the output, 0 when left out."""

    expectation = "a layer name, or name(k) for its output k"

    def parse(self, text: str, warn: Warn = warn_python) -> Connection:
        match = _CONNECTION.fullmatch(bare(text).lower())
        if match is None:
            raise self.refuse(text)
        return Connection(match[1], int(match[2] or 0))

    def convert(self, value: object, warn: Warn = warn_python) -> Connection:
        if isinstance(value, Connection):
            return self.parse(str(value))
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str):
            return Connection(_NAME.check(value[0]), _UNSIGNED.check(value[1]))
        named = getattr(value, "name", None)  # a layer object stands for its first output
        if isinstance(named, str):
            return Connection(_NAME.check(named))
        raise self.refuse(value)

    def format(self, value: Connection) -> str:
        return str(value)

    def describe(self) -> str:
        return "layer name, or name(k) for its output k"

    def good_examples(self) -> list[str]:
        return ["conv1", "Split(1)", "a/b-c.d(12)"]

    def bad_examples(self) -> list[str]:
        return ["", "a(", "a()", "a(-1)", "a(x)", "a(1)b", "(1)", "-a", "a(99999999999)"]


class ConnectionsKind(ListKind[Connection]):
    """Connections separated by commas; Python may give a single one without a list."""

    def __init__(self) -> None:
        super().__init__(ConnectionKind(), (), "layer names (name or name(k))")

    def convert(self, value: object, warn: Warn = warn_python) -> tuple[Connection, ...]:
        pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], int)
        if pair or isinstance(value, Connection) or hasattr(value, "name"):
            return (self.item.check(value, warn),)
        return super().convert(value, warn)


class ShapeKind(Kind[Shape]):
    """Up to four positive integers separated by colons, right-aligned (``w``, ``h:w``, ``c:h:w``, ``b:c:h:w``).

    The value is ``(batch, channel, height, width)``. A batch other than 1 is replaced by 1 with a warning, because the
    batch belongs to the run and not to the layer; ``keep_batch`` keeps it, for tensors whose first axis is no batch.
    """

    expectation = "a shape of 1 to 4 positive integers separated by colons, such as 3:32:32"

    def __init__(self, keep_batch: bool = False) -> None:
        self.keep_batch = keep_batch

    def parse(self, text: str, warn: Warn = warn_python) -> Shape:
        return self._aligned(bare(text).split(":"), text, warn)

    def convert(self, value: object, warn: Warn = warn_python) -> Shape:
        axes = tuple(getattr(value, axis, None) for axis in ("batch", "channel", "height", "width"))
        if None not in axes:
            return self._aligned(axes, value, warn)
        if isinstance(value, Iterable) and not isinstance(value, (bytes, dict, set)):
            return self._aligned(list(value), value, warn)
        if isinstance(value, int):
            return self._aligned([value], value, warn)
        raise self.refuse(value)

    def _aligned(self, sizes: Sequence[object], found: object, warn: Warn) -> Shape:
        if not 1 <= len(sizes) <= 4:
            raise self.refuse(found)
        try:
            given = [_POSITIVE.check(size) for size in sizes]
        except PropertyError:
            raise self.refuse(found) from None
        batch, channel, height, width = [1] * (4 - len(given)) + given
        if batch != 1 and not self.keep_batch:
            warn(f"the batch {batch} of the shape {found} is ignored; the batch size is set by batch_size")
            batch = 1
        return batch, channel, height, width

    def format(self, value: Shape) -> str:
        return ":".join(map(str, value if value[0] != 1 else value[1:]))

    def describe(self) -> str:
        return "shape c:h:w, right-aligned" if not self.keep_batch else "shape b:c:h:w, right-aligned"

    def good_examples(self) -> list[str]:
        return ["10", "1:10", "3:32:32", "1:3:224:224", "[3 : 4 : 5]"]

    def bad_examples(self) -> list[str]:
        return ["", ":", "0", "3:0:3", "-1:2:2", "1:2:3:4:5", "a:b", "3,4", "3::4", "1.5:2", "3:4:", "9" * 5000]


class ShapesKind(ListKind[Shape]):
    """Shapes separated by commas, one per input; Python may give a single one without a list."""

    def __init__(self) -> None:
        super().__init__(ShapeKind(), (), "shapes such as 3:32:32")

    def convert(self, value: object, warn: Warn = warn_python) -> tuple[Shape, ...]:
        single = isinstance(value, int) or hasattr(value, "width")
        if not single and isinstance(value, (tuple, list)):
            single = bool(value) and all(isinstance(item, int) for item in value)
        return (self.item.check(value, warn),) if single else super().convert(value, warn)


class Padding2DKind(Kind[Padding2D]):
    """``valid``, ``same``, or 1, 2 or 4 non-negative integers.

    One stands for all sides, two for (top = bottom, left = right), four for top, bottom, left, right. The value is
    ``"same"`` or ``(top, bottom, left, right)``; ``valid`` is four zeros.
    """

    expectation = "valid, same, or 1, 2 or 4 non-negative integers"

    def parse(self, text: str, warn: Warn = warn_python) -> Padding2D:
        word = bare(text).lower()
        if word == "same":
            return "same"
        return (0, 0, 0, 0) if word == "valid" else self._sides(word.split(","), text)

    def convert(self, value: object, warn: Warn = warn_python) -> Padding2D:
        if isinstance(value, int):
            return self._sides([value], value)
        if isinstance(value, Iterable) and not isinstance(value, (bytes, dict, set)):
            return self._sides(list(value), value)
        raise self.refuse(value)

    def _sides(self, items: Sequence[object], found: object) -> tuple[int, int, int, int]:
        try:
            given = [_UNSIGNED.check(item) for item in items]
        except PropertyError:
            raise self.refuse(found) from None
        match given:
            case [all_sides]:
                return (all_sides,) * 4
            case [vertical, horizontal]:
                return vertical, vertical, horizontal, horizontal
            case [top, bottom, left, right]:
                return top, bottom, left, right
        raise self.refuse(found)

    def format(self, value: Padding2D) -> str:
        if value == "same":
            return "same"
        return "valid" if not any(value) else ",".join(map(str, value))

    def describe(self) -> str:
        return "valid, same, one integer (all sides), two (vertical, horizontal) or four (top, bottom, left, right)"

    def good_examples(self) -> list[str]:
        return ["valid", "same", "SAME", "1", "1,2", "0,1,2,3", "[1, 1]"]

    def bad_examples(self) -> list[str]:
        return ["", "full", "causal", "-1", "1,2,3", "1,2,3,4,5", "1,-1", "same,same", "1.5", "1,", "9" * 5000]


class Padding1DKind(Kind[Padding1D]):
    """``valid``, ``same``, ``causal``, one integer for both sides, or two for left and right.

    The value is ``"same"``, ``"causal"`` or ``(left, right)``; ``valid`` is two zeros.
    """

    expectation = "valid, same, causal, or 1 or 2 non-negative integers"

    def parse(self, text: str, warn: Warn = warn_python) -> Padding1D:
        word = bare(text).lower()
        if word == "same":
            return "same"
        if word == "causal":
            return "causal"
        return (0, 0) if word == "valid" else self._sides(word.split(","), text)

    def convert(self, value: object, warn: Warn = warn_python) -> Padding1D:
        if isinstance(value, int):
            return self._sides([value], value)
        if isinstance(value, Iterable) and not isinstance(value, (bytes, dict, set)):
            return self._sides(list(value), value)
        raise self.refuse(value)

    def _sides(self, items: Sequence[object], found: object) -> tuple[int, int]:
        try:
            given = [_UNSIGNED.check(item) for item in items]
        except PropertyError:
            raise self.refuse(found) from None
        if len(given) not in (1, 2):
            raise self.refuse(found)
        return given[0], given[-1]

    def format(self, value: Padding1D) -> str:
        if isinstance(value, str):
            return value
        return "valid" if not any(value) else ",".join(map(str, value))

    def describe(self) -> str:
        return "valid, same, causal, one integer (both sides) or two (left, right)"

    def good_examples(self) -> list[str]:
        return ["valid", "same", "Causal", "1", "1,2", "[0, 3]"]

    def bad_examples(self) -> list[str]:
        return ["", "full", "-1", "1,2,3", "causal,1", "1.5", "1,"]
