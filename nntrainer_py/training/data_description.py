"""What a file of weights says about the data that they were trained on: classes, columns, scaling.

Lists of names and the numbers of the scaling are tensors, so that the header of the file does not limit their length:
``data/class_names`` and ``data/feature_names`` (a JSON text a line), ``data/shift/<input>``, ``data/scale/<input>``.
Method and scope of the scaling are the metadata ``normalization``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.data.normalization import Normalization
from nntrainer_py.errors import counted, quoted
from nntrainer_py.formats import json_tensor
from nntrainer_py.formats.safetensors import SafetensorsFile
from nntrainer_py.training.trainee import Trainee

PREFIX = "data/"
_CLASSES, _FEATURES = f"{PREFIX}class_names", f"{PREFIX}feature_names"
_SHIFT, _SCALE = f"{PREFIX}shift", f"{PREFIX}scale"
_MOST_INPUTS = 1000


def tensors(model: Trainee) -> dict[str, NDArray[Any]]:
    """The tensors that describe the data, by name."""
    found: dict[str, NDArray[Any]] = {}
    if model.class_names is not None:
        found[_CLASSES] = json_tensor.of_values(model.class_names)
    if model.feature_names is not None:
        found[_FEATURES] = json_tensor.of_values(model.feature_names)
    if model.normalization is not None:
        for place, (shift, scale) in enumerate(zip(model.normalization.shift, model.normalization.scale, strict=True)):
            found[f"{_SHIFT}/{place}"], found[f"{_SCALE}/{place}"] = shift, scale
    return found


def metadata(model: Trainee) -> dict[str, str]:
    """The metadata beside them."""
    scaling = model.normalization
    if scaling is None:
        return {}
    told = {"method": scaling.method, "scope": scaling.scope, "inputs": len(scaling.shift)}
    return {"normalization": json.dumps(told)}


@dataclass(frozen=True, slots=True)
class DataDescription:
    """Class names, names of the input columns and normalization of a file, where it has them."""

    class_names: tuple[str, ...] | None
    feature_names: tuple[str, ...] | None
    normalization: Normalization | None

    @classmethod
    def read(cls, file: SafetensorsFile) -> DataDescription:
        """What a file says; `WeightFileError` when that is damaged."""
        return cls(_names(file, _CLASSES), _names(file, _FEATURES), _normalization(file))

    def put_into(self, model: Trainee) -> None:
        """Let a model have what there is."""
        model.class_names = self.class_names if self.class_names is not None else model.class_names
        model.feature_names = self.feature_names if self.feature_names is not None else model.feature_names
        model.normalization = self.normalization if self.normalization is not None else model.normalization


def _names(file: SafetensorsFile, name: str) -> tuple[str, ...] | None:
    if name not in file.tensors:
        return None
    return tuple(_texts(file, name))


def _texts(file: SafetensorsFile, name: str) -> Iterator[str]:
    for value in json_tensor.values(file, name):
        if not isinstance(value, str):
            raise file.error(f"tensor {quoted(name)}: expected names")
        yield value


def _normalization(file: SafetensorsFile) -> Normalization | None:
    text = file.metadata.get("normalization")
    if text is None:
        return None
    try:
        told = json.loads(text)
        count = int(told["inputs"])
        if not 0 < count <= _MOST_INPUTS:
            raise ValueError(f"for {counted(count, 'input')}")
        shift, scale = (
            tuple(_float32(file.read(f"{part}/{place}")) for place in range(count)) for part in (_SHIFT, _SCALE)
        )
        return Normalization(str(told["method"]), str(told["scope"]), shift, scale)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise file.error(f"its normalization cannot be read: {error}") from None


def _float32(array: NDArray[Any]) -> NDArray[np.float32]:
    if array.dtype != np.float32:
        raise ValueError(f"expected float32, got {array.dtype}")
    return array
