"""Small models, data and callbacks that the tests of runs share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nntrainer_py import Model
from nntrainer_py.layers.activation import Activation
from nntrainer_py.layers.batch_normalization import BatchNormalization
from nntrainer_py.layers.dropout import Dropout
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.training.callbacks import BatchReport, Callback, RunFacts, TrainingResult
from nntrainer_py.training.history import EpochRow

FEATURES, CLASSES = 6, 3

Data = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def data(count: int, seed: int = 0) -> Data:
    """Features (count, 6) and class indices (count,) that a small network can learn."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, FEATURES)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64) + (x[:, 1] > 0)
    return x, y


def classifier(
    *,
    batch_size: int = 8,
    optimizer: Any = "adam",
    scheduler: Any = None,
    seed: int = 0,
    normalization: bool = True,
    dropout: float = 0.3,
    **settings: Any,
) -> Model:
    """Six features to three classes; batch normalization and dropout, so that state and random draws matter."""
    layers: list[Any] = [("in", Input(input_shape=f"1:1:{FEATURES}")), ("hidden", FullyConnected(unit=8))]
    if normalization:
        layers.append(("norm", BatchNormalization(momentum=0.9)))
    layers.append(("act", Activation(activation="relu")))
    if dropout:
        layers.append(("drop", Dropout(dropout_rate=dropout)))
    layers.append(("out", FullyConnected(unit=CLASSES, activation="softmax")))
    given = {"loss": "cross", "batch_size": batch_size, **settings}
    return Model.build(layers, model=given, optimizer=optimizer, scheduler=scheduler).compile(threads=1, seed=seed)


def regressor(**settings: Any) -> Model:
    """Six features to two numbers."""
    layers = [Input(input_shape=f"1:1:{FEATURES}"), FullyConnected(unit=5, activation="tanh"), FullyConnected(unit=2)]
    return Model.build(layers, model={"loss": "mse", "batch_size": 8, **settings}, optimizer="adam").compile(threads=1)


def weights(model: Model) -> dict[str, bytes]:
    """The weights as bytes, for exact comparison."""
    return {name: array.tobytes() for name, array in model.weights().items()}


def figures(result: TrainingResult) -> list[tuple[Any, ...]]:
    """The history without the times."""
    return [
        (row.epoch, row.step, row.loss, dict(row.metrics), row.valid_loss, dict(row.valid_metrics), row.learning_rate)
        for row in result.history
    ]


class Recorder(Callback):
    """Keeps what it is told, and stops at a step or after an epoch where that is asked for."""

    def __init__(self, stop_step: int = 0, stop_epoch: int = 0) -> None:
        self.batches: list[BatchReport] = []
        self.calls: list[str] = []
        self.files: list[tuple[str, Path]] = []
        self.result: TrainingResult | None = None
        self.stop_step, self.stop_epoch = stop_step, stop_epoch

    @property
    def losses(self) -> list[tuple[int, float, float]]:
        """Step, loss and mean loss of every batch."""
        return [(batch.step, batch.loss, batch.mean_loss) for batch in self.batches]

    def train_begin(self, run: RunFacts) -> None:
        self.calls.append("train_begin")

    def epoch_begin(self, run: RunFacts, epoch: int) -> None:
        self.calls.append(f"epoch_begin {epoch}")

    def batch_end(self, run: RunFacts, batch: BatchReport) -> None:
        self.calls.append("batch_end")
        self.batches.append(batch)
        if self.stop_step and batch.step == self.stop_step:
            run.stop("the test asked for it")

    def evaluation_batch(self, run: RunFacts, use: str, batch: int) -> None:
        self.calls.append(f"evaluation_batch {use}")

    def epoch_end(self, run: RunFacts, row: EpochRow) -> None:
        self.calls.append(f"epoch_end {row.epoch}")
        if self.stop_epoch and row.epoch == self.stop_epoch:
            run.stop("the test asked for it")

    def saved(self, run: RunFacts, what: str, path: Path) -> None:
        self.calls.append(f"saved {what}")
        self.files.append((what, path))

    def train_end(self, run: RunFacts, result: TrainingResult) -> None:
        self.calls.append("train_end")
        self.result = result
