"""One block of memory, 64-byte aligned; every tensor is a view into it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Arena:
    """``size`` bytes, zero-filled by the operating system on first touch."""

    def __init__(self, size: int, alignment: int = 64) -> None:
        self._block = np.zeros(size + alignment, np.uint8)
        start = -self._block.ctypes.data % alignment
        self.bytes: NDArray[np.uint8] = self._block[start : start + size]
        self.size = size

    def view(self, offset: int, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        """A C-contiguous array at a byte offset."""
        nbytes = math.prod(shape) * np.dtype(dtype).itemsize
        return self.bytes[offset : offset + nbytes].view(dtype).reshape(shape)

    def fill_nan(self) -> None:
        """Fill with NaN patterns (tests): what is read before it is written shows."""
        self.bytes[:] = 0xFF
