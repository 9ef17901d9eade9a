"""Copying chosen rows of a stored array into batch rows, without taking array memory for each batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]

_SCRATCH_BYTES = 1 << 18  # fits the second-level cache, so that the second copy is cheap


def strict_float32() -> np.errstate:
    """Makes a conversion that would turn a large number into infinity raise FloatingPointError."""
    return np.errstate(over="raise")


class RowGatherer:
    """Picks rows of ``source`` (samples, ...) and writes them, as float32, to columns of batch rows.

    A C-contiguous source is gathered through a small scratch block, kept once it was needed: at most as many rows as
    were ever asked for at once. Any other layout, and a run of rows, goes without.
    """

    def __init__(self, source: npt.NDArray[np.generic]) -> None:
        # A plain array: every index into a memmap would make another memmap object.
        self.source = source.view(np.ndarray)
        self.width = int(np.prod(source.shape[1:], dtype=np.int64))
        self._row_bytes = self.width * int(source.dtype.itemsize)
        self._flat: npt.NDArray[np.generic] | None = None
        self._scratch = np.empty((0, self.width), dtype=source.dtype)
        if self.source.flags.c_contiguous and len(self.source):
            self._flat = self.source.reshape(len(self.source), self.width)

    def scratch_bytes(self, count: int) -> int:
        """Memory besides the source that gathering ``count`` rows at once needs; it is kept."""
        return self._block(count) * self._row_bytes

    def _block(self, count: int) -> int:
        """Rows that go through the scratch at once."""
        if self._flat is None:
            return 0
        return min(count, max(1, _SCRATCH_BYTES // max(1, self._row_bytes)))

    def gather(self, indices: Indices, *parts: tuple[int, Float32]) -> None:
        """Write, for each part (first column, rows (count, columns)), that piece of the chosen source rows."""
        with strict_float32():
            self._gather(indices, parts)

    def _gather(self, indices: Indices, parts: tuple[tuple[int, Float32], ...]) -> None:
        count = len(indices)
        if self._flat is None:
            for row, index in enumerate(indices.tolist()):
                values = self.source[index].reshape(-1)
                for first, rows in parts:
                    rows[row] = values[first : first + rows.shape[1]]
        elif count and indices[-1] - indices[0] == count - 1 and (indices[1:] - indices[:-1] == 1).all():
            run = self._flat[int(indices[0]) : int(indices[0]) + count]
            for first, rows in parts:
                rows[...] = run[:, first : first + rows.shape[1]]
        else:
            self._gather_blocks(indices, parts)

    def _gather_blocks(self, indices: Indices, parts: tuple[tuple[int, Float32], ...]) -> None:
        assert self._flat is not None
        block = self._block(len(indices))
        if len(self._scratch) < block:
            self._scratch = np.empty((block, self.width), dtype=self.source.dtype)
        for start in range(0, len(indices), block):
            chosen = indices[start : start + block]
            values = self._scratch[: len(chosen)]
            # mode "clip" writes straight to out ("raise" would go through a copy); the numbers were checked before.
            np.take(self._flat, chosen, axis=0, out=values, mode="clip")
            for first, rows in parts:
                rows[start : start + len(chosen)] = values[:, first : first + rows.shape[1]]
