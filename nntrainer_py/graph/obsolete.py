"""Words of older model files and of NNTrainer's documents that are no longer right, and the word of today.

They are refused, not translated: some of them changed their meaning on the way.
"""

from __future__ import annotations

from dataclasses import replace

from nntrainer_py.errors import Faults
from nntrainer_py.graph.ini import IniFile

#: keys of layers
LAYER_KEYS = {
    "bias_init_zero": "bias_initializer = zeros",
    "bias_zero": "bias_initializer = zeros",
    "dropout": "dropout_rate",
    "filter": "filters",
    "hiddensize": "unit",
    "inputlayer": "input_layers",
    "pooling_size": "pool_size",
    "softmax": "activation = softmax",
    "split_dimension": "axis",
    "weight_decay_lambda": "weight_regularizer_constant",
    "weight_ini": "weight_initializer",
    "wieght_ini": "weight_initializer",
}
#: keys of ``[Model]``
MODEL_KEYS = {
    "activation": "activation in the section of a layer",
    "cost": "loss",
    "epoch": "epochs",
    "layers": "the order of the sections",
    "minibatch": "batch_size",
    "model": "save_path",
}
#: types of layers
TYPES = {
    "batchnormalizationlayer": "batch_normalization",
    "conv2dlayer": "conv2d",
    "flattenlayer": "flatten",
    "inputlayer": "input",
    "outputlayer": "fully_connected",
    "pooling2dlayer": "pooling2d",
}
_OLD_MODEL = "network"


def obsolete(today: str) -> str:
    """The message for a word that has become another one."""
    return f"obsolete; today it is {today}"


def modern_sections(ini: IniFile, faults: Faults) -> IniFile:
    """The file with ``[Network]`` read as ``[Model]``, which is a fault, so that the rest of it is looked at, too."""
    old = ini.get(_OLD_MODEL)
    if old is None or ini.get("model") is not None or old.get("input_shape") is not None:
        return ini
    faults.add(obsolete("[Model]"), ini.origin(old))
    sections = [replace(section, name="model") if section is old else section for section in ini.sections]
    return replace(ini, sections=sections)
