"""What a loader is made of: buffers, the order of the samples, and a pass over an epoch, with a thread or without."""

from __future__ import annotations

import os
import threading
import warnings
from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from nntrainer_py.data.dataset import Dataset, Float32, IndexedDataset, Indices, StreamDataset
from nntrainer_py.errors import ForkError, counted
from nntrainer_py.tensor.rng import (
    Stream,
    nntrainer_shuffle,
    nntrainer_shuffle_bytes,
    permutation,
    permutation_bytes,
)

_JOIN_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch. The arrays belong to the loader and are overwritten after the next one is asked for.

    Attributes:
        inputs, labels: float32 (batch_size, channel, height, width) for each input and label; rows from ``count`` on
            hold leftovers.
        count: samples present, smaller than the batch size only in the last batch of an epoch.
        indices: int64 (count,), the number of each sample in the data set (for a stream: in the epoch).
    """

    inputs: list[Float32]
    labels: list[Float32]
    count: int
    indices: Indices


@dataclass(frozen=True, slots=True)
class Position:
    """Where a loader stands: the epoch, and how many of its batches were handed out."""

    epoch: int = 0
    batch: int = 0


def check_count(dataset: Dataset, count: int | None, batch_size: int, drop_last: bool) -> None:
    """DataError when so many samples (None: unknown) give no batch."""
    if count == 0:
        raise dataset.error("there is no sample in it")
    if drop_last and count is not None and count < batch_size:
        raise dataset.error(
            f"{counted(count, 'sample')} cannot fill one batch of {batch_size}, "
            "and drop_last leaves out batches that are not full"
        )


class Slot:
    """The buffers of one batch."""

    def __init__(self, dataset: Dataset, batch_size: int) -> None:
        # Written now, so that the memory is resident from the start and not only after the first epoch.
        self.inputs = [np.full((batch_size, *shape), 0, np.float32) for shape in dataset.input_dims or []]
        self.labels = [np.full((batch_size, *shape), 0, np.float32) for shape in dataset.label_dims or []]
        self.indices: Indices = np.full(batch_size, 0, np.int64)
        self.count = 0

    def batch(self) -> Batch:
        return Batch(self.inputs, self.labels, self.count, self.indices[: self.count])


class Order:
    """The order of the samples in an epoch: one number a sample, or nothing where they come as they are."""

    def __init__(self, count: int, shuffle: bool, seed: int, kind: str) -> None:
        self.count = count
        self._shuffle = shuffle
        self._seed = seed
        self._kind = kind
        self._stream: Stream | None = None  # seeding takes longer than predicting one sample
        self._next = 0  # the epoch that the state of NNTrainer's generator is for
        self._epoch = -1
        self._indices: Indices = np.empty(0, dtype=np.int64)
        self._steps: Indices = np.empty(0, dtype=np.int64)  # 0, 1, 2 ... for one batch

    def put(self, epoch: int, first: int, indices: Indices) -> None:
        """Write the numbers of the samples from place ``first`` of an epoch on."""
        if self._shuffle:
            indices[...] = self.of_epoch(epoch)[first : first + len(indices)]
        else:
            if len(self._steps) < len(indices):
                self._steps = np.arange(len(indices), dtype=np.int64)
            np.add(self._steps[: len(indices)], first, out=indices)

    def of_epoch(self, epoch: int) -> Indices:
        """All numbers of an epoch, in order."""
        if not self._shuffle:
            return np.arange(self.count, dtype=np.int64)
        if epoch == self._epoch:
            return self._indices
        self._indices = self._indices[:0].copy()  # that of another epoch is let go before the next one is made
        if self._kind == "counter":
            self._indices = permutation(self._seed, epoch, self.count)
        else:
            if self._stream is None or epoch < self._next:
                self._stream, self._next = Stream(self._seed), 0
            while self._next <= epoch:
                self._indices = self._indices[:0].copy()
                self._indices = nntrainer_shuffle(self.count, self._stream)
                self._next += 1
        self._epoch = epoch
        return self._indices


def order_bytes(count: int, kind: str) -> int:
    """Memory of the order of so many shuffled samples, at the moment when that of the next epoch is made."""
    return permutation_bytes(count) if kind == "counter" else nntrainer_shuffle_bytes(count)


class Source(Protocol):
    """Fills one slot after the other."""

    def fill(self, slot: Slot) -> bool:
        """Make the next batch; False when the epoch is over."""

    def close(self) -> None:
        """Let go of the data."""


class IndexedSource:
    def __init__(
        self, dataset: IndexedDataset, order: Order, position: Position, batch_size: int, drop_last: bool
    ) -> None:
        self._dataset = dataset
        self._order = order
        self._epoch = position.epoch
        self._next = position.batch * batch_size
        self._batch_size = batch_size
        self._end = order.count - order.count % batch_size if drop_last else order.count

    def fill(self, slot: Slot) -> bool:
        count = min(self._batch_size, self._end - self._next)
        if count <= 0:
            return False
        indices = slot.indices[:count]
        self._order.put(self._epoch, self._next, indices)
        self._dataset.read(indices, slot.inputs, slot.labels)
        slot.count = count
        self._next += count
        return True

    def close(self) -> None:
        """Nothing is held open."""


class StreamSource:
    def __init__(self, dataset: StreamDataset, position: Position, batch_size: int, drop_last: bool) -> None:
        self._dataset = dataset
        self._position = position
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._cursor = dataset.open(position.epoch)
        self._skipped = False
        self._delivered = position.batch > 0

    def fill(self, slot: Slot) -> bool:
        if not self._skipped:
            self._skipped = True
            self._cursor.skip(self._position.batch * self._batch_size, short=self._batch_size - 1)
        first = self._cursor.delivered
        count = self._cursor.fill(slot.inputs, slot.labels)
        if count and not (self._drop_last and count < self._batch_size):
            slot.indices[:count] = np.arange(first, first + count)
            slot.count = count
            self._delivered = True
            return True
        if not self._delivered:
            check_count(self._dataset, count, self._batch_size, self._drop_last)
        return False

    def close(self) -> None:
        self._cursor.close()


class Pass:
    """The rest of one epoch, read in the calling thread."""

    def __init__(self, source: Source, slots: list[Slot], position: Position) -> None:
        self._source = source
        self._slots = slots
        self.epoch = position.epoch
        self.taken = position.batch

    def take(self) -> Batch | None:
        """The next batch, None at the end of the epoch."""
        if not self._source.fill(self._slots[0]):
            return None
        self.taken += 1
        return self._slots[0].batch()

    def give_back(self) -> None:
        """The caller is done with the batch last taken."""

    @property
    def running(self) -> bool:
        """Whether something may still write to the buffers."""
        return False

    def close(self) -> None:
        """Stop; may be called again."""
        self._source.close()


class ThreadedPass(Pass):
    """The rest of one epoch, read ahead by a thread that ends with the pass.

    All state is guarded by one condition. The thread holds no reference to the loader, so that a loader nobody uses any
    more is collected, which ends the thread.
    """

    def __init__(self, source: Source, slots: list[Slot], position: Position) -> None:
        super().__init__(source, slots, position)
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._free = deque(slots)
        self._ready: deque[Slot] = deque()
        self._held: Slot | None = None
        self._stop = False
        self._ended = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._produce, name="nntrainer_py-data", daemon=True)
        self._thread.start()

    def take(self) -> Batch | None:
        if self._process != os.getpid():
            raise ForkError("the thread that reads the data stayed in the parent process; make a loader in this one")
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._ended)
            if self._ready:
                self._held = self._ready.popleft()
                self.taken += 1
                return self._held.batch()
            error, self._error = self._error, None
        self._join()
        if error is not None:
            raise error
        return None

    def give_back(self) -> None:
        with self._changed:
            if self._held is not None:
                self._free.append(self._held)
                self._held = None
                self._changed.notify_all()

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        if self._process != os.getpid():  # a forked child has no thread to stop, and the lock may be held for ever
            return
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        self._join()

    def _join(self) -> None:
        self._thread.join(_JOIN_SECONDS)
        if self._thread.is_alive():
            warnings.warn(
                f"a data set does not return from reading; its thread was left behind after {_JOIN_SECONDS:g} s",
                RuntimeWarning,
                stacklevel=3,
            )

    def _produce(self) -> None:
        error: BaseException | None = None
        try:
            try:
                while (slot := self._next_free()) is not None and self._source.fill(slot):
                    with self._changed:
                        self._ready.append(slot)
                        self._changed.notify_all()
            finally:
                self._source.close()
        except BaseException as caught:  # carried to the consumer, whatever it is
            error = caught
        with self._changed:
            self._error = error
            self._ended = True
            self._changed.notify_all()

    def _next_free(self) -> Slot | None:
        with self._changed:
            self._changed.wait_for(lambda: self._free or self._stop)
            return None if self._stop else self._free.popleft()
