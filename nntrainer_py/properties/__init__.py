"""Properties: declared once on a class, they serve INI, constructor, check, message, documentation and saving."""

from __future__ import annotations

from nntrainer_py.errors import PropertyError
from nntrainer_py.properties.declaration import REQUIRED, Configurable, Property, Required
from nntrainer_py.properties.factories import (
    DTYPES,
    boolean,
    connection,
    connections,
    dtype,
    enum,
    int_list,
    integer,
    name,
    number,
    number_list,
    padding1d,
    padding2d,
    path,
    positive_int,
    shape,
    shapes,
    string,
    unsigned_int,
)
from nntrainer_py.properties.kinds import EnumKind, Kind, NameKind, Warn, warn_python
from nntrainer_py.properties.numbers import IntegerKind, ListKind, NumberKind, bare
from nntrainer_py.properties.structures import Connection, Padding1D, Padding2D, Shape

__all__ = [
    "DTYPES",
    "REQUIRED",
    "Configurable",
    "Connection",
    "EnumKind",
    "IntegerKind",
    "Kind",
    "ListKind",
    "NameKind",
    "NumberKind",
    "Padding1D",
    "Padding2D",
    "Property",
    "PropertyError",
    "Required",
    "Shape",
    "Warn",
    "bare",
    "boolean",
    "connection",
    "connections",
    "dtype",
    "enum",
    "int_list",
    "integer",
    "name",
    "number",
    "number_list",
    "padding1d",
    "padding2d",
    "path",
    "positive_int",
    "shape",
    "shapes",
    "string",
    "unsigned_int",
    "warn_python",
]
