"""TensorBoard's event files: records of small messages, written with nothing but the standard library.

A file is a sequence of records (TFRecord): the length as eight bytes, a checksum of these, the message, a checksum of
it; all little-endian. The checksum is CRC-32C (Castagnoli, RFC 3720), rotated right by 15 bits plus 0xa282ead8. A
message is a protocol buffer ``tensorflow.Event``; of its fields we write the wall time (1), the step (2), and one of
the version (3), a summary of scalars (5) and the mark of a new session (7).
"""

from __future__ import annotations

import itertools
import math
import os
import struct
import time
from collections.abc import Mapping
from pathlib import Path

from nntrainer_py.errors import DataError, printable

#: names of event files, by which TensorBoard knows them
PATTERN = "events.out.tfevents.*"
_VERSION = "brain.Event:2"
_NUMBERS = itertools.count()


def _table() -> list[int]:
    found = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        found.append(value)
    return found


_TABLE = _table()


def crc32c(content: bytes) -> int:
    """CRC-32C of ``content``: ``crc32c(b"123456789") == 0xe3069283``."""
    value = 0xFFFFFFFF
    for byte in content:
        value = _TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def record(content: bytes) -> bytes:
    """One record of the file."""
    length = struct.pack("<Q", len(content))
    return length + _checksum(length) + content + _checksum(content)


class EventFile:
    """A new event file in a folder, which is made where there is none.

    Raises DataError with the cause when the folder or the file cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        name = f"events.out.tfevents.{time.time_ns() // 10**9:010d}.nntrainer_py.{os.getpid()}.{next(_NUMBERS):06d}"
        self.path = folder / name
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._stream = self.path.open("xb")
        except OSError as error:
            raise self._refused(error) from None
        self._write(_text(3, _VERSION))

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Figures by tag (``loss/train``), at ``step``."""
        found = b"".join(_bytes(1, _text(1, tag) + b"\x15" + _single(value)) for tag, value in values.items())
        self._write(_varint(2 << 3) + _varint(step) + _bytes(5, found))

    def session(self, step: int) -> None:
        """A run goes on: what an earlier file has of ``step`` and later is done again, and is to be forgotten."""
        self._write(_varint(2 << 3) + _varint(step) + _bytes(7, b"\x08\x01"))

    def flush(self) -> None:
        """Give everything so far to the system, for a TensorBoard that looks on."""
        try:
            self._stream.flush()
        except OSError as error:
            raise self._refused(error) from None

    def close(self) -> None:
        """Write the rest; the file is not used any more."""
        try:
            self._stream.close()
        except OSError as error:
            raise self._refused(error) from None

    def _write(self, fields: bytes) -> None:
        try:
            self._stream.write(record(b"\x09" + struct.pack("<d", time.time()) + fields))
        except OSError as error:
            raise self._refused(error) from None

    def _refused(self, error: OSError) -> DataError:
        return DataError(f"{printable(str(self.path))}: cannot be written: {error.strerror or error}")


def _checksum(content: bytes) -> bytes:
    value = crc32c(content)
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(value: int) -> bytes:
    """Seven bits a byte, lowest first; ``value`` is not negative."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _bytes(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())


def _single(value: float) -> bytes:
    """``value`` as float32; an infinity where that has no room for it (`struct` would refuse)."""
    try:
        return struct.pack("<f", value)
    except OverflowError:
        return struct.pack("<f", math.copysign(math.inf, value))
