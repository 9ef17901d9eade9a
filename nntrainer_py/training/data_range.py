"""Inputs such as pixels of 0 to 255 that nothing brings to a scale that a network learns from: told before the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nntrainer_py.data.dataset import Dataset, IndexedDataset, size_of
from nntrainer_py.errors import DataError, Notice
from nntrainer_py.training.trainee import Trainee

if TYPE_CHECKING:
    from nntrainer_py.graph.lower import Node
    from nntrainer_py.graph.spec import SectionSpec

LARGE = 100.0
"""Inputs of this magnitude are told; standardized ones, or those of 0 to 1, are far below."""

#: what is read without calling a user's code
_AT_REST = ("file", "csv", "npz", "npy", "idx", "image_folder", "arrays")
_SAMPLES, _BYTES = 32, 1 << 22  # that are looked at
_PIXELS = 255.0
#: layers after which the scale of what came in makes no difference, or that take indices
_SETTLES = {
    "batch_normalization", "layer_normalization", "rmsnorm", "preprocess_l2norm", "embedding", "centroid_knn",
    "nearest_neighbours",
}  # fmt: skip
#: layers that hand the scale on to their consumers
_PASSES = {
    "conv1d", "conv2d", "conv2dtranspose", "depthwiseconv2d", "fully_connected", "flatten", "reshape", "permute",
    "transpose", "identity", "multiout", "preprocess_flip", "preprocess_translate", "pooling2d",
}  # fmt: skip


def range_notices(model: Trainee, dataset: Dataset, section: SectionSpec | None) -> list[str]:
    """A warning for each input whose first samples are large where nothing scales them; reads those samples.

    Not for data that a user's code makes, which may count how often it is called.

    ``dataset`` is bound. Data that cannot be read gives no warning here: training says what is wrong with it.
    """
    spec = model.spec
    if dataset.kind not in _AT_REST or dataset.normalization is not None or model.normalization is not None:
        return []
    if not isinstance(dataset, IndexedDataset) or (spec.optimizer is None and not spec.needs_optimizer):
        return []
    nodes = model.compiled.graph("train").nodes
    owners = [position for position, node in enumerate(nodes) if not node.inputs for _ in node.input_dims]
    found: list[str] = []
    for place, (low, high) in zip(model.compiled.graph("train").input_order, _ranges(dataset), strict=False):
        owner = owners[place]
        if max(-low, high) >= LARGE and not _scaled(nodes, owner):
            found.append(str(_notice(dataset, nodes[owner].name, low, high, section)))
    return found


def _ranges(dataset: IndexedDataset) -> Iterator[tuple[float, float]]:
    """Smallest and largest value of each input in the first samples; nothing for data that cannot be read."""
    inputs, labels = dataset.input_dims or [], dataset.label_dims or []
    features = sum(map(size_of, (*inputs, *labels)))
    count = min(dataset.sample_count, _SAMPLES, max(1, _BYTES // (4 * features)))
    rows = [np.zeros((count, *shape), np.float32) for shape in inputs]
    try:
        dataset.read(np.arange(count), rows, [np.zeros((count, *shape), np.float32) for shape in labels])
    except DataError:
        return
    for values in rows:
        yield float(values.min()), float(values.max())


def _scaled(nodes: Sequence[Node], position: int) -> bool:
    """Whether every way from a layer leads to one that makes the scale of its input the same before a nonlinearity."""
    layer = nodes[position].layer
    if getattr(layer, "normalization", False) is True or getattr(layer, "standardization", False) is True:
        return True
    consumers = [k for k, node in enumerate(nodes) if any(producer == position for producer, _ in node.inputs)]
    return bool(consumers) and all(
        nodes[k].layer.keyword in _SETTLES or (nodes[k].layer.keyword in _PASSES and _scaled(nodes, k))
        for k in consumers
    )


def _notice(dataset: Dataset, layer: str, low: float, high: float, section: SectionSpec | None) -> Notice:
    pixels = low >= 0.0 and high <= _PIXELS
    method = "pixel (division by 255)" if pixels else "standard"
    if dataset.kind == "arrays":
        remedy = "divide them by 255" if pixels else "bring them to mean 0 and deviation 1"
    elif section is None:
        remedy = f"scale them, or name the data in a [train_set] section with normalization = {method}"
    else:
        remedy = f"add normalization = {method} to [{section.name}]"
    return Notice.at(
        dataset.origin,
        "",
        f"{dataset.name}: inputs go from {low:g} to {high:g} and nothing scales them, which often keeps a network from "
        f"learning; {remedy}; or set normalization = true in [{layer}]",
    )
