"""Batches of a data set, made by one background thread in a fixed ring of buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from nntrainer_py.data.dataset import Dataset, IndexedDataset, StreamDataset, size_of
from nntrainer_py.data.normalization import Normalization
from nntrainer_py.data.passes import (
    Batch,
    IndexedSource,
    Order,
    Pass,
    Position,
    Slot,
    Source,
    StreamSource,
    ThreadedPass,
    check_count,
    order_bytes,
)
from nntrainer_py.errors import DataError, PlanError, counted
from nntrainer_py.memory.machine import machine_memory

SHUFFLE_KINDS = ("counter", "nntrainer")
_MEASURED_BYTES = 1 << 20


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
        PlanError: the machine has not the memory for the buffers.
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
        check_count(dataset, count, batch_size, drop_last)
        self._order: Order | None = None
        if isinstance(dataset, IndexedDataset):
            self._order = Order(dataset.sample_count, shuffle, seed, shuffle_kind)
        elif shuffle:
            self.notices.append(f"{dataset.name}: samples come in the order of their source, they are not shuffled")
        self._buffer_size = buffer_size
        self._shuffle_kind = shuffle_kind if shuffle else None
        _require_memory(dataset, self.buffer_bytes, batch_size)
        slots = buffer_size + 1  # one is with the caller
        self._slots = [Slot(dataset, batch_size) for _ in range(slots)]
        self._position = Position()
        self._pass: Pass | None = None

    @property
    def buffer_bytes(self) -> int:
        """Memory of the ring, the order of the samples, the data set's own scratch, and data that lies in memory."""
        return loader_bytes(self.dataset, self.batch_size, self._buffer_size, shuffle_kind=self._shuffle_kind)

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
        if self._pass is not None:
            raise self.dataset.error(
                "an earlier pass over this data is still reading, it did not return when asked to stop"
            )
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
            if not self._pass.running:  # a thread that hangs still owns the buffers
                self._pass = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, position: Position) -> Pass:
        source: Source
        if self._order is not None:
            assert isinstance(self.dataset, IndexedDataset)
            source = IndexedSource(self.dataset, self._order, position, self.batch_size, self.drop_last)
        else:
            assert isinstance(self.dataset, StreamDataset)
            source = StreamSource(self.dataset, position, self.batch_size, self.drop_last)
        kind = ThreadedPass if self._buffer_size else Pass
        return kind(source, self._slots, position)


def _require_memory(dataset: Dataset, needed: int, batch_size: int) -> None:
    """PlanError for buffers that the machine cannot hold; one that promises more than it has would end us later."""
    there = machine_memory()
    if there is not None and needed > there:
        raise PlanError(
            f"{dataset.name}: batches of {counted(batch_size, 'sample')} take {needed} bytes of memory, "
            f"the machine has {there}; "
            "choose a smaller batch size"
        )


def largest_batch(dataset: Dataset, batch_size: int, drop_last: bool = False) -> int:
    """Samples of the largest batch that comes: all of a data set that is known to have fewer than ``batch_size``.

    It is the short last batch of an epoch, so that nothing but memory changes; with ``drop_last`` there would be none.
    """
    count = None if drop_last else dataset.sample_count
    return min(batch_size, count) if count else batch_size


def ring_bytes(
    input_dims: Sequence[Sequence[int]], label_dims: Sequence[Sequence[int]], batch_size: int, buffer_size: int
) -> int:
    """Memory of a loader's ring before there is a loader (the order and scratch of the data set come on top)."""
    features = sum(map(size_of, (*input_dims, *label_dims)))
    return (buffer_size + 1) * batch_size * (4 * features + 8)


def loader_bytes(dataset: Dataset, batch_size: int, buffer_size: int, *, shuffle_kind: str | None = None) -> int:
    """What a loader of this data set, bound to a model, takes (`BatchLoader.buffer_bytes`), before there is one.

    ``shuffle_kind`` None: the samples come in their own order.
    """
    if dataset.input_dims is None or dataset.label_dims is None:
        raise ValueError(f"{dataset.name}: bind the data to a model's shapes before counting its memory")
    order = 0
    if shuffle_kind is not None and isinstance(dataset, IndexedDataset):
        order = order_bytes(dataset.sample_count, shuffle_kind)
    ring = ring_bytes(dataset.input_dims, dataset.label_dims, batch_size, buffer_size)
    return ring + order + dataset.scratch_bytes(batch_size, in_order=shuffle_kind is None) + dataset.resident_bytes


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


__all__ = [
    "SHUFFLE_KINDS",
    "Batch",
    "BatchLoader",
    "Position",
    "largest_batch",
    "loader_bytes",
    "measure_normalization",
    "ring_bytes",
]
