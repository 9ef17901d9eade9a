"""The figures of a run for TensorBoard, as a callback."""

from __future__ import annotations

import os
import time
from pathlib import Path

from nntrainer_py.formats.event_file import PATTERN, EventFile
from nntrainer_py.training.callbacks import BatchReport, Callback, RunFacts, TrainingResult
from nntrainer_py.training.history import EpochRow

#: seconds after which what was written is given to the system, also inside an epoch
_FLUSH_TIME = 5.0


class TensorBoard(Callback):
    """Writes event files into ``folder``: the loss of every batch, and all figures of every epoch, by step.

    Tags are ``batch/loss`` and ``batch/learning_rate``; ``loss/train`` and ``loss/valid``, the same of each metric,
    ``epoch`` and ``test/loss``. A run that was resumed writes a new file and marks where it goes on, so that what is
    done again shows once; its earlier epochs are written too where ``folder`` has no event file yet.

    To look at: ``pip install "nntrainer_py[tensorboard]"`` and ``tensorboard --logdir FOLDER``; writing needs neither.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._file: EventFile | None = None
        self._flushed = 0.0

    def train_begin(self, run: RunFacts) -> None:
        known = any(self._folder.glob(PATTERN))
        self._file = EventFile(self._folder)
        if not known:
            for row in run.history:
                self._epoch(self._file, row)
        elif run.step:
            self._file.session(run.step + 1)
        self._flush(self._file)

    def batch_end(self, run: RunFacts, batch: BatchReport) -> None:
        if self._file is not None:
            self._file.scalars(batch.step, {"batch/loss": batch.loss, "batch/learning_rate": batch.learning_rate})
            if time.monotonic() - self._flushed >= _FLUSH_TIME:
                self._flush(self._file)

    def epoch_end(self, run: RunFacts, row: EpochRow) -> None:
        if self._file is not None:
            self._epoch(self._file, row)
            self._flush(self._file)

    def train_end(self, run: RunFacts, result: TrainingResult) -> None:
        file, self._file = self._file, None
        if file is not None:
            if result.test is not None:
                file.scalars(result.step, {f"test/{name}": value for name, value in result.test.items()})
            file.close()

    def _epoch(self, file: EventFile, row: EpochRow) -> None:
        found = {"epoch": float(row.epoch), "loss/train": row.loss}
        found |= {f"{name}/train": value for name, value in row.metrics.items()}
        if row.valid_loss is not None:
            found["loss/valid"] = row.valid_loss
            found |= {f"{name}/valid": value for name, value in row.valid_metrics.items()}
        file.scalars(row.step, found)

    def _flush(self, file: EventFile) -> None:
        file.flush()
        self._flushed = time.monotonic()
