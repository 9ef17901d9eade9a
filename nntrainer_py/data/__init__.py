"""Data sets, and the loader that turns them into batches."""

from __future__ import annotations

from nntrainer_py.data.arrays import ArrayDataset
from nntrainer_py.data.csv_file import CsvDataset
from nntrainer_py.data.dataset import Dataset, IndexedDataset, StreamDataset
from nntrainer_py.data.generator import CallbackDataset, IterableDataset, MapDataset
from nntrainer_py.data.idx import IdxDataset
from nntrainer_py.data.image_folder import ImageDataset
from nntrainer_py.data.labels import LABEL_KINDS, check_classes, check_labels
from nntrainer_py.data.loader import Batch, BatchLoader, Position, measure_normalization, ring_bytes
from nntrainer_py.data.normalization import Normalization
from nntrainer_py.data.numpy_file import NpyDataset, NpzDataset, open_npy
from nntrainer_py.data.raw_file import RawFileDataset
from nntrainer_py.data.rows import TableDataset
from nntrainer_py.data.sections import SECTIONS, DatasetSection, OldDatasetSection
from nntrainer_py.data.sources import as_dataset, kind_of_path, open_dataset

__all__ = [
    "LABEL_KINDS",
    "SECTIONS",
    "ArrayDataset",
    "Batch",
    "BatchLoader",
    "CallbackDataset",
    "CsvDataset",
    "Dataset",
    "DatasetSection",
    "IdxDataset",
    "ImageDataset",
    "IndexedDataset",
    "IterableDataset",
    "MapDataset",
    "Normalization",
    "NpyDataset",
    "NpzDataset",
    "OldDatasetSection",
    "Position",
    "RawFileDataset",
    "StreamDataset",
    "TableDataset",
    "as_dataset",
    "check_classes",
    "check_labels",
    "kind_of_path",
    "measure_normalization",
    "open_dataset",
    "open_npy",
    "ring_bytes",
]
