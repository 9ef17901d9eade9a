"""Which data set fits what a user hands over: a path, arrays, a function, another library's data set."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from nntrainer_py.data.arrays import ArrayDataset
from nntrainer_py.data.csv_file import CsvDataset
from nntrainer_py.data.dataset import Dataset
from nntrainer_py.data.generator import IterableDataset, MapDataset
from nntrainer_py.data.idx import IdxDataset
from nntrainer_py.data.image_folder import ImageDataset
from nntrainer_py.data.numpy_file import NpzDataset, open_npy
from nntrainer_py.data.raw_file import RawFileDataset
from nntrainer_py.errors import Origin, UsageError

KINDS = ("file", "csv", "npz", "npy", "idx", "image_folder")
_SUFFIXES = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".npz": "npz", ".npy": "npy", ".lst": "image_folder"}


def kind_of_path(path: str | os.PathLike[str]) -> str:
    """The kind of data that a path without a type means: by its ending, folders as images, else raw float32."""
    file = Path(path)
    if file.is_dir():
        return "image_folder"
    name = file.name.lower()
    if "-ubyte" in name or ".idx" in name:
        return "idx"
    return _SUFFIXES.get(file.suffix.lower(), "file")


def open_dataset(
    path: str | os.PathLike[str],
    kind: str | None = None,
    *,
    role: str | None = None,
    origin: Origin | None = None,
    key: str = "",
) -> Dataset:
    """The data at ``path``, with the defaults of its kind (one of `KINDS`; None: as `kind_of_path` says).

    ``role`` ("train", "valid", "test") chooses between x_train, x_test and so on in an npz file.
    """
    word = kind or kind_of_path(path)
    if word == "file":
        return RawFileDataset(path, origin=origin, key=key)
    if word == "csv":
        return CsvDataset(path, origin=origin, key=key)
    if word == "npz":
        return NpzDataset(path, role=role, origin=origin, key=key)
    if word == "npy":
        return open_npy(path, origin=origin, key=key)
    if word == "image_folder":
        return ImageDataset(path, origin=origin, key=key)
    if word == "idx":
        return IdxDataset(path, origin=origin, key=key)
    raise ValueError(f"kind of data: expected one of {', '.join(KINDS)}, got {kind!r}")


def as_dataset(
    data: Any, labels: Any = None, *, name: str = "data", samples_per_epoch: int | None = None, role: str | None = None
) -> Dataset:
    """What a Python caller gave as a data set.

    A `Dataset` stays itself; a path is opened; arrays (with ``labels``, or a pair of arrays) become an `ArrayDataset`;
    a function, generator or other iterable an `IterableDataset`; an object with ``__getitem__`` and ``__len__`` that is
    no array a `MapDataset`. NNTrainer's callbacks have no mark: wrap them in `CallbackDataset`.
    """
    if isinstance(data, Dataset):
        if labels is not None:
            raise UsageError("a data set has its own labels, none can be given beside it")
        return data
    if isinstance(data, (str, os.PathLike)):
        return open_dataset(data, role=role)
    if labels is not None or hasattr(data, "__array__"):
        return ArrayDataset(data, labels, name)
    if isinstance(data, tuple) and len(data) == 2 and all(_is_array(part) for part in data):
        return ArrayDataset(data[0], data[1], name)
    if isinstance(data, Iterator):
        return IterableDataset(data, name, samples_per_epoch=samples_per_epoch)
    if isinstance(data, list) and data and not isinstance(data[0], (tuple, list)):
        return ArrayDataset(data, None, name)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return MapDataset(data, name)
    if isinstance(data, (Iterable, Callable)):  # type: ignore[arg-type]
        return IterableDataset(data, name, samples_per_epoch=samples_per_epoch)
    raise UsageError(f"expected arrays, a path, a data set or something to iterate, got {type(data).__name__}")


def _is_array(value: object) -> bool:
    """An array, or a list of arrays (several inputs)."""
    parts = value if isinstance(value, (list, tuple)) and value else [value]
    return all(hasattr(part, "__array__") and hasattr(part, "shape") for part in parts)
