"""What may stand in ``[train_set]``, ``[valid_set]``, ``[test_set]`` (a class for each ``type``) and ``[DataSet]``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from nntrainer_py.data.csv_file import CsvDataset
from nntrainer_py.data.csv_table import HEADERS
from nntrainer_py.data.dataset import Dataset
from nntrainer_py.data.idx import IdxDataset
from nntrainer_py.data.image_folder import ImageDataset
from nntrainer_py.data.loader import SHUFFLE_KINDS
from nntrainer_py.data.normalization import METHODS, SCOPES
from nntrainer_py.data.numpy_file import NpzDataset, open_npy
from nntrainer_py.data.raw_file import RawFileDataset
from nntrainer_py.errors import Origin
from nntrainer_py.properties import Configurable, PropertyError, boolean, enum, path, positive_int, string

ROLES = ("train", "valid", "test")
Paths = Mapping[str, str | os.PathLike[str]]


class DatasetSection(Configurable):
    """What every type of data has: where it is, and how it is fed."""

    path_keys: ClassVar[tuple[str, ...]] = ("path",)

    path = path(doc="The data, relative to the folder of the INI file.")
    buffer_size = positive_int(1, maximum=4096, doc="Batches kept ready by the background thread.")
    shuffle = boolean(None, doc="A new order of the samples each epoch; by default only for training.")
    shuffle_kind = enum(
        SHUFFLE_KINDS, "counter", doc="How the order is drawn: from seed and epoch, or exactly as NNTrainer does."
    )
    drop_last = boolean(False, doc="Leave out the last batch when it is not full, as NNTrainer does.")
    normalization = enum(
        ("none", *METHODS),
        "none",
        doc="Scaling of the inputs, measured on the training data and kept with the model: to mean 0 and deviation 1 "
        "(standard), to 0..1 (minmax), or division by 255 (pixel).",
    )
    normalization_scope = enum(
        SCOPES, "whole", doc="One scale for all inputs of a sample, for each channel, or for each feature."
    )

    def shuffled(self, role: str) -> bool:
        """Whether the samples of this section are shuffled when it is the data for ``role``."""
        return role == "train" if self.shuffle is None else self.shuffle

    def given_paths(self) -> dict[str, str]:
        """The paths as written, by key; the caller resolves them and gives them to `open`."""
        return {key: value for key in self.path_keys if (value := getattr(self, key)) is not None}

    def open(self, paths: Paths, *, role: str = "train", origin: Origin | None = None) -> Dataset:
        """The data set.

        Args:
            paths: resolved paths for the keys of `given_paths`.
            role: "train", "valid" or "test".
            origin: where the section stands, for messages.

        Raises:
            DataError: the data is missing, empty, unreadable or damaged.
        """
        raise NotImplementedError


class FileSection(DatasetSection):
    """``type = file``: NNTrainer's raw float32 samples, inputs then labels, without a header."""

    keyword = "file"

    integer_labels = boolean(False, doc="Each label is one class index instead of a whole one-hot row.")

    def open(self, paths: Paths, *, role: str = "train", origin: Origin | None = None) -> Dataset:
        return RawFileDataset(paths["path"], integer_labels=self.integer_labels, origin=origin, key="path")


class CsvSection(DatasetSection):
    """``type = csv``: a table in a text file, one sample a line."""

    keyword = "csv"

    header = enum(
        HEADERS, "auto", doc="Whether the first line names the columns; auto: when its features are no numbers."
    )
    label_column = string(
        None,
        doc="Label columns by name or number (from 0, -1 is the last), separated by commas; 'none' for data without "
        "labels. By default as many at the end of the line as the model needs.",
        aliases=("label_columns", "label"),
    )
    delimiter = string(None, doc="One character, or 'tab' or 'space'; found from the first line by default.")

    def validate(self) -> None:
        if self.delimiter is not None and len(self._delimiter() or "") != 1:
            raise PropertyError("one character, tab or space", self.delimiter, key="delimiter")

    def open(self, paths: Paths, *, role: str = "train", origin: Origin | None = None) -> Dataset:
        labels: list[str] | None = None
        if self.label_column is not None:
            labels = [] if self.label_column.lower() == "none" else _words(self.label_column)
        return CsvDataset(
            paths["path"], header=self.header, labels=labels, delimiter=self._delimiter(), origin=origin, key="path"
        )

    def _delimiter(self) -> str | None:
        if self.delimiter is None:
            return None
        return {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";"}.get(
            self.delimiter.lower(), self.delimiter
        )


class NpzSection(DatasetSection):
    """``type = npz``: named NumPy arrays (samples, ...)."""

    keyword = "npz"

    inputs = string(None, doc="Names of the input arrays, separated by commas; x, or x0, x1, ... by default.")
    labels = string(None, doc="Names of the label arrays, separated by commas; y, or y0, y1, ... by default.")

    def open(self, paths: Paths, *, role: str = "train", origin: Origin | None = None) -> Dataset:
        return NpzDataset(
            paths["path"],
            inputs=_words(self.inputs) if self.inputs is not None else None,
            labels=_words(self.labels) if self.labels is not None else None,
            role=role,
            origin=origin,
            key="path",
        )


class NpySection(DatasetSection):
    """``type = npy``: one table of samples, or inputs and labels in two files."""

    keyword = "npy"
    path_keys = ("path", "label_path")

    label_path = path(None, doc="The labels (samples, ...); without it each row of path ends with them.")

    def open(self, paths: Paths, *, role: str = "train", origin: Origin | None = None) -> Dataset:
        return open_npy(paths["path"], paths.get("label_path"), origin=origin, key="path")


class IdxSection(DatasetSection):
    """``type = idx``: MNIST's format, gzipped or not."""

    keyword = "idx"
    path_keys = ("path", "label_path")

    label_path = path(None, doc="The labels; by default labels-idx1 beside images-idx3.")

    def open(self, paths: Paths, *, role: str = "train", origin: Origin | None = None) -> Dataset:
        return IdxDataset(paths["path"], paths.get("label_path"), origin=origin, key="path")


class ImageFolderSection(DatasetSection):
    """``type = image_folder``: PNG, JPEG and BMP images in a folder for each class, or named by a list file."""

    keyword = "image_folder"

    def open(self, paths: Paths, *, role: str = "train", origin: Origin | None = None) -> Dataset:
        return ImageDataset(paths["path"], origin=origin, key="path")


SECTIONS: dict[str, type[DatasetSection]] = {
    section.keyword: section
    for section in (FileSection, CsvSection, NpzSection, NpySection, IdxSection, ImageFolderSection)
}


class OldDatasetSection(Configurable):
    """``[DataSet]``, NNTrainer's old form: the raw files of all three roles in one section."""

    traindata = path(doc="Raw training samples.")
    validdata = path(None, doc="Raw validation samples.")
    testdata = path(None, doc="Raw test samples.")
    labeldata = path(None, doc="Accepted and ignored: labels stand in the same files.")
    buffer_size = positive_int(
        1, maximum=4096, doc="Batches kept ready by the background thread.", aliases=("buffersize",)
    )

    def section(self, role: str) -> FileSection | None:
        """The same in the new form, None where the role has no file."""
        found = {"train": self.traindata, "valid": self.validdata, "test": self.testdata}[role]
        return None if found is None else FileSection(path=found, buffer_size=self.buffer_size)

    def key(self, role: str) -> str:
        """The key that names the file of ``role``."""
        return f"{role}data"


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def resolve(paths: Mapping[str, str], folder: Path) -> dict[str, Path]:
    """Paths of `DatasetSection.given_paths` against ``folder``; absolute ones stay."""
    return {key: folder / text for key, text in paths.items()}
