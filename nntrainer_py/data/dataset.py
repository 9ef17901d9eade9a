"""What every data set is: named, bound to a model's shapes, filling rows of batches that somebody else owns.

Two kinds: an `IndexedDataset` gives any sample by its number (and so can be shuffled and resumed anywhere); a
`StreamDataset` gives samples in an order of its own and starts again for each epoch.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from nntrainer_py.data.gather import strict_float32
from nntrainer_py.data.labels import LabelEncoder, check_labels, put_labels
from nntrainer_py.data.normalization import Normalization
from nntrainer_py.errors import DataError, Origin, counted, printable
from nntrainer_py.tensor.dim import TensorDim

Shape = tuple[int, int, int]
Float32 = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]
AnyArray = npt.NDArray[np.generic]


def as_shape(shape: Sequence[int] | TensorDim) -> Shape:
    """``shape`` of one sample as (channel, height, width), right-aligned; ones in front are cut when it is longer."""
    if isinstance(shape, TensorDim):
        return shape.channel, shape.height, shape.width
    sizes = [int(size) for size in shape]
    while len(sizes) > 3 and sizes[0] == 1:
        del sizes[0]
    if len(sizes) > 3 or any(size < 1 for size in sizes):
        raise ValueError(f"a sample has at most 3 axes, all of them at least 1, got {tuple(shape)}")
    channel, height, width = [1] * (3 - len(sizes)) + sizes
    return channel, height, width


def size_of(shape: Sequence[int]) -> int:
    """Number of elements of one sample of ``shape``."""
    return math.prod(map(int, shape))


def show(shape: Sequence[int]) -> str:
    """``1:28:28``, as the INI writes shapes."""
    return ":".join(str(size) for size in shape)


class Dataset(ABC):
    """Base of both kinds.

    Attributes:
        name: how messages call it, usually its path.
        input_dims, label_dims: (channel, height, width) of each input and label of a sample; None until known, which at
            the latest is after `bind`, when they are the model's.
        class_names: names of the classes in index order where the data knows them.
        class_count: how many classes integer labels name, where the data says so without looking at the model.
        feature_names: names of the input columns of a table with a header, known after `bind`; None: there are none.
        input_names, label_names: of the model's inputs and labels, in the order of the data, for messages; given before
            `bind` where the model has several.
        expected_features: those of the training data, given before `bind`; columns that have names are taken by them.
        normalization: applied to the inputs of every sample read, None for raw values.
        resident_bytes: of the data itself that lie in memory: a parsed table, an unpacked array; not what is mapped.
        notices: what the user should know although it is no error.
        remarks: what could be done better, of no consequence for any result.
        origin, key: where the user named the data, repeated by errors.
    """

    kind: ClassVar[str] = ""

    def __init__(self, name: str, *, origin: Origin | None = None, key: str = "") -> None:
        self.name = name
        self.origin = origin
        self.key = key
        self.input_dims: list[Shape] | None = None
        self.label_dims: list[Shape] | None = None
        self.class_names: tuple[str, ...] | None = None
        self.feature_names: tuple[str, ...] | None = None
        self.expected_features: tuple[str, ...] | None = None
        self.input_names: tuple[str, ...] = ()
        self.label_names: tuple[str, ...] = ()
        self.normalization: Normalization | None = None
        self.resident_bytes = 0
        self.notices: list[str] = []
        self.remarks: list[str] = []
        self._bound = False
        self._encoders: list[LabelEncoder] = []
        self._label_kinds: list[str] | None = None
        self._labels_checked = False
        self._few_names = ""

    @property
    def sample_count(self) -> int | None:
        """How many samples an epoch has, None when nobody can know before it ends."""
        return None

    @property
    def bound(self) -> bool:
        """Whether `bind` succeeded."""
        return self._bound

    def __len__(self) -> int:
        """Number of samples; TypeError when it is unknown."""
        count = self.sample_count
        if count is None:
            raise TypeError(f"{self.name}: the number of samples is unknown")
        return count

    def bind(
        self,
        input_dims: Sequence[Sequence[int] | TensorDim],
        label_dims: Sequence[Sequence[int] | TensorDim],
        *,
        class_names: Sequence[str] | None = None,
        label_kinds: Sequence[str] | None = None,
    ) -> None:
        """Say what the model expects, before the first read.

        Args:
            input_dims: (channel, height, width) of each model input, in feeding order.
            label_dims: of each label; empty for data that is only predicted on. Where the data holds one integer for
                a label of width C > 1, it is expanded to a one-hot row.
            class_names: the training data's names, so that names found here get the same indices; () where it has
                numbers instead, so that names are refused. None: this is the training data, or nobody knows.
            label_kinds: one word of `labels.LABEL_KINDS` for each label; rows that break it are refused when read.

        Raises:
            DataError: the data does not fit; names the data, what it has and what the model expects.
        """
        inputs = [as_shape(shape) for shape in input_dims]
        labels = [as_shape(shape) for shape in label_dims]
        if label_kinds is not None and len(label_kinds) != len(labels):
            raise ValueError(f"expected a kind for each of {counted(len(labels), 'label')}, got {len(label_kinds)}")
        self._label_kinds = list(label_kinds) if label_kinds is not None else None
        with self.located():
            raw_sizes = self._fit(inputs, labels, tuple(class_names) if class_names is not None else None)
        self._encoders = [
            LabelEncoder(raw, shape, self.class_names if class_names is None else tuple(class_names))
            for raw, shape in zip(raw_sizes, labels, strict=True)
        ]
        self.input_dims, self.label_dims = inputs, labels
        if self.normalization is not None:
            self.normalization.check(inputs, self.name)
        with self.located():
            self._labels_checked = self._check_bound_labels()
        self._tell_of_few_names(class_names)
        self._bound = True

    def _tell_of_few_names(self, class_names: Sequence[str] | None) -> None:
        """Warn of training data (bound with ``class_names`` None first) with fewer names than outputs for them."""
        told = self._few_names in self.notices
        if told:
            self.notices.remove(self._few_names)
        names = self.class_names if class_names is None else class_names
        outputs = next((encoder.classes for encoder in self._encoders if not encoder.direct), 0)
        if names and len(names) < outputs and (told or class_names is None):
            self._few_names = (
                f"{printable(self.name)}: {counted(len(names), 'class name')}, "
                f"but the model has {counted(outputs, 'output')}; "
                f"those from {len(names)} on stand for no class of the data (unit = {len(names)} is enough there)"
            )
            self.notices.append(self._few_names)

    @abstractmethod
    def _fit(self, inputs: list[Shape], labels: list[Shape], class_names: tuple[str, ...] | None) -> list[int]:
        """Adapt to the model's shapes; the number of values that the data holds for each label of a sample."""

    def _check_bound_labels(self) -> bool:
        """Check labels that are cheap to look at before the first step; whether that was done for all."""
        return False

    def where(self, sample: int) -> str:
        """How a message calls sample ``sample`` (counted from 0)."""
        return f"{printable(self.name)}: sample {sample}"

    def error(self, message: str) -> DataError:
        """An error about this data, naming it and the place where the user asked for it."""
        return DataError(f"{printable(self.name)}: {message}", origin=self.origin, key=self.key)

    def called(self, what: str, number: int) -> str:
        """``input 1 (left)``: which input or label a message is about."""
        names = self.input_names if what == "input" else self.label_names
        return f"{what} {number}" + (f" ({printable(names[number])})" if len(names) > 1 else "")

    def _kind(self, label: int) -> str:
        """What label ``label`` must be, one of `LABEL_KINDS`."""
        return self._label_kinds[label] if self._label_kinds is not None else "any"

    @contextmanager
    def located(self) -> Iterator[None]:
        """Complete errors of the block: where the user asked for the data, and what a failed conversion means."""
        try:
            yield
        except DataError as error:
            raise error.located(self.origin, self.key) from error.__cause__
        except FloatingPointError:
            raise self.error("a value is too large for float32") from None

    def scratch_bytes(self, batch_size: int, *, in_order: bool = False) -> int:
        """Memory that reading in batches of ``batch_size`` takes besides these; ``in_order``: each a run of samples."""
        return sum(encoder.scratch_bytes(batch_size) for encoder in self._encoders)

    def close(self) -> None:
        """Give back files and maps; reading afterwards is an error of the caller."""

    def _require_bound(self, inputs: Sequence[AnyArray], labels: Sequence[AnyArray]) -> None:
        if not self._bound or self.input_dims is None or self.label_dims is None:
            raise ValueError(f"{self.name}: bind the data to a model's shapes before reading")
        for what, arrays, shapes in (("input", inputs, self.input_dims), ("label", labels, self.label_dims)):
            if len(arrays) != len(shapes):
                raise ValueError(f"{self.name}: expected {len(shapes)} {what} arrays, got {len(arrays)}")
            for array, shape in zip(arrays, shapes, strict=True):
                if array.dtype != np.float32 or array.shape[1:] != shape or not array.flags.c_contiguous:
                    raise ValueError(
                        f"{self.name}: expected a C-contiguous float32 {what} array of samples {show(shape)}, "
                        f"got {array.dtype} {array.shape}"
                    )

    def _finish(self, numbers: Indices, inputs: list[Float32], labels: list[Float32]) -> None:
        """Expand and check the labels and normalise the inputs of rows just read."""
        for k, encoder in enumerate(self._encoders):
            encoder.expand(labels[k], numbers, self.where)
            if encoder.direct and not self._labels_checked:
                check_labels(self._kind(k), labels[k], numbers=numbers, where=self.where)
        if self.normalization is not None:
            self.normalization.apply(inputs)


class IndexedDataset(Dataset):
    """Gives any sample by its number."""

    def __init__(self, name: str, *, origin: Origin | None = None, key: str = "") -> None:
        super().__init__(name, origin=origin, key=key)
        self._lock = threading.Lock()

    @property
    @abstractmethod
    def sample_count(self) -> int:
        """How many samples there are."""

    def read(self, indices: Indices, inputs: Sequence[Float32], labels: Sequence[Float32]) -> None:
        """Fill the first ``len(indices)`` rows of each batch array with the samples of those numbers.

        Args:
            indices: int64 sample numbers from 0, in any order, repeats allowed.
            inputs, labels: one C-contiguous float32 array (batch, channel, height, width) per input and label.

        Raises:
            DataError: the data cannot be read, or a label is out of range (names the sample and the value).
        """
        self._require_bound(inputs, labels)
        count = len(indices)
        if count == 0:
            return
        if indices.min() < 0 or indices.max() >= self.sample_count:
            raise IndexError(f"{self.name}: sample numbers must lie in 0..{self.sample_count - 1}")
        rows_in = [array[:count] for array in inputs]
        rows_out = [array[:count] for array in labels]
        with self._lock, self.located():
            targets = [e.target(rows) for e, rows in zip(self._encoders, rows_out, strict=True)]
            self._fill(indices, [rows.reshape(count, -1) for rows in rows_in], targets)
            self._finish(indices, rows_in, rows_out)

    @abstractmethod
    def _fill(self, indices: Indices, inputs: list[Float32], labels: list[Float32]) -> None:
        """Write the raw values: inputs (count, features), labels (count, values per sample as `_fit` said)."""


class StreamCursor:
    """One pass over a stream: hands out rows until the stream ends."""

    def __init__(self, dataset: StreamDataset, epoch: int) -> None:
        self._dataset = dataset
        self._epoch = epoch
        self._chunks = dataset.chunks(epoch)
        self._inputs: list[AnyArray] = []
        self._labels: list[AnyArray] = []
        self._taken = 0  # rows of the current chunk already handed out
        self._rows = 0
        self._ended = False
        self.delivered = 0

    def fill(self, inputs: Sequence[Float32], labels: Sequence[Float32]) -> int:
        """Fill rows from the first on; how many there were (fewer than fit only at the end of the stream)."""
        dataset = self._dataset
        dataset._require_bound(inputs, labels)
        capacity = len(inputs[0])
        first = self.delivered
        flat_inputs = [rows.reshape(capacity, -1) for rows in inputs]
        flat_labels = [rows.reshape(capacity, -1) for rows in labels]
        with dataset.located():
            count = self._move(flat_inputs, flat_labels, capacity)
            if count:
                numbers = np.arange(first, first + count, dtype=np.int64)
                dataset._finish(numbers, [rows[:count] for rows in inputs], [rows[:count] for rows in labels])
        return count

    def skip(self, samples: int, short: int = 0) -> None:
        """Pass over samples without looking at them; DataError when more than ``short`` of them are not there."""
        while samples > 0 and self._advance():
            step = min(samples, self._rows - self._taken)
            self._taken += step
            self.delivered += step
            samples -= step
        if samples > short:
            raise self._dataset.error(
                f"the data ended after {counted(self.delivered, 'sample')}, before the place to resume from"
            )

    def close(self) -> None:
        """Let go of the stream; a generator's ``finally`` blocks run."""
        self._ended = True
        self._inputs, self._labels = [], []
        close = getattr(self._chunks, "close", None)
        if close is not None:
            close()

    def _move(self, inputs: list[Float32], labels: list[Float32], capacity: int) -> int:
        count = 0
        while count < capacity and self._advance():
            step = min(capacity - count, self._rows - self._taken)
            source, target = slice(self._taken, self._taken + step), slice(count, count + step)
            numbers = np.arange(self.delivered, self.delivered + step, dtype=np.int64)
            with strict_float32():
                for to, chunk in zip(inputs, self._inputs, strict=True):
                    to[target] = chunk[source]
                for to, chunk, shape in zip(labels, self._labels, self._dataset.label_dims or [], strict=True):
                    put_labels(chunk[source], to[target], shape[2], numbers, self._dataset.where)
            self._taken += step
            self.delivered += step
            count += step
        return count

    def _advance(self) -> bool:
        """Make sure that the current chunk has a row left; False at the end."""
        promised = self._dataset.sample_count
        if promised is not None and self.delivered >= promised:
            self._ended = True
        while not self._ended and self._taken >= self._rows:
            try:
                self._inputs, self._labels = next(self._chunks)
            except StopIteration:
                self._ended = True
                if promised is not None:
                    raise self._dataset.error(
                        f"epoch {self._epoch + 1} ended after {counted(self.delivered, 'sample')}, "
                        f"{promised} were promised"
                    ) from None
            else:
                self._taken, self._rows = 0, len(self._inputs[0])
                if promised is not None:
                    self._rows = min(self._rows, promised - self.delivered)
        return not self._ended


class StreamDataset(Dataset):
    """Gives samples in an order of its own, from the start again for each epoch."""

    @property
    def repeatable(self) -> bool:
        """Whether the same samples can be had more than once."""
        return True

    @abstractmethod
    def chunks(self, epoch: int) -> Iterator[tuple[list[AnyArray], list[AnyArray]]]:
        """The samples of epoch ``epoch`` (from 0) in pieces: inputs (n, features), labels whole or as class indices."""

    def open(self, epoch: int) -> StreamCursor:
        """Start a pass; the caller closes it."""
        return StreamCursor(self, epoch)
