"""``--weights``: the file that the user names, or that of a run folder, and what lies beside it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from nntrainer_py.cli import run_folder as files
from nntrainer_py.errors import NNTrainerError, Origin, WeightFileError, printable

if TYPE_CHECKING:
    from nntrainer_py.model import Model


def weights_file(text: str) -> Path:
    """The file that is meant: of the folder of a run, the one that also describes the data."""
    path = Path(text)
    return path / files.MODEL if path.is_dir() else path


class GivenWeights:
    """Weights for a model that is going to be compiled.

    Making one gives the model what the file says of the data (names, normalization); a ``.bin`` cannot hold
    that, so it is taken from the run's other file where that lies beside it. `load` reads the weights, which takes
    their memory.

    Raises:
        WeightFileError: the file is missing or damaged.
    """

    def __init__(self, model: Model, text: str) -> None:
        from nntrainer_py.formats.safetensors import SafetensorsFile
        from nntrainer_py.training.data_description import DataDescription

        self._model = model
        self.path = weights_file(text)
        if not os.path.exists(self.path):
            raise WeightFileError(f"{printable(str(self.path))}: no such file", origin=Origin("--weights"))
        bare = self.path.suffix != ".safetensors"
        described = self.path.with_name(files.MODEL) if bare else self.path
        if bare and not described.is_file():
            return
        try:
            with SafetensorsFile(described) as file:
                DataDescription.read(file).put_into(model)
        except NNTrainerError as error:
            raise error.located(Origin("--weights")) from None

    def load(self) -> None:
        """Read the weights; WeightFileError when they are not of this model. Training resets the counters."""
        model = self._model
        described = model.class_names, model.feature_names, model.normalization
        try:
            model.load(self.path)
        except NNTrainerError as error:
            raise error.located(Origin("--weights")) from None
        # training data may have had other classes
        model.class_names, model.feature_names, model.normalization = described
