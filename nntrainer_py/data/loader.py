"""Batches of a data set, made by one background thread in a fixed ring of buffers."""

from __future__ import annotations

import threading
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from nntrainer_py.data.dataset import Dataset, Float32, IndexedDataset, Indices, StreamDataset, size_of
from nntrainer_py.data.normalization import Normalization
from nntrainer_py.errors import DataError
from nntrainer_py.tensor.rng import Stream, nntrainer_shuffle, permutation

SHUFFLE_KINDS = ("counter", "nntrainer")
_JOIN_SECONDS = 10.0
_MEASURED_BYTES = 1 << 20


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


class BatchLoader:
    """Iterate to get the batches of one epoch, from `position` to its end; the next iteration is the next epoch.

    The order of the samples is a function of (seed, epoch), so `seek` continues exactly where another process stopped.

    Args:
        dataset: bound to the model's shapes.
        batch_size: samples in a batch.
        shuffle: new order each epoch. A stream keeps the order it comes in, with a line in `notices`.
        seed: of the order, 0 to 2^32 - 1.
        drop_last: leave out a last batch that is not full, as NNTrainer does.
        buffer_size: batches kept ready. 0 reads in the calling thread.
        shuffle_kind: "counter" (a function of seed and epoch) or "nntrainer" (its own shuffle, state over the epochs).

    Raises:
        DataError: no sample, or with ``drop_last`` not even one full batch. While iterating: whatever went wrong in the
            background, with its text.
    """

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        drop_last: bool = False,
        buffer_size: int = 1,
        shuffle_kind: str = "counter",
    ) -> None:
        if batch_size < 1 or buffer_size < 0:
            raise ValueError(
                f"expected a batch size of 1 or more and no negative buffer size, got {batch_size}, {buffer_size}"
            )
        if shuffle_kind not in SHUFFLE_KINDS:
            raise ValueError(f"shuffle kind: expected one of {', '.join(SHUFFLE_KINDS)}, got {shuffle_kind!r}")
        if not dataset.bound or dataset.input_dims is None or dataset.label_dims is None:
            raise ValueError(f"{dataset.name}: bind the data to a model's shapes before loading batches")
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.notices: list[str] = []
        count = dataset.sample_count
        _check_count(dataset, count, batch_size, drop_last)
        self._order: _Order | None = None
        if isinstance(dataset, IndexedDataset):
            self._order = _Order(dataset.sample_count, shuffle, seed, shuffle_kind)
        elif shuffle:
            self.notices.append(f"{dataset.name}: samples come in the order of their source, they are not shuffled")
        self._buffer_size = buffer_size
        slots = buffer_size + 1  # one is with the caller
        self._slots = [_Slot(dataset, batch_size) for _ in range(slots)]
        self._position = Position()
        self._pass: _Pass | None = None

    @property
    def buffer_bytes(self) -> int:
        """Memory of the ring, the order of the samples and the data set's own scratch."""
        order = 0 if self._order is None else 8 * self._order.count
        return sum(slot.bytes for slot in self._slots) + order + self.dataset.scratch_bytes(self.batch_size)

    @property
    def samples_per_epoch(self) -> int | None:
        """Samples that one epoch delivers; None when the data set does not know."""
        count = self.dataset.sample_count
        if count is None:
            return None
        return count - count % self.batch_size if self.drop_last else count

    @property
    def batches_per_epoch(self) -> int | None:
        """Batches of one epoch; None when the data set does not know."""
        samples = self.samples_per_epoch
        return None if samples is None else -(-samples // self.batch_size)

    @property
    def position(self) -> Position:
        """The next batch to be handed out: after batch k of epoch e it is (e, k + 1), after the last one (e + 1, 0)."""
        return self._position

    def seek(self, epoch: int, batch: int = 0) -> None:
        """Go on with batch ``batch`` of epoch ``epoch`` (both from 0); ValueError if the epoch has no such place.

        Behind the last batch of an epoch, the next iteration gives no batch and ends that epoch.
        """
        batches = self.batches_per_epoch
        if epoch < 0 or batch < 0 or (batches is not None and batch > batches):
            raise ValueError(f"position: epoch {epoch}, batch {batch} does not exist (an epoch has {batches} batches)")
        self.close()
        self._position = Position(epoch, batch)

    def __iter__(self) -> Iterator[Batch]:
        self.close()
        current = self._pass = self._start(self._position)
        try:
            while True:
                batch = current.take()
                if batch is None:
                    self._position = Position(current.epoch + 1)
                    return
                self._position = Position(current.epoch, current.taken)
                yield batch
                current.give_back()
                if self._pass is not current:
                    raise ValueError("the loader was closed or started again while this pass over it was going on")
        finally:
            current.close()

    def close(self) -> None:
        """Stop the background thread, if one runs; the position stays."""
        if self._pass is not None:
            self._pass.close()
            self._pass = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, position: Position) -> _Pass:
        source: _Source
        if self._order is not None:
            assert isinstance(self.dataset, IndexedDataset)
            source = _IndexedSource(self.dataset, self._order, position, self.batch_size, self.drop_last)
        else:
            assert isinstance(self.dataset, StreamDataset)
            source = _StreamSource(self.dataset, position, self.batch_size, self.drop_last)
        kind = _ThreadedPass if self._buffer_size else _Pass
        return kind(source, self._slots, position)


def ring_bytes(
    input_dims: Sequence[Sequence[int]], label_dims: Sequence[Sequence[int]], batch_size: int, buffer_size: int
) -> int:
    """Memory of a loader's ring before there is a loader (the order and scratch of the data set come on top)."""
    features = sum(map(size_of, (*input_dims, *label_dims)))
    return (buffer_size + 1) * batch_size * (4 * features + 8)


def measure_normalization(dataset: Dataset, method: str, scope: str = "whole") -> Normalization:
    """Read the data set once, in its own order, and measure how to scale its inputs (see `Normalization.measure`).

    Raises:
        DataError: the data can be read only once, holds a value that is not finite, or cannot be read.
    """
    if isinstance(dataset, StreamDataset) and not dataset.repeatable:
        raise dataset.error("a normalization is measured in a pass of its own, and this data can be read only once")
    dims = dataset.input_dims or []
    kept, dataset.normalization = dataset.normalization, None
    try:
        rows = max(1, min(1024, _MEASURED_BYTES // (4 * max(1, sum(map(size_of, dims))))))
        loader = BatchLoader(dataset, rows, buffer_size=0)
        batches = ([array[: batch.count] for array in batch.inputs] for batch in loader)
        return Normalization.measure(batches, dims, method=method, scope=scope)
    except DataError as error:
        raise (dataset.error(error.message) if error.origin is None else error) from None
    finally:
        dataset.normalization = kept


def _check_count(dataset: Dataset, count: int | None, batch_size: int, drop_last: bool) -> None:
    if count == 0:
        raise dataset.error("there is no sample in it")
    if drop_last and count is not None and count < batch_size:
        raise dataset.error(
            f"{count} samples do not fill one batch of {batch_size}, and drop_last leaves out batches that are not full"
        )


class _Slot:
    """The buffers of one batch."""

    def __init__(self, dataset: Dataset, batch_size: int) -> None:
        # Written now, so that the memory is resident from the start and not only after the first epoch.
        self.inputs = [np.full((batch_size, *shape), 0, np.float32) for shape in dataset.input_dims or []]
        self.labels = [np.full((batch_size, *shape), 0, np.float32) for shape in dataset.label_dims or []]
        self.indices: Indices = np.full(batch_size, 0, np.int64)
        self.count = 0

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in (*self.inputs, *self.labels)) + self.indices.nbytes

    def batch(self) -> Batch:
        return Batch(self.inputs, self.labels, self.count, self.indices[: self.count])


class _Order:
    """The order of the samples in an epoch."""

    def __init__(self, count: int, shuffle: bool, seed: int, kind: str) -> None:
        self.count = count
        self._shuffle = shuffle
        self._seed = seed
        self._kind = kind
        self._stream = Stream(seed)
        self._next = 0  # the epoch that the state of NNTrainer's generator is for
        self._epoch = -1
        self._indices: Indices = np.arange(count, dtype=np.int64)

    def of_epoch(self, epoch: int) -> Indices:
        if not self._shuffle or epoch == self._epoch:
            return self._indices
        if self._kind == "counter":
            self._indices = permutation(self._seed, epoch, self.count)
        else:
            if epoch < self._next:
                self._stream, self._next = Stream(self._seed), 0
            while self._next <= epoch:
                self._indices = nntrainer_shuffle(self.count, self._stream)
                self._next += 1
        self._epoch = epoch
        return self._indices


class _Source(Protocol):
    """Fills one slot after the other."""

    def fill(self, slot: _Slot) -> bool:
        """Make the next batch; False when the epoch is over."""

    def close(self) -> None:
        """Let go of the data."""


class _IndexedSource:
    def __init__(
        self, dataset: IndexedDataset, order: _Order, position: Position, batch_size: int, drop_last: bool
    ) -> None:
        self._dataset = dataset
        self._order = order
        self._epoch = position.epoch
        self._next = position.batch * batch_size
        self._batch_size = batch_size
        self._end = order.count - order.count % batch_size if drop_last else order.count

    def fill(self, slot: _Slot) -> bool:
        count = min(self._batch_size, self._end - self._next)
        if count <= 0:
            return False
        indices = slot.indices[:count]
        indices[...] = self._order.of_epoch(self._epoch)[self._next : self._next + count]
        self._dataset.read(indices, slot.inputs, slot.labels)
        slot.count = count
        self._next += count
        return True

    def close(self) -> None:
        """Nothing is held open."""


class _StreamSource:
    def __init__(self, dataset: StreamDataset, position: Position, batch_size: int, drop_last: bool) -> None:
        self._dataset = dataset
        self._position = position
        self._batch_size = batch_size
        self._drop_last = drop_last
        self._cursor = dataset.open(position.epoch)
        self._skipped = False
        self._delivered = position.batch > 0

    def fill(self, slot: _Slot) -> bool:
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
            _check_count(self._dataset, count, self._batch_size, self._drop_last)
        return False

    def close(self) -> None:
        self._cursor.close()


class _Pass:
    """The rest of one epoch, read in the calling thread."""

    def __init__(self, source: _Source, slots: list[_Slot], position: Position) -> None:
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

    def close(self) -> None:
        """Stop; may be called again."""
        self._source.close()


class _ThreadedPass(_Pass):
    """The rest of one epoch, read ahead by a thread that ends with the pass.

    All state is guarded by one condition. The thread holds no reference to the loader, so that a loader nobody uses any
    more is collected, which ends the thread.
    """

    def __init__(self, source: _Source, slots: list[_Slot], position: Position) -> None:
        super().__init__(source, slots, position)
        self._changed = threading.Condition()
        self._free = deque(slots)
        self._ready: deque[_Slot] = deque()
        self._held: _Slot | None = None
        self._stop = False
        self._ended = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._produce, name="nntrainer_py-data", daemon=True)
        self._thread.start()

    def take(self) -> Batch | None:
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

    def close(self) -> None:
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

    def _next_free(self) -> _Slot | None:
        with self._changed:
            self._changed.wait_for(lambda: self._free or self._stop)
            return None if self._stop else self._free.popleft()


__all__ = ["SHUFFLE_KINDS", "Batch", "BatchLoader", "Position", "measure_normalization", "ring_bytes"]
