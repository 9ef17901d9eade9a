"""Long lists as tensors of a safetensors file, one JSON value a line: its header is for what is short.

They are read value by value, so that what they take in memory is what the values take.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import quoted
from nntrainer_py.formats.safetensors import SafetensorsFile


def of_lines(lines: Iterable[str]) -> NDArray[np.uint8]:
    """The tensor of texts that are JSON already."""
    data = bytearray()
    for line in lines:
        data += line.encode("utf-8")
        data += b"\n"
    return np.frombuffer(data, np.uint8)


def of_values(values: Iterable[object]) -> NDArray[np.uint8]:
    """The tensor of values that JSON knows."""
    return of_lines(json.dumps(value) for value in values)


def values(file: SafetensorsFile, name: str) -> Iterator[Any]:
    """The values of a tensor; `WeightFileError` when it is no such tensor."""
    array = file.read(name)
    if array.dtype != np.uint8 or array.ndim != 1:
        raise file.error(f"tensor {quoted(name)}: expected a row of bytes")
    data, begin = array.data, 0
    for end in np.flatnonzero(array == ord("\n")):
        yield _value(file, name, data[begin:end])
        begin = int(end) + 1
    if begin != len(data):
        raise file.error(f"tensor {quoted(name)}: its last line has no end")


def _value(file: SafetensorsFile, name: str, line: memoryview) -> Any:
    try:
        return json.loads(bytes(line).decode("utf-8"))
    except (ValueError, RecursionError):
        raise file.error(f"tensor {quoted(name)}: a line of it is no JSON") from None
