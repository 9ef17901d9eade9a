"""The ``[Model]`` section: what the run is, beside its layers. NNTrainer's keys first, then ours."""

from __future__ import annotations

import re

from nntrainer_py.errors import UsageError
from nntrainer_py.graph.loss_words import LossKind
from nntrainer_py.properties import (
    Configurable,
    Kind,
    Property,
    boolean,
    connections,
    enum,
    number,
    path,
    positive_int,
    unsigned_int,
)
from nntrainer_py.properties.kinds import Warn, warn_python
from nntrainer_py.properties.numbers import bare

TENSOR_TYPES = (
    "BCQ-FP32", "QINT4-FP16", "QINT4-FP32", "QINT8-FP16", "QINT8-FP32", "FP16-FP16", "FP16-FP32", "FP32-FP16",
    "FP32-FP32", "QINT16-QINT16", "UINT16-UINT16", "QINT8-UINT16", "UINT4-UINT8", "UINT4-UINT16", "UINT8-UINT8",
    "UINT8-UINT16", "Q4_K-FP32", "Q4_0-FP32", "Q4_0-FP16",
)  # fmt: skip
#: those that are accepted; what is kept or computed in FP16 there is FP32 here
FLOAT_TYPES = ("FP16-FP16", "FP16-FP32", "FP32-FP16", "FP32-FP32")
CONVOLUTIONS = ("auto", "direct", "winograd2", "winograd4")

KNN, LOGISTIC_REGRESSION, REGRESSION = "knn", "logistic_regression", "regression"
#: the words of ``type`` that mean something; NNTrainer ignores the key, so that others are accepted with a notice
MODEL_TYPES = (KNN, LOGISTIC_REGRESSION, "neuralnetwork", REGRESSION)
#: the loss that a type means where none is said
LOSS_OF_TYPE = {LOGISTIC_REGRESSION: "cross", REGRESSION: "mse"}

_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", 1):
    _UNITS |= {_letter: 1024**_power, f"{_letter}B": 1024**_power, f"{_letter}IB": 1024**_power}
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([A-Z]*)")


class BytesKind(Kind[int]):
    """An amount of memory: a number with a unit; ``KB`` and ``KiB`` are both 1024 bytes, and so on."""

    expectation = "an amount of memory such as 64MB"

    def parse(self, text: str, warn: Warn = warn_python) -> int:
        match = _SIZE.fullmatch(bare(text).upper())
        if match is None or match[2] not in _UNITS:
            raise self.refuse(text)
        size = int(float(match[1]) * _UNITS[match[2]]) if "." in match[1] else int(match[1]) * _UNITS[match[2]]
        if not 1 <= size < 2**63:
            raise self.refuse(text)
        return size

    def convert(self, value: object, warn: Warn = warn_python) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value < 2**63:
            raise self.refuse(value)
        return value

    def format(self, value: int) -> str:
        for unit in ("GB", "MB", "KB"):
            if value % _UNITS[unit] == 0:
                return f"{value // _UNITS[unit]}{unit}"
        return str(value)

    def describe(self) -> str:
        return "bytes, or a number with KB, MB, GB or TB (powers of 1024)"

    def good_examples(self) -> list[str]:
        return ["64MB", "64 MiB", "1.5gb", "100000", "1K", "7B"]

    def bad_examples(self) -> list[str]:
        return ["", "0", "-1MB", "MB", "64XB", "1e6", "1.MB", "9" * 5000, "64MB64MB"]


class ModelTypeKind(Kind[str]):
    """What a model is for: one of `MODEL_TYPES`, or any other word, which means nothing."""

    expectation = "one of " + ", ".join(MODEL_TYPES)

    def parse(self, text: str, warn: Warn = warn_python) -> str:
        return bare(text).lower().replace("-", "_").replace(" ", "_")

    def convert(self, value: object, warn: Warn = warn_python) -> str:
        raise self.refuse(value)

    def format(self, value: str) -> str:
        return value

    def describe(self) -> str:
        return f"{', '.join(MODEL_TYPES)}; another word has no effect"

    def good_examples(self) -> list[str]:
        return [*MODEL_TYPES, "NeuralNetwork", "logistic-regression", "KNN"]

    def bad_examples(self) -> list[str]:
        return []


class ModelSection(Configurable):
    """The settings of a model and its run; the defaults are NNTrainer's."""

    keyword = "Model"

    type = Property[str | None](
        ModelTypeKind(), None, doc="knn, logistic_regression and regression add what such a model needs and lacks."
    )
    num_class = positive_int(None, doc="Number of classes of a knn whose last layer takes no label.")
    neighbours = positive_int(None, doc="How many samples vote in such a knn; unset: the nearest mean of a class.")
    epochs = positive_int(1, doc="Epochs to train in total.")
    batch_size = positive_int(1, doc="Samples in a training batch.")
    loss = Property[str | None](
        LossKind(), None, doc="Loss of every output that has none; cross takes the place of a last softmax or sigmoid."
    )
    save_path = path(None, doc="Weight file, written after every training epoch.")
    save_best_path = path(None, doc="Weight file, written when the validation gets better.")
    continue_train = boolean(False, doc="Go on from the stored epoch, iteration and optimizer state.")
    memory_optimization = boolean(True, doc="Reuse memory and compute in place; changes no number.")
    fsu = boolean(False, aliases=("memory_swap",), doc="Swap tensors to a file.")
    fsu_path = path(".", aliases=("memory_swap_path",), doc="Folder or prefix of the swap file.")
    fsu_lookahead = unsigned_int(0, aliases=("memory_swap_lookahead",), doc="Steps of the order to load ahead.")
    model_tensor_type = enum(TENSOR_TYPES, "FP32-FP32", doc="Types of weights and activations.")
    loss_scale = number(1.0, nonzero=True, doc="Scale of the loss in mixed precision, for layers without their own.")
    clip_grad_by_norm = number(None, minimum=0.0, doc="Limit of the global norm of the gradients; 0 is off.")
    input_layers = connections(doc="The inputs of the model in the order of the data.")
    label_layers = connections(doc="The layers that take a label, in the order of the data.")

    seed = unsigned_int(0, doc="Seed of initial weights, shuffling and every other random number.")
    threads = positive_int(None, doc="Threads to compute with; unset: one for each processor.")
    memory_budget = Property[int | None](BytesKind(), None, doc="All memory of the run; the plan is made to fit.")
    convolution = enum(CONVOLUTIONS, "auto", doc="How convolutions are computed; direct is the most exact.")
    micro_batches = boolean(False, doc="May split a batch to keep the memory budget; gradients are added up.")
    gradient_accumulation = positive_int(1, doc="Batches whose gradients are averaged before each update.")

    def validate(self) -> None:
        if self.model_tensor_type not in FLOAT_TYPES:
            raise UsageError(
                f"{self.model_tensor_type} is not supported by this version; expected one of {', '.join(FLOAT_TYPES)}",
                key="model_tensor_type",
            )
        for key in ("input_layers", "label_layers"):
            for connection in getattr(self, key) or ():
                if connection.output:
                    raise UsageError(f"expected names of layers, got '{connection}'", key=key)
