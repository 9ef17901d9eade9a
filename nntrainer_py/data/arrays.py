"""Data that is already in arrays: inputs (samples, ...) and labels (samples, ...)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from nntrainer_py.data.dataset import AnyArray, Float32, IndexedDataset, Indices, Shape, as_shape, show, size_of
from nntrainer_py.data.file_map import release
from nntrainer_py.data.gather import RowGatherer
from nntrainer_py.data.labels import encode_labels, indices_of_names, too_many_names
from nntrainer_py.data.texts import Texts
from nntrainer_py.errors import DataError, counted, did_you_mean, printable

ArrayOrList = npt.ArrayLike | Sequence[npt.ArrayLike]


class ArrayDataset(IndexedDataset):
    """Samples from arrays that stay where they are (also memory-mapped ones); any real type, converted when read.

    Args:
        inputs: one array (samples, ...) or a list or tuple of them, one per model input.
        labels: the same for labels, None for data without. Whole labels, class indices, or class names (text).
    """

    kind = "arrays"

    def __init__(self, inputs: ArrayOrList, labels: ArrayOrList | None = None, name: str = "arrays") -> None:
        super().__init__(name)
        self._inputs = [self._real(array, "inputs") for array in _as_list(inputs)]
        arrays = [] if labels is None else _as_list(labels)
        self._names: list[Texts | None] = [_texts(array) for array in arrays]
        self._take_class_names()
        self._labels = [
            self._real(array, "labels") if texts is None else self._index(texts)
            for array, texts in zip(arrays, self._names, strict=True)
        ]
        counts = [len(array) for array in (*self._inputs, *self._labels)]
        if not self._inputs or not counts[0]:
            raise self.error("there is no sample in it")
        if len(set(counts)) > 1:
            raise self.error(f"the arrays differ in their number of samples: {', '.join(map(str, counts))}")
        self._count = counts[0]
        self._count_names()
        self._gatherers = [RowGatherer(array) for array in self._inputs]
        self._label_gatherers = [RowGatherer(array) for array in self._labels]
        self.input_dims = self._dims(self._inputs)
        self.label_dims = self._dims(self._labels) if arrays else None

    @property
    def sample_count(self) -> int:
        return self._count

    def scratch_bytes(self, batch_size: int, *, in_order: bool = False) -> int:
        gatherers = (*self._gatherers, *self._label_gatherers)
        return super().scratch_bytes(batch_size, in_order=in_order) + sum(
            one.scratch_bytes(batch_size, in_order=in_order) for one in gatherers
        )

    def _fit(self, inputs: list[Shape], labels: list[Shape], class_names: tuple[str, ...] | None) -> list[int]:
        if len(self._inputs) != len(inputs):
            takes = _listed(len(inputs), self.input_names)
            raise self.error(f"the data has {counted(len(self._inputs), 'input')}, the model takes {takes}")
        for k, (array, shape) in enumerate(zip(self._inputs, inputs, strict=True)):
            problem = layout_problem(array.shape[1:], shape)
            if problem:
                raise self.error(f"{self.called('input', k)}: {problem}")
        if not labels:
            return []
        if len(self._labels) != len(labels):
            takes = _listed(len(labels), self.label_names)
            raise self.error(f"the data has {counted(len(self._labels), 'label')}, the model takes {takes}")
        raw = [size_of(array.shape[1:]) for array in self._labels]
        for k, (array, shape) in enumerate(zip(self._labels, labels, strict=True)):
            if encode_labels(raw[k], shape) is None:
                raise self.error(
                    f"{self.called('label', k)} of a sample has {counted(raw[k], 'value')} "
                    f"(shape {array.shape[1:]}), "
                    f"the model takes {size_of(shape)} ({show(shape)}) or one class index"
                )
        if class_names is not None and self.class_names is not None and class_names != self.class_names:
            self._rename(class_names)
        names = self._names[0]
        if len(labels) == 1 and names is not None and labels[0][2] > 1:
            found = too_many_names(names, labels[0][2], lambda sample: f"sample {sample}")
            if found is not None:
                raise self.error(found)
        return raw

    def _rename(self, class_names: tuple[str, ...]) -> None:
        """Use the class indices of the training data."""
        for k, texts in enumerate(self._names):
            if texts is not None:
                indices_of_names(texts, class_names, self.where, self._labels[k])  # type: ignore[arg-type]
        self.class_names = class_names or None

    def _count_names(self) -> None:
        """Class names and their indices are made here and kept, wherever the data itself lies."""
        named = [(texts, array) for texts, array in zip(self._names, self._labels, strict=True) if texts is not None]
        self.resident_bytes = sum(texts.nbytes + array.nbytes for texts, array in named)

    def _check_bound_labels(self) -> bool:
        for k, (array, encoder) in enumerate(zip(self._labels, self._encoders, strict=False)):
            encoder.check(array, self._kind(k), self.where)
        return True

    def _fill(self, indices: Indices, inputs: list[Float32], labels: list[Float32]) -> None:
        for gatherer, rows in zip(self._gatherers, inputs, strict=True):
            gatherer.gather(indices, (0, rows))
        if labels:
            for gatherer, rows in zip(self._label_gatherers, labels, strict=True):
                gatherer.gather(indices, (0, rows))

    def _real(self, array: AnyArray, what: str) -> AnyArray:
        if array.ndim == 0:
            raise self.error(f"{what}: expected an array of samples, got a single value")
        if array.dtype.kind not in "fiub":
            raise self.error(f"{what}: expected real numbers, got an array of {array.dtype}")
        if any(size == 0 for size in array.shape[1:]):
            raise self.error(f"{what}: a sample of shape {array.shape[1:]} has no value")
        return array

    def _dims(self, arrays: Sequence[AnyArray]) -> list[Shape] | None:
        try:
            return [as_shape(array.shape[1:]) for array in arrays]
        except ValueError:
            return None  # more axes than a sample of the model has; bind says so if it matters

    def _take_class_names(self) -> None:
        known = sorted({text for texts in self._names if texts is not None for text in texts.known})
        self.class_names = tuple(known) or None

    def _index(self, texts: Texts) -> npt.NDArray[np.float32]:
        assert self.class_names is not None
        return indices_of_names(texts, self.class_names, self.where)


def _listed(count: int, names: Sequence[str]) -> str:
    return str(count) + (f" ({', '.join(map(printable, names))})" if count > 1 and len(names) == count else "")


def layout_problem(have: Sequence[int], want: Shape) -> str:
    """Why samples of shape ``have`` cannot be read as ``want`` (empty text: they can).

    Flat rows fit any shape of the same size, and so do shapes that differ in axes of 1; the same size in another shape
    would be silently scrambled (height, width, channel for channel, height, width) and is refused.
    """
    if size_of(have) != size_of(want):
        return (
            f"a sample has {counted(size_of(have), 'value')} (shape {tuple(have)}), "
            f"the model takes {size_of(want)} ({show(want)})"
        )
    mine, theirs = [s for s in have if s != 1], [s for s in want if s != 1]
    if mine == theirs or len(mine) <= 1 or len(theirs) <= 1:
        return ""
    hint = ""
    if len(have) == 3 and (have[2], have[0], have[1]) == want:
        hint = "; the channel comes first here: transpose the samples (array.transpose(0, 3, 1, 2))"
    return f"a sample has the shape {tuple(have)}, the model takes {show(want)}{hint}"


def _as_list(arrays: ArrayOrList) -> list[AnyArray]:
    """One array, or several in a list or tuple; a list of numbers or of lists of numbers is one array."""
    several = isinstance(arrays, (list, tuple)) and len(arrays) > 0 and all(hasattr(a, "shape") for a in arrays)
    if several and any(len(a.shape) for a in arrays):  # type: ignore[union-attr]
        return [as_array(a) for a in arrays]  # type: ignore[union-attr]
    return [as_array(arrays)]


def by_name(given: Mapping[str, object], names: Sequence[Sequence[str]], what: str) -> list[AnyArray]:
    """Arrays given by name, in the order of the model.

    Args:
        given: name to array.
        names: for each input (or label) of the model the names that mean it.
        what: "input" or "label", for messages.

    Raises:
        DataError: a name is missing, stands for two, or means nothing; it names all of them.
    """
    means = {name: place for place, spellings in enumerate(names) for name in spellings}
    if len({spellings[0] for spellings in names}) < len(names):
        raise DataError(f"a layer has several {what}s: give the {what}s in a list, in the order of the model")
    found: dict[int, AnyArray] = {}
    problems: list[str] = []
    for name, array in given.items():
        place = means.get(name)
        if place is None:
            problems.append(f"the model has no {what} '{printable(str(name))}'{did_you_mean(str(name), means)}")
        elif place in found:
            problems.append(f"{what} '{names[place][0]}' is given twice")
        else:
            found[place] = as_array(array)
    problems += [f"{what} '{names[place][0]}' is missing" for place in range(len(names)) if place not in found]
    if problems:
        raise DataError("; ".join(problems))
    return [found[place] for place in range(len(names))]


def as_array(value: object) -> AnyArray:
    """``value`` as an array; tensors of other libraries are detached and brought to the host by duck typing."""
    for step in ("detach", "cpu"):
        method = getattr(value, step, None)
        if callable(method):
            value = method()
    return np.asarray(value)


def _texts(array: AnyArray) -> Texts | None:
    """Class names, when the labels are text."""
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array.reshape(-1)):
        return Texts.of(array)
    if array.dtype.kind != "U":
        return None
    found = Texts.of(array)
    release(array)
    return found
