"""Data kept as a table: each row is a sample, all its inputs one after the other, then all its labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nntrainer_py.data.dataset import Float32, IndexedDataset, Indices, Shape, show, size_of
from nntrainer_py.data.gather import RowGatherer
from nntrainer_py.data.labels import LabelEncoder, Where
from nntrainer_py.errors import counted, printable

_CHECKED_BYTES = 1 << 26  # a larger table is checked batch by batch, as it is read


def split_row(width: int, inputs: Sequence[Shape], labels: Sequence[Shape]) -> list[int] | None:
    """Values per label in a row of ``width`` values: labels whole, or each one class index; None when neither fits."""
    features = sum(map(size_of, inputs))
    whole = [size_of(shape) for shape in labels]
    if width == features + sum(whole):
        return whole
    indices = [shape[0] * shape[1] for shape in labels]
    return indices if width == features + sum(indices) else None


def describe_stride(inputs: Sequence[Shape], labels: Sequence[Shape], names: Sequence[str] = ()) -> str:
    """``74 values (inputs 1:1:64 + labels 1:1:10)``; ``names`` of several inputs are shown with them."""
    total = sum(map(size_of, (*inputs, *labels)))
    called = [f" ({printable(name)})" for name in names] if len(names) == len(inputs) > 1 else [""] * len(inputs)
    ins = " and ".join(show(shape) + name for shape, name in zip(inputs, called, strict=True))
    outs = " and ".join(map(show, labels))
    return (
        f"{counted(total, 'value')} (inputs {ins} + labels {outs})"
        if labels
        else f"{counted(total, 'value')} (inputs {ins}, no label)"
    )


class TableDataset(IndexedDataset):
    """Samples in the rows of one array (samples, width) of any real type.

    With fewer values than the model's labels need, each label may be one class index. Labels at the end of the rows are
    skipped when the model is bound without labels and ``label_columns`` says how many they are.
    """

    kind = "table"

    def __init__(
        self, table: npt.NDArray[np.generic], name: str = "table", *, label_columns: int | None = None
    ) -> None:
        super().__init__(name)
        if table.ndim != 2:
            raise self.error(f"expected a table of samples by values, got an array of shape {table.shape}")
        if not len(table) or not table.shape[1]:
            raise self.error("there is no sample in it")
        self._gatherer = RowGatherer(table)
        self._label_columns = label_columns
        self._parts: tuple[list[int], list[int]] = ([], [])

    @property
    def sample_count(self) -> int:
        return len(self._gatherer.source)

    def scratch_bytes(self, batch_size: int, *, in_order: bool = False) -> int:
        gathering = self._gatherer.scratch_bytes(batch_size, in_order=in_order)
        return super().scratch_bytes(batch_size, in_order=in_order) + gathering

    def _fit(self, inputs: list[Shape], labels: list[Shape], class_names: tuple[str, ...] | None) -> list[int]:
        width = self._gatherer.width
        features = sum(map(size_of, inputs))
        raw = split_row(width, inputs, labels)
        if raw is None and not labels and self._label_columns is not None and width == features + self._label_columns:
            raw = []
        if raw is None:
            raise self.error(
                f"a sample has {counted(width, 'value')}, "
                f"the model takes {describe_stride(inputs, labels, self.input_names)}"
            )
        sizes = [size_of(shape) for shape in inputs]
        self._parts = (_starts(sizes, 0), _starts(raw, features))
        return raw

    def _check_bound_labels(self) -> bool:
        return check_columns(
            self._gatherer,
            self._parts[1],
            self._encoders,
            [self._kind(k) for k in range(len(self._encoders))],
            self.where,
        )

    def _fill(self, indices: Indices, inputs: list[Float32], labels: list[Float32]) -> None:
        starts = (*self._parts[0], *self._parts[1])
        self._gatherer.gather(indices, *zip(starts, (*inputs, *labels), strict=True))


def check_columns(
    gatherer: RowGatherer, starts: Sequence[int], encoders: Sequence[LabelEncoder], kinds: Sequence[str], where: Where
) -> bool:
    """Check the labels at the columns ``starts`` of a table, if it is small enough to be read through beforehand."""
    if gatherer.source.nbytes > _CHECKED_BYTES:
        return False
    for start, encoder, kind in zip(starts, encoders, kinds, strict=True):
        encoder.check(gatherer.source[:, start : start + encoder.raw], kind, where)
    return True


def _starts(sizes: Sequence[int], first: int) -> list[int]:
    return [first + sum(sizes[:k]) for k in range(len(sizes))]
