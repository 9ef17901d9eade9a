"""Data from the user's own code: generators, NNTrainer's callbacks, data sets of other libraries."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from nntrainer_py.data.arrays import as_array, layout_problem
from nntrainer_py.data.dataset import AnyArray, Float32, IndexedDataset, Indices, Shape, StreamDataset, show, size_of
from nntrainer_py.data.gather import strict_float32
from nntrainer_py.data.labels import encode_labels, put_labels
from nntrainer_py.errors import NNTrainerError, counted

Rows = tuple[list[AnyArray], list[AnyArray]]


class ItemParser:
    """Turns what a user's code gives, a sample or a batch of samples, into arrays of rows.

    Forms: ``(x, y)``, or with several inputs or labels ``((x0, x1), (y0, y1))``; for a model bound without labels also
    ``x`` alone. With one input, ``x`` is one sample or a batch (samples, ...).
    """

    def __init__(self, inputs: Sequence[Shape], labels: Sequence[Shape]) -> None:
        self._inputs = list(inputs)
        self._labels = list(labels)

    def parse(self, item: object) -> tuple[list[AnyArray], list[AnyArray]]:
        """Rows (n, values) of each input and each label, a label whole or as class indices.

        Raises:
            ValueError: says what does not fit.
        """
        inputs, labels = self._split(item)
        arrays = [_real(as_array(value), f"input {k}") for k, value in enumerate(inputs)]
        count = self._count(arrays[0], self._inputs[0], "input 0")
        rows = []
        for k, (array, shape) in enumerate(zip(arrays, self._inputs, strict=True)):
            if self._count(array, shape, f"input {k}") != count:
                raise ValueError(f"input {k} has another number of samples than input 0")
            rows.append(array.reshape(count, size_of(shape)))
        targets = []
        for k, (value, shape) in enumerate(zip(labels, self._labels, strict=True)):
            array = _real(as_array(value), f"label {k}")
            targets.append(array.reshape(count, self._raw_size(array, count, shape, k)))
        return rows, targets

    def _split(self, item: object) -> tuple[list[object], list[object]]:
        if not self._labels:
            # (x, y) as for training, or the inputs alone; two inputs alone are a pair too, but not of tuples.
            first = item
            if isinstance(item, tuple) and len(item) == 2 and (len(self._inputs) != 2 or _is_nested(item[0])):
                first = item[0]
            return self._several(first, len(self._inputs), "inputs"), []
        if not isinstance(item, (tuple, list)) or len(item) != 2:
            length = f" of {len(item)}" if isinstance(item, (tuple, list)) else ""
            raise ValueError(f"expected a pair (inputs, labels), got {type(item).__name__}{length}")
        inputs, labels = item
        return (
            self._several(inputs, len(self._inputs), "inputs"),
            self._several(labels, len(self._labels), "labels"),
        )

    @staticmethod
    def _several(value: object, count: int, what: str) -> list[object]:
        if count == 1:
            return [value]
        if not isinstance(value, (tuple, list)) or len(value) != count:
            raise ValueError(f"expected a tuple of {count} {what}, got {type(value).__name__}")
        return list(value)

    @staticmethod
    def _count(array: AnyArray, shape: Shape, what: str) -> int:
        """How many samples an input holds."""
        size = size_of(shape)
        if array.ndim and array.shape[0] * size == array.size and len(array) and _fits(array.shape[1:], shape):
            return len(array)
        if array.size == size:
            problem = layout_problem(array.shape, shape)
            if problem:
                raise ValueError(f"{what}: {problem}")
            return 1
        problem = layout_problem(array.shape[1:], shape) if array.ndim > 1 else ""
        found = (
            problem
            or f"got {counted(array.size, 'value')} (shape {array.shape}), "
            f"the model takes {size} ({show(shape)}) a sample"
        )
        raise ValueError(f"{what}: {found}")

    @staticmethod
    def _raw_size(array: AnyArray, count: int, shape: Shape, k: int) -> int:
        raw, rest = divmod(array.size, count)
        if rest or encode_labels(raw, shape) is None:
            raise ValueError(
                f"label {k} has {counted(array.size, 'value')} for {counted(count, 'sample')}, "
                f"the model takes {size_of(shape)} ({show(shape)}) or one class index a sample"
            )
        return raw


def _fits(have: Sequence[int], want: Shape) -> bool:
    return not layout_problem(have, want)


def _is_nested(value: object) -> bool:
    """Whether a tuple or list holds arrays, not numbers."""
    return isinstance(value, (tuple, list)) and len(value) > 0 and np.ndim(value[0]) > 0


def _real(array: AnyArray, what: str) -> AnyArray:
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{what}: expected real numbers, got {array.dtype}")
    return array


class IterableDataset(StreamDataset):
    """Samples or batches of anything that can be iterated again: a function making generators, a torch ``DataLoader``.

    Args:
        source: an iterable, started again for each epoch, or a function that gives one; a function with a parameter
            ``epoch`` gets the epoch's number, so that a resumed run sees the same samples. A generator object or
            another one-shot iterator can be used up only once: with ``samples_per_epoch`` each epoch takes the next
            so many samples, without it only one epoch is possible.
        samples_per_epoch: what an epoch has; fewer is an error, more are not taken.
    """

    kind = "generator"

    def __init__(
        self,
        source: Iterable[Any] | Callable[..., Iterable[Any]],
        name: str = "generator",
        *,
        samples_per_epoch: int | None = None,
    ) -> None:
        super().__init__(name)
        if samples_per_epoch is not None and samples_per_epoch < 1:
            raise ValueError(f"samples_per_epoch: expected 1 or more, got {samples_per_epoch}")
        self._promised = samples_per_epoch
        self._source = source
        self._takes_epoch = not isinstance(source, Iterable) and "epoch" in inspect.signature(source).parameters
        self._once = _Once(source, self) if isinstance(source, Iterator) else None

    @property
    def sample_count(self) -> int | None:
        return self._promised

    @property
    def repeatable(self) -> bool:
        return self._once is None

    def chunks(self, epoch: int) -> Iterator[Rows]:
        if self._once is not None:
            return self._once.epoch(epoch, self._promised)
        return self._fresh(epoch)

    def _fresh(self, epoch: int) -> Iterator[Rows]:
        made: Any = self._source
        try:
            if not isinstance(made, Iterable):
                made = made(epoch=epoch) if self._takes_epoch else made()
            items = iter(made)
        except NNTrainerError:
            raise
        except Exception as error:
            raise self.error(f"epoch {epoch + 1} could not be started: {describe(error)}") from error
        try:
            yield from self._parsed(items, epoch)
        finally:
            close = getattr(items, "close", None)
            if callable(close):
                close()

    def _parsed(self, items: Iterator[Any], epoch: int) -> Iterator[Rows]:
        """The items as rows; an error of the user's code becomes one that says which item it was."""
        parser = self.parser()
        number = 0
        while True:
            try:
                item = next(items)
                rows = parser.parse(item)
            except StopIteration:
                return
            except NNTrainerError:
                raise
            except Exception as error:
                raise self.error(f"epoch {epoch + 1}, item {number}: {describe(error)}") from error
            yield rows
            number += 1

    def parser(self) -> ItemParser:
        """For the shapes that the data set is bound to."""
        return ItemParser(self.input_dims or [], self.label_dims or [])

    def _fit(self, inputs: list[Shape], labels: list[Shape], class_names: tuple[str, ...] | None) -> list[int]:
        return [size_of(shape) for shape in labels]


class _Once:
    """Epochs cut from one iterator that cannot be started again."""

    def __init__(self, items: Iterator[Any], dataset: IterableDataset) -> None:
        self._items = items
        self._dataset = dataset
        self._rows: Iterator[Rows] | None = None
        self._left: Rows | None = None  # of an item that reached beyond the end of an epoch
        self._taken = 0  # samples since the beginning

    def epoch(self, epoch: int, promised: int | None) -> Iterator[Rows]:
        start = epoch * promised if promised is not None else 0
        if self._taken > start or (promised is None and epoch):
            raise self._dataset.error(
                "this iterator can be used only once, and that was done; give a function that returns a new one"
            )
        if self._rows is None:
            self._rows = self._dataset._parsed(self._items, epoch)
        while self._taken < start:  # an interrupted epoch, or one that another process already used
            if self._next(start - self._taken) is None:
                raise self._dataset.error(
                    f"the data ended after {counted(self._taken, 'sample')}, before epoch {epoch + 1}"
                )
        end = None if promised is None else start + promised
        while end is None or self._taken < end:
            rows = self._next(None if end is None else end - self._taken)
            if rows is None:
                return
            yield rows

    def _next(self, limit: int | None) -> Rows | None:
        """At most ``limit`` rows; None at the end."""
        assert self._rows is not None
        rows = self._left if self._left is not None else next(self._rows, None)
        self._left = None
        if rows is None:
            return None
        inputs, labels = rows
        count = len(inputs[0])
        if limit is not None and count > limit:
            self._left = [a[limit:] for a in inputs], [a[limit:] for a in labels]
            inputs, labels = [a[:limit] for a in inputs], [a[:limit] for a in labels]
            count = limit
        self._taken += count
        return inputs, labels


class CallbackDataset(IterableDataset):
    """NNTrainer's generator: a function that gives one sample a call, as ``(inputs, labels, last)``.

    ``last`` is true together with the final sample of an epoch; the next call begins the next one. Shuffling is the
    function's business. A run resumed in epoch e calls it through the e epochs before.

    Args:
        callback: called without arguments.
        samples_per_epoch: what an epoch has; ``last`` must come with exactly that sample.
    """

    kind = "callback"

    def __init__(
        self,
        callback: Callable[[], tuple[Any, Any, bool]],
        name: str = "callback",
        *,
        samples_per_epoch: int | None = None,
    ) -> None:
        super().__init__((), name, samples_per_epoch=samples_per_epoch)
        self._callback = callback
        self._epochs_begun = 0
        self._called = 0
        self._inside = False

    def chunks(self, epoch: int) -> Iterator[Rows]:
        return self._parsed(self._calls(epoch), epoch)

    def _calls(self, epoch: int) -> Iterator[tuple[Any, Any]]:
        if self._inside:
            self._play()
        while self._epochs_begun < epoch:
            self._play()
        self._epochs_begun = epoch
        yield from self._one_epoch()

    def _play(self) -> None:
        for _ in self._one_epoch():
            pass

    def _one_epoch(self) -> Iterator[tuple[Any, Any]]:
        """Call until ``last``, from the beginning of an epoch or from where an interrupted one stopped."""
        if not self._inside:
            self._epochs_begun += 1
            self._called = 0
        self._inside = True
        while self._inside:
            answer = self._callback()
            self._called += 1
            if not isinstance(answer, (tuple, list)) or len(answer) != 3:
                raise ValueError(f"expected (inputs, labels, last), got {type(answer).__name__}")
            inputs, labels, last = answer
            if self._called == self._promised and not last:
                raise ValueError(f"sample {self._called} is the last one promised, but came without last")
            self._inside = not last
            yield inputs, labels


@runtime_checkable
class MapStyle(Protocol):
    """What torch calls a map-style data set: samples by number."""

    def __getitem__(self, index: int, /) -> Any: ...

    def __len__(self) -> int: ...


class MapDataset(IndexedDataset):
    """Samples ``(x, y)`` of an object with ``__getitem__`` and ``__len__``, asked for one at a time."""

    kind = "map"

    def __init__(self, source: MapStyle, name: str = "data set") -> None:
        super().__init__(name)
        self._source = source
        self._count = len(source)
        if not self._count:
            raise self.error("there is no sample in it")

    @property
    def sample_count(self) -> int:
        return self._count

    def _fit(self, inputs: list[Shape], labels: list[Shape], class_names: tuple[str, ...] | None) -> list[int]:
        return [size_of(shape) for shape in labels]

    def _fill(self, indices: Indices, inputs: list[Float32], labels: list[Float32]) -> None:
        parser = ItemParser(self.input_dims or [], self.label_dims or [])
        for row, number in enumerate(indices.tolist()):
            try:
                found, targets = parser.parse(self._source[number])
                if len(found[0]) != 1:
                    raise ValueError(f"expected one sample, got {len(found[0])}")
            except NNTrainerError:
                raise
            except Exception as error:
                raise self.error(f"sample {number}: {describe(error)}") from error
            with strict_float32():
                for rows, values in zip(inputs, found, strict=True):
                    rows[row] = values[0]
                for rows, values, shape in zip(labels, targets, self.label_dims or [], strict=True):
                    put_labels(values, rows[row : row + 1], shape[2], indices[row : row + 1], self.where)


def describe(error: BaseException) -> str:
    """``ValueError: the text``; only the text where the class says nothing more."""
    text = str(error)
    return (
        text
        if type(error) is ValueError and text
        else f"{type(error).__name__}: {text}"
        if text
        else type(error).__name__
    )


__all__ = ["CallbackDataset", "ItemParser", "IterableDataset", "MapDataset", "MapStyle"]
