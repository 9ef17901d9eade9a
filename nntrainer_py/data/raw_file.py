"""NNTrainer's raw data file: float32 values without a header, sample after sample, inputs then labels."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from nntrainer_py.data.dataset import Float32, IndexedDataset, Indices, Shape, as_shape, size_of
from nntrainer_py.data.file_map import map_file
from nntrainer_py.data.files import checked_file, known_format, reason
from nntrainer_py.data.gather import RowGatherer
from nntrainer_py.data.labels import check_labels
from nntrainer_py.data.rows import check_columns, describe_stride
from nntrainer_py.errors import DataError, Origin, counted

_VALUE_BYTES = 4
_PROBED_SAMPLES = 64


class RawFileDataset(IndexedDataset):
    """A ``.dat`` file, memory-mapped when it is bound.

    Sample i starts at byte ``i * 4 * (sum of inputs + sum of labels)``. A partial sample at the end is ignored, with a
    notice. The file does not say how long a sample is: when its size is no multiple of the model's sample and the
    labels read that way make no sense either, the stride is taken to be wrong.

    Args:
        path: the file.
        integer_labels: each label is one class index instead of the whole one-hot row (not NNTrainer's form).
    """

    kind = "file"

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        integer_labels: bool = False,
        origin: Origin | None = None,
        key: str = "",
    ) -> None:
        super().__init__(str(path), origin=origin, key=key)
        self.path = checked_file(path, origin=origin, key=key)
        found = known_format(self.path)
        if found is not None:
            raise self.error(f"expected raw float32 values, this looks like {found}")
        self._integer_labels = integer_labels
        self._bytes = self.path.stat().st_size
        self._count = 0
        self._starts: list[int] = []
        self._raw: list[int] = []
        self._shapes: list[Shape] = []
        self._gatherer: RowGatherer | None = None
        self._descriptor = -1

    @property
    def sample_count(self) -> int:
        """Whole samples in the file; 0 until it is bound, since the file does not say how long one is."""
        return self._count

    def labelled_samples(
        self, input_dims: Sequence[Sequence[int]], label_dims: Sequence[Sequence[int]], kinds: Sequence[str] | None
    ) -> int:
        """How many samples with labels the file may hold: its size is a whole number and the labels make sense.

        0 where it cannot; the data set is not bound afterwards.
        """
        inputs, labels = [as_shape(shape) for shape in input_dims], [as_shape(shape) for shape in label_dims]
        raw = [shape[0] * shape[1] if self._integer_labels else size_of(shape) for shape in labels]
        stride = (sum(map(size_of, inputs)) + sum(raw)) * _VALUE_BYTES
        if not labels or not self._bytes or self._bytes % stride:
            return 0
        before = self._label_kinds
        try:
            self._count = self._bytes // stride
            self._open(stride // _VALUE_BYTES)
            self._raw, self._shapes, self._label_kinds = raw, labels, None if kinds is None else list(kinds)
            return self._count if self._labels_make_sense() else 0
        finally:
            self.close()
            self._count, self._raw, self._shapes, self._label_kinds = 0, [], [], before

    def scratch_bytes(self, batch_size: int, *, in_order: bool = False) -> int:
        gathering = 0 if self._gatherer is None else self._gatherer.scratch_bytes(batch_size, in_order=in_order)
        return super().scratch_bytes(batch_size, in_order=in_order) + gathering

    def close(self) -> None:
        self._gatherer = None
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            os.close(self._descriptor)

    def _fit(self, inputs: list[Shape], labels: list[Shape], class_names: tuple[str, ...] | None) -> list[int]:
        self.notices.clear()
        raw = [shape[0] * shape[1] if self._integer_labels else size_of(shape) for shape in labels]
        sizes = [*map(size_of, inputs), *raw]
        stride = sum(sizes)
        self._count, rest = divmod(self._bytes, stride * _VALUE_BYTES)
        model = describe_stride(inputs, [(1, 1, r) for r in raw] if self._integer_labels else labels, self.input_names)
        if not self._count:
            raise self.error(
                f"wrong stride: the file has {self._size()}, "
                f"less than one sample of the model: {stride * _VALUE_BYTES} bytes, {model}"
            )
        self._open(stride)
        self._starts = [sum(sizes[:k]) for k in range(len(sizes))]
        self._raw, self._shapes = raw, labels
        if rest:
            self._judge_rest(inputs, labels, rest, model)
        return raw

    def _check_bound_labels(self) -> bool:
        assert self._gatherer is not None
        count = len(self._encoders)
        starts = self._starts[len(self._starts) - count :]
        try:
            return check_columns(
                self._gatherer, starts, self._encoders, [self._kind(k) for k in range(count)], self.where
            )
        except DataError as error:
            if self._labels_make_sense():
                raise
            width = self._gatherer.width
            raise self.error(
                f"wrong stride: read as the model's samples of {width * _VALUE_BYTES} bytes "
                f"({counted(width, 'value')}), "
                f"most labels are no labels; {error.message}"
            ) from None

    def _open(self, stride: int) -> None:
        self.close()
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            mapped = map_file(self.path, "<f4", 0, (self._count, stride))
        except (OSError, ValueError) as error:
            raise self.error(reason(error) if isinstance(error, OSError) else str(error)) from None
        self._gatherer = RowGatherer(mapped)

    def _judge_rest(self, inputs: list[Shape], labels: list[Shape], rest: int, model: str) -> None:
        """The file is no multiple of the sample: cut off at the end, or read with the wrong stride?"""
        assert self._gatherer is not None
        stride = self._gatherer.width
        features = sum(map(size_of, inputs))
        text = (
            f"the file has {self._size()}, the model's sample is {stride * _VALUE_BYTES} bytes, {model}; "
            f"{rest} bytes are left over after {counted(self._count, 'sample')}"
        )
        if not labels:
            raise self.error(f"wrong stride: {text}; inputs alone were expected")
        indices = sum(shape[0] * shape[1] for shape in labels)
        shorter = (features + indices) * _VALUE_BYTES
        classes = [shape[2] for shape in labels]
        if not self._integer_labels and shorter != stride * _VALUE_BYTES and self._bytes % shorter == 0:
            table = map_file(self.path, "<f4", 0, (self._bytes // shorter, features + indices))
            if _are_indices(np.asarray(table[:_PROBED_SAMPLES, features:]), max(classes)):
                raise self.error(
                    f"wrong stride: {text}; it would hold exactly {counted(len(table), 'sample')} of {shorter} bytes "
                    "with a class index for each label (integer_labels = true)"
                )
        if self._label_kinds is not None and not self._labels_make_sense():
            raise self.error(f"wrong stride: {text}, and the values in the place of the labels are no labels")
        self.notices.append(f"{self.name}: {text}; this partial sample is ignored")

    def _labels_make_sense(self) -> bool:
        """Whether at least half of the first samples have labels of the kind that the model wants."""
        assert self._gatherer is not None
        probe = np.asarray(self._gatherer.source[:_PROBED_SAMPLES])
        good = sum(self._is_labelled(row) for row in probe)
        return 2 * good >= len(probe)

    def _is_labelled(self, row: Float32) -> bool:
        """Whether the values at the place of the labels in one row can be such."""
        column = len(row) - sum(self._raw)
        for kind, shape, size in zip(self._label_kinds or [], self._shapes, self._raw, strict=False):
            values = row[column : column + size].astype(np.float32)
            column += size
            if self._integer_labels:
                if not _are_indices(values, shape[2]):
                    return False
                continue
            try:
                check_labels(kind, values.reshape(1, *shape))
            except DataError:
                return False
        return True

    def _size(self) -> str:
        whole, odd = divmod(self._bytes, _VALUE_BYTES)
        return f"{self._bytes} bytes ({counted(whole, 'value')}{f' and {odd} bytes' if odd else ''})"

    def _fill(self, indices: Indices, inputs: list[Float32], labels: list[Float32]) -> None:
        if self._gatherer is None:
            raise ValueError(f"{self.name}: the data set is closed")
        # Reading a map beyond the end of a file that shrank would kill the process.
        if os.fstat(self._descriptor).st_size < self._bytes:
            raise self.error("the file became shorter while it was in use")
        self._gatherer.gather(indices, *zip(self._starts, (*inputs, *labels), strict=True))


def _are_indices(values: Float32, classes: int) -> bool:
    with np.errstate(invalid="ignore"):
        return bool(((values >= 0) & (values < classes) & (values == np.floor(values))).all())
