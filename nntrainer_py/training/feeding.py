"""From the data sections of a description, or what a Python caller gave, to loaders bound to a model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nntrainer_py.data.dataset import Dataset
from nntrainer_py.data.loader import BatchLoader, largest_batch, measure_normalization
from nntrainer_py.data.sections import DatasetSection
from nntrainer_py.data.sources import as_dataset
from nntrainer_py.errors import UsageError, counted
from nntrainer_py.memory.outcome import DataMemory
from nntrainer_py.training.data_range import range_notices
from nntrainer_py.training.lowerings import Mode
from nntrainer_py.training.trainee import Trainee

if TYPE_CHECKING:
    from nntrainer_py.graph.spec import SectionSpec

USES = ("train", "valid", "test")


@dataclass(slots=True)
class Loaders:
    """What a run reads; ``notices`` are what the user should know about it, ``doubts`` those of them about the data."""

    train: BatchLoader
    valid: BatchLoader | None
    test: BatchLoader | None
    notices: list[str]
    doubts: list[str]
    model: Trainee  # that counts them

    @property
    def buffer_bytes(self) -> int:
        """Memory that reading takes, see `BatchLoader.buffer_bytes`."""
        return sum(loader.buffer_bytes for loader in (self.train, self.valid, self.test) if loader is not None)

    def close(self) -> None:
        """Stop threads and give back files; a memory budget no longer counts them."""
        for loader in (self.train, self.valid, self.test):
            if loader is not None:
                loader.close()
                loader.dataset.close()
        self.model.hold_data(None)


def open_section(section: SectionSpec, use: str) -> Dataset:
    """The data of ``[train_set]`` and its like; DataError, at the place of its path, when it is missing or damaged."""
    settings: DatasetSection = section.settings
    place = next((where for key, _, where in section.entries if key == "path"), section.origin)
    return settings.open(section.paths, role=use, origin=place)


def open_loaders(
    model: Trainee,
    train: Any = None,
    valid: Any = None,
    test: Any = None,
    *,
    batch_size: int | None = None,
    shuffle: bool | None = None,
) -> Loaders:
    """Open, bind and load the data of a run.

    ``train``, ``valid`` and ``test`` take the place of the section of their use: data sets, paths, pairs of arrays or
    whatever `as_dataset` takes; None: the section, if there is one. The normalization that the training section asks
    for is measured here (unless the model has one already, of an earlier run) and, with the names of the classes,
    kept with the model. A memory budget counts what reading takes until the loaders are closed.

    Raises:
        UsageError: no training data.
        DataError: data that is missing, damaged or does not fit the model.
        PlanError: a memory budget has no room for it.
        UsageError: the swap file that training needs cannot be made.
    """
    sections = model.spec.datasets
    given = {"train": train, "valid": valid, "test": test}
    data: dict[str, Dataset] = {}
    for use in USES:
        if given[use] is not None:
            data[use] = as_dataset(given[use], name=f"{use} data", role=use)
        elif use in sections:
            data[use] = open_section(sections[use], use)
    if "train" not in data:
        raise UsageError("there is no training data: the description has no [train_set], and none was given")
    doubts: list[str] = []
    notices: list[str] = []
    first = data["train"]
    model.bind(first)
    model.feature_names = first.feature_names or model.feature_names
    names = names_of_run(model.class_names, first)
    model.class_names = names or None
    _normalize(model, first, sections.get("train"))
    loaders: dict[str, BatchLoader] = {}
    for use, dataset in data.items():
        dataset.normalization = model.normalization
        model.bind(dataset, class_names=names)
        loaders[use] = _loader(model, dataset, sections.get(use), use, batch_size, shuffle)
        doubts += dataset.notices
        notices += [*dataset.remarks, *loaders[use].notices]
    modes: dict[str, Mode] = {"train": "train", "valid": "evaluate", "test": "evaluate"}
    model.hold_data(data_memory(loaders.values()), [(modes[use], one.batch_size) for use, one in loaders.items()])
    model.require_swap_file("train")
    doubts += range_notices(model, first, sections.get("train"))
    piece = model.compiled.options.micro_batch
    if piece is not None:
        notices.append(
            f"batches are computed in pieces of {counted(piece, 'sample')}, to keep within the memory budget"
        )
    return Loaders(loaders["train"], loaders.get("valid"), loaders.get("test"), [*doubts, *notices], doubts, model)


def names_of_run(known: tuple[str, ...] | None, train: Dataset) -> tuple[str, ...]:
    """The names of the classes for all data of a run: () where its training data has numbers.

    Weights that ``know`` all of the classes keep their order.
    """
    own = train.class_names or ()
    return known if known is not None and set(own) <= set(known) else own


def data_memory(loaders: Iterable[BatchLoader]) -> DataMemory:
    """What loaders that are there together take, with the scaling of their inputs, which they share."""
    found = DataMemory()
    scalings: dict[int, int] = {}
    for loader in loaders:
        resident, name = loader.dataset.resident_bytes, loader.dataset.name
        found = found.plus(DataMemory(loader.buffer_bytes - resident, {name: resident} if resident else {}))
        if loader.dataset.normalization is not None:
            scalings[id(loader.dataset.normalization)] = loader.dataset.normalization.nbytes
    return found.plus(scaling_memory(sum(scalings.values())))


def scaling_memory(size: int) -> DataMemory:
    """What the shifts and scales of the inputs take."""
    return DataMemory(0, {"normalization": size} if size else {})


def _normalize(model: Trainee, dataset: Dataset, section: SectionSpec | None) -> None:
    if section is None or model.normalization is not None:
        return
    settings: DatasetSection = section.settings
    if settings.normalization != "none":
        model.normalization = measure_normalization(dataset, settings.normalization, settings.normalization_scope)


def _loader(
    model: Trainee,
    dataset: Dataset,
    section: SectionSpec | None,
    use: str,
    batch_size: int | None,
    shuffle: bool | None,
) -> BatchLoader:
    settings: DatasetSection | None = None if section is None else section.settings
    shuffled = use == "train"
    if settings is not None:
        shuffled = settings.shuffled(use)
    if shuffle is not None and use == "train":
        shuffled = shuffle
    drop_last = settings is not None and settings.drop_last
    return BatchLoader(
        dataset,
        largest_batch(dataset, batch_size or model.batch_size, drop_last),
        shuffle=shuffled,
        seed=model.compile_options.seed,
        drop_last=drop_last,
        buffer_size=1 if settings is None else settings.buffer_size,
        shuffle_kind="counter" if settings is None else settings.shuffle_kind,
    )
