"""Copying chosen rows of a stored array into batch rows, without taking array memory for each batch."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from nntrainer_py.data.file_map import StoredRows, release

Float32 = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]

Parts = tuple[tuple[int, Float32], ...]

_SCRATCH_BYTES = 1 << 18  # fits the second-level cache, so that the second copy is cheap
# Bytes of a row; scattered rows of a file that are shorter are taken through its map. Reading each by itself would take
# several times as long and, from a thread beside the one that computes, hold that up.
_SHORT_ROW = 1 << 14
_TOUCHED_BYTES = 1 << 20  # of a map, after which its pages are let go
_LONG_ROW = 1 << 12  # bytes from which on reading a row for itself costs no more than copying it once again


def strict_float32() -> np.errstate:
    """Makes a conversion that would turn a large number into infinity raise FloatingPointError."""
    return np.errstate(over="raise")


class RowGatherer:
    """Picks rows of ``source`` (samples, ...) and writes them, as float32, to columns of batch rows.

    Scattered rows of a C-contiguous source go through a small scratch block, kept once it was needed: at most as many
    rows as were ever asked for at once. Any other layout, and a run of rows, goes without; so do long rows of float32
    in a file, which are read to where they belong.
    """

    def __init__(self, source: npt.NDArray[np.generic]) -> None:
        # A plain array: every index into a memmap would make another memmap object.
        self.source = source.view(np.ndarray)
        self.width = int(np.prod(source.shape[1:], dtype=np.int64))
        self._row_bytes = self.width * int(source.dtype.itemsize)
        self._flat: npt.NDArray[np.generic] | None = None
        self._scratch = np.empty((0, self.width), dtype=source.dtype)
        self._stored = StoredRows.of(source)
        self._ready = source.dtype == np.float32  # to be read to batch rows as they are
        if self.source.flags.c_contiguous and len(self.source):
            self._flat = self.source.reshape(len(self.source), self.width)
        self._touched = 0  # bytes of the map since its pages were let go
        self._by_map = self._stored is None or self._row_bytes < _SHORT_ROW  # scattered rows

    def scratch_bytes(self, count: int, *, in_order: bool = False) -> int:
        """Memory besides the source that gathering ``count`` rows at once needs; it is kept.

        ``in_order``: the rows are always a run.
        """
        if in_order or (self._ready and not self._by_map):
            return 0
        return self._block(count) * self._row_bytes

    def _block(self, count: int) -> int:
        """Rows that go through the scratch at once."""
        if self._flat is None:
            return 0
        return min(count, max(1, _SCRATCH_BYTES // max(1, self._row_bytes)))

    def gather(self, indices: Indices, *parts: tuple[int, Float32]) -> None:
        """Write, for each part (first column, rows (count, columns)), that piece of the chosen source rows.

        Raises:
            FloatingPointError: a value is too large for float32.
            DataError: the file of the source cannot be read, or became shorter.
        """
        with strict_float32():
            self._gather(indices, parts)

    def _gather(self, indices: Indices, parts: Parts) -> None:
        count = len(indices)
        if self._flat is None:
            for row, index in enumerate(indices.tolist()):
                values = self.source[index].reshape(-1)
                for first, rows in parts:
                    rows[row] = values[first : first + rows.shape[1]]
            return
        in_run = indices[-1] - indices[0] == count - 1 and bool((indices[1:] - indices[:-1] == 1).all())
        if self._stored is not None and self._is_read(in_run, parts):
            self._read(self._stored, indices, in_run, parts)
        elif in_run:
            self._copy_run(int(indices[0]), count, parts)
        else:
            self._gather_blocks(indices, parts)

    def _is_read(self, in_run: bool, parts: Parts) -> bool:
        """Whether rows in a file are read from it, and not taken through its map."""
        if not in_run:
            return not self._by_map
        return (
            self._ready and (self._row_bytes >= _LONG_ROW or self._is_whole(parts)) and self._targets(parts) is not None
        )

    def _is_whole(self, parts: Parts) -> bool:
        return len(parts) == 1 and parts[0][1].shape[1] == self.width

    def _read(self, stored: StoredRows, indices: Indices, in_run: bool, parts: Parts) -> None:
        """Rows from the file: straight to the batch where the numbers are what it wants, else through the scratch."""
        targets = self._targets(parts) if self._ready else None
        if targets is None:
            self._gather_blocks(indices, parts, stored)
        elif in_run and self._is_whole(parts):
            stored.read_run(int(indices[0]), targets[0])
        else:
            sizes = [4 * rows.shape[1] for _, rows in parts]
            stored.read_each(indices.tolist(), targets, sizes, 4 * parts[0][0])

    def _copy_run(self, first: int, count: int, parts: Parts) -> None:
        """Rows that follow each other; pages of a map are let go behind."""
        assert self._flat is not None
        step = count if self._stored is None else max(1, _TOUCHED_BYTES // self._row_bytes)
        for start in range(0, count, step):
            run = self._flat[first + start : first + min(count, start + step)]
            for column, rows in parts:
                rows[start : start + len(run)] = run[:, column : column + rows.shape[1]]
            self._touched += len(run) * self._row_bytes
            if self._stored is not None and self._touched >= _TOUCHED_BYTES:
                release(self.source)
                self._touched = 0

    @staticmethod
    def _targets(parts: Parts) -> list[memoryview] | None:
        """The bytes of the batch rows, if the parts follow each other in a row of the source."""
        following = all(first + rows.shape[1] == then for (first, rows), (then, _) in pairwise(parts))
        if not following or not all(rows.flags.c_contiguous for _, rows in parts):
            return None
        return [rows.data.cast("B") for _, rows in parts]

    def _take_scratch(self, count: int) -> int:
        """Have the scratch for ``count`` rows; how many go through it at once."""
        block = self._block(count)
        if len(self._scratch) < block:
            self._scratch = np.empty((block, self.width), dtype=self.source.dtype)
        return block

    def _hand_out(self, start: int, count: int, parts: Parts) -> None:
        """Copy the first rows of the scratch to the batch rows from ``start`` on."""
        values = self._scratch[:count]
        for first, rows in parts:
            rows[start : start + count] = values[:, first : first + rows.shape[1]]

    def _gather_blocks(self, indices: Indices, parts: Parts, stored: StoredRows | None = None) -> None:
        """Through the scratch, from the file or from memory."""
        assert self._flat is not None
        block = self._take_scratch(len(indices))
        # As bytes: of numbers that are not aligned, as in an archive, NumPy would copy all before it takes any.
        source, target = self._flat.view(np.uint8), self._scratch.view(np.uint8)
        for start in range(0, len(indices), block):
            chosen = indices[start : start + block]
            if stored is not None:
                stored.read_each(chosen.tolist(), [target.data.cast("B")], [self._row_bytes])
            else:
                # mode "clip" writes straight to out ("raise" would go through a copy); the numbers were checked before.
                np.take(source, chosen, axis=0, out=target[: len(chosen)], mode="clip")
            self._hand_out(start, len(chosen), parts)
