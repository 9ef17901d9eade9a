"""What the data of a run takes in memory: counted from the data where it is there, else from shapes alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from nntrainer_py.cli.command import SeveralErrors
from nntrainer_py.cli.opening import USES, is_there, open_given, open_section
from nntrainer_py.errors import DataError, MissingExtraError, NNTrainerError, printable
from nntrainer_py.memory.outcome import DataMemory

if TYPE_CHECKING:
    from nntrainer_py.cli.layout import Layout
    from nntrainer_py.data.dataset import Dataset
    from nntrainer_py.graph.spec import SectionSpec
    from nntrainer_py.model import Model


@dataclass(frozen=True, slots=True)
class DataBuffers:
    """Bytes that reading the data takes, and what could not be counted; ``size`` None: there is no data to count."""

    size: int | None
    notes: tuple[str, ...] = ()

    def noted(self, layout: Layout) -> Layout:
        """The layout with these notes."""
        return replace(layout, notes=(*layout.notes, *self.notes))


def count_buffers(model: Model, given: dict[str, str], *, strict: bool = False) -> DataBuffers:
    """The buffers of the files of the command line, by use, and of the data sections, as a training run has them.

    No loader is made and nothing but files that must be parsed is read. Of a section whose data is missing or faulty
    the batches kept ready are counted, and a note says so; with ``strict`` only where it is missing.

    Raises:
        DataError: a file of the command line is missing, damaged or does not fit; with ``strict`` also one of a section
            that is there. All that is wrong together.
    """
    from nntrainer_py.data.loader import largest_batch
    from nntrainer_py.training.feeding import names_of_run

    if not model.trainable:
        return DataBuffers(None)
    errors: list[NNTrainerError] = []
    notes: list[str] = []
    counted = DataMemory()
    largest: list[int] = []  # batches, by use
    names: tuple[str, ...] | None = None  # of the classes of the training data
    for use in USES:
        path, section = given.get(use), model.spec.datasets.get(use)
        if path is None:
            if section is None:
                continue
            opening = partial(open_section, section, use)
        else:
            opening = partial(open_given, path, section, use)
        try:
            opened = opening()
            try:
                model.bind(opened, class_names=names)
                if use == "train":
                    names = names_of_run(model.class_names, opened)
                    model.bind(opened, class_names=names)
                    model.feature_names = opened.feature_names or model.feature_names
                counted = counted.plus(_memory(model, opened, section, use))
                largest.append(largest_batch(opened, model.batch_size, _drops(section)))
            finally:
                opened.close()
        except (DataError, MissingExtraError) as error:
            if path is not None or (strict and section is not None and is_there(section)):
                errors.append(error)
                continue
            notes.append(_note(error, use))
            counted = counted.plus(DataMemory(_ring(model, section)))
            largest.append(model.batch_size)
    SeveralErrors.raise_if_any(errors)
    if not largest:
        return DataBuffers(None)
    notes += filter(None, [model.limit_batch(max(largest))])
    counted = counted.plus(_scaling(model))
    model.hold_data(counted)
    return DataBuffers(counted.total, tuple(notes))


def _memory(model: Model, dataset: Dataset, section: SectionSpec | None, use: str) -> DataMemory:
    """What the loader of `open_loaders` will take."""
    from nntrainer_py.data.loader import largest_batch, loader_bytes

    if section is None:
        shuffle = "counter" if use == "train" else None
    else:
        shuffle = section.settings.shuffle_kind if section.settings.shuffled(use) else None
    batch = largest_batch(dataset, model.batch_size, _drops(section))
    size = loader_bytes(dataset, batch, _ready(section), shuffle_kind=shuffle)
    resident = dataset.resident_bytes
    return DataMemory(size - resident, {dataset.name: resident} if resident else {})


def _scaling(model: Model) -> DataMemory:
    """What the normalization of the inputs takes that the model has, or that the training section asks for."""
    from nntrainer_py.data.dataset import as_shape
    from nntrainer_py.data.normalization import normalization_bytes
    from nntrainer_py.training.feeding import scaling_memory

    if model.normalization is not None:
        return scaling_memory(model.normalization.nbytes)
    section = model.spec.datasets.get("train")
    if section is None:
        return DataMemory()
    shapes = [as_shape(shape) for shape in _shapes(model)[0]]
    settings = section.settings
    return scaling_memory(normalization_bytes(settings.normalization, settings.normalization_scope, shapes))


def _ring(model: Model, section: SectionSpec | None) -> int:
    from nntrainer_py.data.loader import ring_bytes

    return ring_bytes(*_shapes(model), model.batch_size, _ready(section))


def _drops(section: SectionSpec | None) -> bool:
    return section is not None and bool(section.settings.drop_last)


def _ready(section: SectionSpec | None) -> int:
    """Batches that the loader keeps ready."""
    return 1 if section is None else int(section.settings.buffer_size)


def _shapes(model: Model) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    lowered = model.lowered("train")
    return [value.shape[1:] for value in lowered.inputs], [value.shape[1:] for value in lowered.labels]


def _note(error: NNTrainerError, use: str) -> str:
    return f"[{use}_set] {printable(error.message)}; of this data only the batches kept ready are counted"
