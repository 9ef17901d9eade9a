"""Records as JSON text in pieces: one with a table of many classes, or of many epochs, is long."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

_WORDS = 4096  # of a text that are joined at a time


def json_parts(record: Mapping[str, Any], indent: int | None = None) -> Iterator[str]:
    """The text of a record with a line break at its end, never there as a whole. ValueError where one is not finite."""
    words = json.JSONEncoder(indent=indent, allow_nan=False).iterencode(record)
    while piece := "".join(islice(words, _WORDS)):
        yield piece
    yield "\n"
