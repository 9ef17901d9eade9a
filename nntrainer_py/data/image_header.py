"""What decoding a picture takes, told from its first bytes: PNG, JPEG and BMP."""

from __future__ import annotations

import struct
from typing import IO, NamedTuple

PNG, JPEG, BMP = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"BM"
START_BYTES = 34  # that tell the size of a PNG and a BMP
_FRAMES = frozenset({*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC})  # markers of JPEG that give the size
_PROGRESSIVE = frozenset({0xC2, 0xC6, 0xCA, 0xCE})
_ALONE = frozenset({0x01, *range(0xD0, 0xD8)})  # markers without a length
_START_OF_SCAN = 0xDA
_MOST_SEGMENTS = 1000


class Decoded(NamedTuple):
    """Memory that a decoded picture and its decoder take, and how many rows it has."""

    size: int = 0
    height: int = 0


def decoded(start: bytes, stream: IO[bytes], most_pixels: int) -> Decoded:
    """What decoding takes.

    Nothing for a header that is damaged, or says more than ``most_pixels``: such a picture is refused when it is read.

    Args:
        start: the first `START_BYTES` bytes.
        stream: the file, read on for a JPEG.
    """
    try:
        if start.startswith(PNG):
            width, height, depth, color = struct.unpack(">IIBB", start[16:26])
            each = {0: 2 if depth == 16 else 1, 3: 1}.get(color, 4)
            extra = 0
        elif start.startswith(BMP):
            width, height, each = _bmp(start)
            extra = 0
        else:
            width, height, each, extra = _jpeg(stream)
    except (struct.error, IndexError, ValueError, ZeroDivisionError):
        return Decoded()
    pixels = width * height
    return Decoded(pixels * each + extra, height) if 0 < pixels <= most_pixels else Decoded()


def _bmp(start: bytes) -> tuple[int, int, int]:
    """Width, height, and bytes of a decoded pixel."""
    (size,) = struct.unpack("<I", start[14:18])
    if size == 12:
        width, height, _, bits = struct.unpack("<HHHH", start[18:26])
    else:
        width, height, _, bits = struct.unpack("<iiHH", start[18:30])
    return abs(width), abs(height), 1 if bits <= 8 else 4


def _jpeg(stream: IO[bytes]) -> tuple[int, int, int, int]:
    """Width, height, bytes of a decoded pixel, and what the decoder keeps of a picture that comes in several scans."""
    stream.seek(2)
    marker, found = 0, (0, 0, 0, 0, 0)
    for _ in range(_MOST_SEGMENTS):
        marker = stream.read(2)[1]
        while marker == 0xFF:  # a marker may be filled up in front
            marker = stream.read(1)[0]
        if marker in _ALONE:
            continue
        (length,) = struct.unpack(">H", stream.read(2))
        if marker in _FRAMES:
            content = stream.read(length - 2)
            _, height, width, components = struct.unpack(">BHHB", content[:6])
            factors = [(content[7 + 3 * k] >> 4, content[7 + 3 * k] & 15) for k in range(components)]
            widest, highest = max(f[0] for f in factors), max(f[1] for f in factors)
            blocks = sum((width * f[0] // (8 * widest) + 2) * (height * f[1] // (8 * highest) + 2) for f in factors)
            found = (width, height, components, 128 * blocks, marker)
        elif marker == _START_OF_SCAN:
            several = found[4] in _PROGRESSIVE or stream.read(1)[0] < found[2]
            return found[0], found[1], 1 if found[2] == 1 else 4, found[3] if several else 0
        else:
            stream.seek(length - 2, 1)
    return 0, 0, 0, 0
