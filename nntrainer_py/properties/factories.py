"""The declarations that a class body uses: ``unit = positive_int(doc="Width of the output.")``.

Each takes the default first (left out: the property is required; None: it may stay unset, and its type says so), then
``doc``, one sentence for the reference, and ``aliases``, other accepted spellings of the key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, overload

from nntrainer_py.properties.declaration import REQUIRED, Property, Required
from nntrainer_py.properties.kinds import BooleanKind, EnumKind, NameKind, PathKind, StringKind
from nntrainer_py.properties.numbers import (
    LARGEST_INT,
    LARGEST_UNSIGNED,
    SMALLEST_INT,
    IntegerKind,
    ListKind,
    NumberKind,
    integers,
)
from nntrainer_py.properties.structures import (
    Connection,
    ConnectionKind,
    ConnectionsKind,
    Padding1D,
    Padding1DKind,
    Padding2D,
    Padding2DKind,
    Shape,
    ShapeKind,
    ShapesKind,
)

Aliases = Iterable[str]
DTYPES = ("FP32", "FP16", "QINT4", "QINT8", "QINT16", "UINT4", "UINT8", "UINT16", "BCQ", "Q4_K", "Q6_K", "Q4_0")


@overload
def boolean(default: bool | Required = ..., *, doc: str, aliases: Aliases = ()) -> Property[bool]: ...
@overload
def boolean(default: None, *, doc: str, aliases: Aliases = ()) -> Property[bool | None]: ...
def boolean(default: bool | Required | None = REQUIRED, *, doc: str, aliases: Aliases = ()) -> Property[Any]:
    """``true`` or ``false``."""
    return Property(BooleanKind(), default, doc=doc, aliases=aliases)


@overload
def positive_int(
    default: int | Required = ..., *, doc: str, aliases: Aliases = (), maximum: int = ...
) -> Property[int]: ...
@overload
def positive_int(default: None, *, doc: str, aliases: Aliases = (), maximum: int = ...) -> Property[int | None]: ...
def positive_int(
    default: int | Required | None = REQUIRED, *, doc: str, aliases: Aliases = (), maximum: int = LARGEST_UNSIGNED
) -> Property[Any]:
    """An integer of at least 1."""
    return Property(IntegerKind(1, maximum), default, doc=doc, aliases=aliases)


@overload
def unsigned_int(
    default: int | Required = ..., *, doc: str, aliases: Aliases = (), maximum: int = ...
) -> Property[int]: ...
@overload
def unsigned_int(default: None, *, doc: str, aliases: Aliases = (), maximum: int = ...) -> Property[int | None]: ...
def unsigned_int(
    default: int | Required | None = REQUIRED, *, doc: str, aliases: Aliases = (), maximum: int = LARGEST_UNSIGNED
) -> Property[Any]:
    """An integer of at least 0."""
    return Property(IntegerKind(0, maximum), default, doc=doc, aliases=aliases)


@overload
def integer(
    default: int | Required = ..., *, doc: str, aliases: Aliases = (), minimum: int = ..., maximum: int = ...
) -> Property[int]: ...
@overload
def integer(
    default: None, *, doc: str, aliases: Aliases = (), minimum: int = ..., maximum: int = ...
) -> Property[int | None]: ...
def integer(
    default: int | Required | None = REQUIRED,
    *,
    doc: str,
    aliases: Aliases = (),
    minimum: int = SMALLEST_INT,
    maximum: int = LARGEST_INT,
) -> Property[Any]:
    """An integer between two bounds, both included."""
    return Property(IntegerKind(minimum, maximum), default, doc=doc, aliases=aliases)


@overload
def number(
    default: float | Required = ...,
    *,
    doc: str,
    aliases: Aliases = (),
    minimum: float | None = ...,
    maximum: float | None = ...,
    above: float | None = ...,
    below: float | None = ...,
    nonzero: bool = ...,
) -> Property[float]: ...
@overload
def number(
    default: None,
    *,
    doc: str,
    aliases: Aliases = (),
    minimum: float | None = ...,
    maximum: float | None = ...,
    above: float | None = ...,
    below: float | None = ...,
    nonzero: bool = ...,
) -> Property[float | None]: ...
def number(
    default: float | Required | None = REQUIRED,
    *,
    doc: str,
    aliases: Aliases = (),
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    below: float | None = None,
    nonzero: bool = False,
) -> Property[Any]:
    """A finite number; ``minimum`` and ``maximum`` are allowed values, ``above`` and ``below`` are not."""
    return Property(NumberKind(minimum, maximum, above, below, nonzero), default, doc=doc, aliases=aliases)


@overload
def enum(
    words: Sequence[str],
    default: str | Required = ...,
    *,
    doc: str,
    aliases: Mapping[str, str] | None = ...,
    keys: Aliases = (),
) -> Property[str]: ...
@overload
def enum(
    words: Sequence[str], default: None, *, doc: str, aliases: Mapping[str, str] | None = ..., keys: Aliases = ()
) -> Property[str | None]: ...
def enum(
    words: Sequence[str],
    default: str | Required | None = REQUIRED,
    *,
    doc: str,
    aliases: Mapping[str, str] | None = None,
    keys: Aliases = (),
) -> Property[Any]:
    """One of ``words``, in any case. Here ``aliases`` maps other accepted words to these, ``keys`` are other keys."""
    return Property(EnumKind(words, aliases), default, doc=doc, aliases=keys)


@overload
def dtype(default: str | Required = ..., *, doc: str, aliases: Aliases = ()) -> Property[str]: ...
@overload
def dtype(default: None, *, doc: str, aliases: Aliases = ()) -> Property[str | None]: ...
def dtype(default: str | Required | None = REQUIRED, *, doc: str, aliases: Aliases = ()) -> Property[Any]:
    """A storage type word of NNTrainer, such as ``FP32``."""
    return Property(EnumKind(DTYPES), default, doc=doc, aliases=aliases)


@overload
def string(default: str | Required = ..., *, doc: str, aliases: Aliases = ()) -> Property[str]: ...
@overload
def string(default: None, *, doc: str, aliases: Aliases = ()) -> Property[str | None]: ...
def string(default: str | Required | None = REQUIRED, *, doc: str, aliases: Aliases = ()) -> Property[Any]:
    """Any text that is not empty."""
    return Property(StringKind(), default, doc=doc, aliases=aliases)


@overload
def name(default: str | Required = ..., *, doc: str, aliases: Aliases = ()) -> Property[str]: ...
@overload
def name(default: None, *, doc: str, aliases: Aliases = ()) -> Property[str | None]: ...
def name(default: str | Required | None = REQUIRED, *, doc: str, aliases: Aliases = ()) -> Property[Any]:
    """A layer name, lower-cased."""
    return Property(NameKind(), default, doc=doc, aliases=aliases)


@overload
def path(default: str | Required = ..., *, doc: str, aliases: Aliases = ()) -> Property[str]: ...
@overload
def path(default: None, *, doc: str, aliases: Aliases = ()) -> Property[str | None]: ...
def path(default: str | Required | None = REQUIRED, *, doc: str, aliases: Aliases = ()) -> Property[Any]:
    """A path, kept as written."""
    return Property(PathKind(), default, doc=doc, aliases=aliases)


@overload
def connection(default: Connection | Required = ..., *, doc: str, aliases: Aliases = ()) -> Property[Connection]: ...
@overload
def connection(default: None, *, doc: str, aliases: Aliases = ()) -> Property[Connection | None]: ...
def connection(default: Connection | Required | None = REQUIRED, *, doc: str, aliases: Aliases = ()) -> Property[Any]:
    """``name`` or ``name(k)``."""
    return Property(ConnectionKind(), default, doc=doc, aliases=aliases)


@overload
def connections(
    default: None = None, *, doc: str, aliases: Aliases = ()
) -> Property[tuple[Connection, ...] | None]: ...
@overload
def connections(
    default: Sequence[Connection] | Required, *, doc: str, aliases: Aliases = ()
) -> Property[tuple[Connection, ...]]: ...
def connections(
    default: Sequence[Connection] | Required | None = None, *, doc: str, aliases: Aliases = ()
) -> Property[Any]:
    """Connections separated by commas; unset by default."""
    return Property(ConnectionsKind(), default, doc=doc, aliases=aliases)


@overload
def shape(
    default: Shape | Required = ..., *, doc: str, aliases: Aliases = (), keep_batch: bool = ...
) -> Property[Shape]: ...
@overload
def shape(default: None, *, doc: str, aliases: Aliases = (), keep_batch: bool = ...) -> Property[Shape | None]: ...
def shape(
    default: Shape | Required | None = REQUIRED, *, doc: str, aliases: Aliases = (), keep_batch: bool = False
) -> Property[Any]:
    """``c:h:w``, right-aligned; the value is ``(batch, channel, height, width)``."""
    return Property(ShapeKind(keep_batch), default, doc=doc, aliases=aliases)


@overload
def shapes(default: None = None, *, doc: str, aliases: Aliases = ()) -> Property[tuple[Shape, ...] | None]: ...
@overload
def shapes(default: Sequence[Shape] | Required, *, doc: str, aliases: Aliases = ()) -> Property[tuple[Shape, ...]]: ...
def shapes(default: Sequence[Shape] | Required | None = None, *, doc: str, aliases: Aliases = ()) -> Property[Any]:
    """Shapes separated by commas; unset by default."""
    return Property(ShapesKind(), default, doc=doc, aliases=aliases)


@overload
def int_list(
    default: Sequence[int] | Required = ...,
    *,
    doc: str,
    length: int | Sequence[int] = ...,
    sign: str = ...,
    aliases: Aliases = (),
) -> Property[tuple[int, ...]]: ...
@overload
def int_list(
    default: None, *, doc: str, length: int | Sequence[int] = ..., sign: str = ..., aliases: Aliases = ()
) -> Property[tuple[int, ...] | None]: ...
def int_list(
    default: Sequence[int] | Required | None = REQUIRED,
    *,
    doc: str,
    length: int | Sequence[int] = (),
    sign: str = "positive",
    aliases: Aliases = (),
) -> Property[Any]:
    """Integers separated by commas; ``length`` items (or one of several), ``sign`` positive, unsigned or any."""
    return Property(integers(sign, _lengths(length)), default, doc=doc, aliases=aliases)


@overload
def number_list(
    default: Sequence[float] | Required = ...,
    *,
    doc: str,
    length: int | Sequence[int] = ...,
    minimum: float | None = ...,
    maximum: float | None = ...,
    above: float | None = ...,
    aliases: Aliases = (),
) -> Property[tuple[float, ...]]: ...
@overload
def number_list(
    default: None,
    *,
    doc: str,
    length: int | Sequence[int] = ...,
    minimum: float | None = ...,
    maximum: float | None = ...,
    above: float | None = ...,
    aliases: Aliases = (),
) -> Property[tuple[float, ...] | None]: ...
def number_list(
    default: Sequence[float] | Required | None = REQUIRED,
    *,
    doc: str,
    length: int | Sequence[int] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    above: float | None = None,
    aliases: Aliases = (),
) -> Property[Any]:
    """Finite numbers separated by commas; ``length`` items, each within the bounds of `number`."""
    item = NumberKind(minimum, maximum, above)
    plural = "numbers" + item.describe().partition("number")[2]
    return Property(ListKind(item, _lengths(length), plural), default, doc=doc, aliases=aliases)


def padding2d(default: Padding2D = (0, 0, 0, 0), *, doc: str, aliases: Aliases = ()) -> Property[Padding2D]:
    """``"same"`` or ``(top, bottom, left, right)``; ``valid`` (the default) is four zeros."""
    return Property(Padding2DKind(), default, doc=doc, aliases=aliases)


def padding1d(default: Padding1D = (0, 0), *, doc: str, aliases: Aliases = ()) -> Property[Padding1D]:
    """``"same"``, ``"causal"`` or ``(left, right)``; ``valid`` (the default) is two zeros."""
    return Property(Padding1DKind(), default, doc=doc, aliases=aliases)


def _lengths(length: int | Sequence[int]) -> tuple[int, ...]:
    return (length,) if isinstance(length, int) else tuple(length)
