"""The file that swapped tensors go to, and the thread that moves them while the step goes on."""

from __future__ import annotations

import mmap
import os
import queue
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import ForkError, Origin, UsageError, quoted

PAGE = mmap.ALLOCATIONGRANULARITY
_PIECE = 1 << 20  # bytes


def _prefix() -> str:
    return f"nntrainer_py-{os.getpid()}-"


@dataclass(eq=False, slots=True)
class Slot:
    """A place in the file; ``offset`` is set when a plan that uses it is settled."""

    nbytes: int
    name: str = ""
    offset: int = -1


@dataclass(eq=False, slots=True)
class Transfer:
    """One movement between memory and the file, done by the worker; reused in every step."""

    memory: memoryview
    slot: Slot
    outward: bool
    done: threading.Event = field(default_factory=threading.Event)
    error: OSError | None = None


class _Block(mmap.mmap):
    """A part of a swap file as memory. It is shared with the file, so nothing is lost when its pages are given back.

    ``owner`` is the process that made it: a forked child would share it, too.
    """

    owner = 0

    def release(self) -> None:
        """Give back the memory that reading and writing has taken; what it holds stays in the file."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self.madvise(mmap.MADV_DONTNEED)


def pieces(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """A contiguous array in C order as flat pieces of some megabyte, to read or to write.

    Of an array over a swap file no more than one of them is in memory at a time.
    """
    if not array.flags.c_contiguous:
        raise ValueError("an array in pieces must be contiguous")
    block = _block_of(array)
    if block is not None:
        _require_owner(block.owner)
    flat = array.reshape(-1)
    count = max(_PIECE // array.itemsize, 1)
    for start in range(0, flat.size, count):
        yield flat[start : start + count]
        if block is not None:
            block.release()


def clear(arrays: Iterable[NDArray[Any]]) -> None:
    """Zeros everywhere."""
    for array in arrays:
        for piece in pieces(array):
            piece.fill(0)


def release(array: NDArray[Any]) -> None:
    """Give back the memory that reading or writing an array over a swap file has taken; nothing of any other array."""
    block = _block_of(array)
    if block is not None:
        block.release()


def _block_of(array: NDArray[Any]) -> _Block | None:
    """The part of a swap file in which an array lies."""
    holder: Any = array
    while isinstance(holder, np.ndarray):
        holder = holder.base
    if isinstance(holder, memoryview):
        holder = holder.obj
    return holder if isinstance(holder, _Block) else None


def _require_owner(owner: int) -> None:
    if owner != os.getpid():
        raise ForkError(
            "this process was forked from one whose weights or activations live in a swap file, which is that one's; "
            "start worker processes with the 'spawn' method"
        )


class SwapFile:
    """A file of its own in ``folder``, without a name where the system allows it, so that nothing stays behind.

    Its space is reserved before the first step: a full disk shows then and not in the middle of a run. Opened on the
    first `reserve`. Counts the bytes that went out and came in.
    """

    def __init__(self, folder: str | os.PathLike[str], origin: Origin | None = None, key: str = "") -> None:
        self.folder = Path(folder)
        self._origin, self._key = origin, key  # where the folder is named, for messages
        self.size = 0
        self.written = 0
        self.read = 0
        self._descriptor = -1
        self._owner = os.getpid()
        self._queue: queue.SimpleQueue[Transfer | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None
        self._maps: list[_Block] = []

    def reserve(self, size: int) -> None:
        """Make the file at least ``size`` bytes long. `UsageError` when the folder or the disk does not allow it."""
        _require_owner(self._owner)
        if size <= self.size:
            return
        try:
            if self._descriptor < 0:
                self._open()
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._descriptor, 0, size)
            else:
                os.ftruncate(self._descriptor, size)
        except OSError as error:
            raise self._refusal(size, error.strerror or str(error)) from error
        self.size = size

    def require(self, size: int) -> None:
        """`UsageError` when a file of ``size`` bytes cannot be made, as far as that shows without making it."""
        if self._descriptor >= 0:
            return
        try:
            descriptor, name = tempfile.mkstemp(prefix=_prefix(), suffix=".swap", dir=self.folder)
            os.close(descriptor)
            os.unlink(name)
            free = shutil.disk_usage(self.folder).free
        except OSError as error:
            raise self._refusal(size, error.strerror or str(error)) from error
        if free < size:
            raise self._refusal(size, f"{free} bytes are free on the disk")

    def _refusal(self, size: int, reason: str) -> UsageError:
        message = f"cannot make a swap file of {size} bytes in {quoted(self.folder)}: {reason}; choose another fsu_path"
        return UsageError(message, origin=self._origin, key=self._key)

    def _open(self) -> None:
        descriptor, name = tempfile.mkstemp(prefix=_prefix(), suffix=".swap", dir=self.folder)
        leftover: str | None = None
        try:
            os.unlink(name)
        except OSError:
            leftover = name  # a system that keeps the names of open files: removed at the end
        self._descriptor = descriptor
        self._finalizer = weakref.finalize(self, _close, descriptor, leftover, self._queue, self._owner)

    def array(self, slot: Slot, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
        """The bytes of a slot as an array over the file: for what reads or writes it outside the steps.

        A write shows in later transfers at once (one cache of the system behind both).
        """
        block = _Block(self._descriptor, max(slot.nbytes, 1), offset=slot.offset)
        block.owner = self._owner
        self._maps.append(block)
        return np.frombuffer(block, dtype, count=slot.nbytes // np.dtype(dtype).itemsize).reshape(shape)

    def forget(self) -> None:
        """Give back the memory that reading and writing the arrays of `array` has taken; what they hold stays."""
        for block in self._maps:
            block.release()

    def start(self, transfer: Transfer) -> None:
        """Hand a transfer to the worker. They are done one after the other, in this order.

        Raises:
            ForkError: the file is that of another process.
        """
        _require_owner(self._owner)
        transfer.done.clear()
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=_work, args=(self._descriptor, self._queue), name="nntrainer_py swap", daemon=True
            )
            self._thread.start()
        self._queue.put(transfer)

    def wait(self, transfer: Transfer) -> None:
        """Wait for a transfer. `UsageError` when the system could not do it."""
        transfer.done.wait()
        if transfer.error is not None:
            what = "write" if transfer.outward else "read"
            reason = transfer.error.strerror or transfer.error
            message = f"cannot {what} the swap file in {quoted(self.folder)}: {reason}"
            raise UsageError(message, origin=self._origin, key=self._key)
        if transfer.outward:
            self.written += transfer.slot.nbytes
        else:
            self.read += transfer.slot.nbytes

    def drain(self) -> None:
        """Wait until the worker has done all that it was given."""
        if self._thread is not None and self._thread.is_alive():
            last = Transfer(memoryview(b""), Slot(0, offset=0), True)
            self.start(last)
            last.done.wait()

    def close(self) -> None:
        """End the worker and remove the file."""
        if self._finalizer is not None:
            self._finalizer()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._descriptor, self.size = -1, 0


def _work(descriptor: int, jobs: queue.SimpleQueue[Transfer | None]) -> None:
    while (transfer := jobs.get()) is not None:
        transfer.error = None
        try:
            _move(descriptor, transfer)
        except OSError as error:
            transfer.error = error
        transfer.done.set()


def _move(descriptor: int, transfer: Transfer) -> None:
    """The system may move less than it was asked to."""
    done, memory, offset = 0, transfer.memory, transfer.slot.offset
    while done < len(memory):
        if transfer.outward:
            count = os.pwrite(descriptor, memory[done:], offset + done)
        else:
            count = os.preadv(descriptor, [memory[done:]], offset + done)
        if count <= 0:
            raise OSError("the file is shorter than it was")
        done += count


def _close(descriptor: int, leftover: str | None, jobs: queue.SimpleQueue[Transfer | None], owner: int) -> None:
    jobs.put(None)
    os.close(descriptor)
    if leftover is not None and owner == os.getpid():
        os.unlink(leftover)
