"""What a run leaves in its folder, and what it says at its end."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nntrainer_py.cli import run_folder as files
from nntrainer_py.cli.console import LogFile, follower
from nntrainer_py.cli.costs import StepCost, step_cost
from nntrainer_py.cli.ending import Ending
from nntrainer_py.cli.json_text import json_parts
from nntrainer_py.cli.process import peak_memory, resident_memory, seconds_since_start, time_of_start
from nntrainer_py.cli.quantities import figures
from nntrainer_py.errors import DataError, NNTrainerError, NumericalError
from nntrainer_py.formats.atomic import write_atomically
from nntrainer_py.training.callbacks import BatchReport, Callback, CallbackList, HistoryFiles, RunFacts, TrainingResult
from nntrainer_py.training.history import EpochRow, finite
from nntrainer_py.version import __version__

if TYPE_CHECKING:
    from nntrainer_py.cli.confusion import Confusions
    from nntrainer_py.cli.layout import Layout
    from nntrainer_py.cli.run_folder import RunFolder
    from nntrainer_py.model import Model
    from nntrainer_py.training.feeding import Loaders


class Recorder:
    """Writes the files of a run: some when it begins, some after each epoch, the rest with `finish`."""

    def __init__(
        self, model: Model, folder: RunFolder, arguments: argparse.Namespace, loaders: Loaders, layout: Layout
    ) -> None:
        self._model = model
        self._folder = folder
        self._loaders = loaders
        self._layout = layout
        self._arguments = arguments
        self._name = Path(arguments.model).name
        self._watcher = _Watcher(model, folder, loaders.valid is not None)
        shown = follower(quiet=arguments.quiet, as_json=arguments.json)
        log = LogFile(folder / files.LOG, f"nntrainer_py {__version__}: training {self._name}")
        written = HistoryFiles(folder / files.HISTORY, folder / files.HISTORY_LINES)
        self._watcher.writers = CallbackList([written, *self._events(), log])
        #: to be called by the run; the files come first, so that what is told is safe
        self.callbacks: list[Callback] = [self._watcher, *([shown] if shown else [])]

    def _events(self) -> list[Callback]:
        """What ``--tensorboard`` asks for."""
        wanted = self._arguments.tensorboard
        if wanted is None:
            return []
        from nntrainer_py.training.tensorboard import TensorBoard

        return [TensorBoard(wanted or self._folder / files.TENSORBOARD)]

    @property
    def began(self) -> bool:
        """The run did its first step, or has another thing to keep; before that nothing was written."""
        return self._watcher.began

    def nothing_to_do(self, result: TrainingResult) -> Ending | None:
        """A run that is complete already: say why, and the figures of the test data; touch nothing.

        One that was cut off between its last epoch and its last file gets what is missing.
        """
        if self._arguments.resume and not self._is_finished(result):
            return self._finish_late(result)
        if self._arguments.json:
            record = {
                "event": "result",
                "folder": str(self._folder.path) if self._arguments.resume else None,
                "ended": result.ended,
                "reason": result.reason,
                "test": None if result.test is None else finite(dict(result.test)),
            }
            print(json.dumps(record, allow_nan=False))
            return None
        self._say(result.reason)
        if result.test is not None:
            self._say(f"test: {figures(dict(result.test))}")
        return None

    def _is_finished(self, result: TrainingResult) -> bool:
        """The run left its results, and these are those of its last epoch."""
        try:
            record = json.loads((self._folder / files.RESULT).read_text(encoding="utf-8"))
            return bool(record["exit_code"] == 0 and record["epochs"] == result.epoch)
        except (OSError, ValueError, KeyError, TypeError):
            return False

    def _finish_late(self, result: TrainingResult) -> Ending | None:
        """Write what comes after the last epoch; its rows and its best weights may be missing as well."""
        result.history.write_csv(self._folder / files.HISTORY)
        result.history.write_json_lines(self._folder / files.HISTORY_LINES)
        if self._loaders.valid is not None and (result.restored or result.best_epoch == result.epoch):
            self._model.save(self._folder / files.BEST)
        early = result.epoch < self._model.spec.model.epochs
        reason = result.reason.removeprefix("nothing to do: ").partition(";")[0]
        self._watcher.result = replace(result, ended="early stopping" if early else "epochs", reason=reason)
        return self.finish(None)

    def finish(self, error: NNTrainerError | None) -> Ending | None:
        """Weights and results; returns what is to be drawn and told when model and data are gone."""
        result = self._watcher.result
        if result is None:
            return None
        if not isinstance(error, NumericalError):
            self._model.save(self._folder / files.WEIGHTS, training_state=True)
            self._model.save(self._folder / files.MODEL)
        write_json(self._folder / files.LAYOUT, self._layout.as_record())
        confusions = self._evaluate() if error is None else None
        cost = step_cost(self._model, self._loaders.train)
        record = self._record(result, self._layout, error, cost)
        write_json(self._folder / files.RESULT, record)
        return Ending(self._name, self._folder.path, result, record, confusions, cost, error is not None)

    def _evaluate(self) -> Confusions | None:
        """Write which classes of the validation data are taken for which; None where there are none."""
        from nntrainer_py.cli import confusion

        if self._loaders.valid is None:
            return None
        report = confusion.class_report(self._model, self._loaders.valid)
        if report is None:
            return None
        write_json(self._folder / files.EVALUATION, {"data": "valid", **report.as_record()})
        return confusion.Confusions.of_matrix(report.names, report.confusion)

    def _record(
        self, result: TrainingResult, layout: Layout, error: NNTrainerError | None, cost: StepCost | None
    ) -> dict[str, Any]:
        last = result.history[-1] if len(result.history) else None
        memory = layout.memory
        return {
            "model": self._name,
            "version": __version__,
            "started": time_of_start(),
            "ended": result.ended,
            "reason": result.reason,
            "exit_code": 0 if error is None else error.exit_code,
            "epochs": result.epoch,
            "steps": result.step,
            "final": None if last is None else _figures(last),
            "best": None if result.best is None else {"epoch": result.best_epoch, **_figures(result.best)},
            "weights_of_epoch": result.best_epoch if result.restored else result.epoch,
            "test": None if result.test is None else finite(dict(result.test)),
            "seed": self._model.compiled.options.seed,
            "threads": self._model.compiled.options.threads,
            "batch_size": self._model.batch_size,
            "parameters": layout.parameters,
            "memory": {
                "planned": {
                    "weights": memory.weights + memory.state,
                    "optimizer": memory.optimizer,
                    "gradients": memory.gradients,
                    "arena": memory.arena,
                    "lower_bound": memory.lower_bound,
                    "data": memory.data,
                    "total": memory.total,
                },
                "resident_before": self._watcher.resident,
                "peak_resident": peak_memory(),
                "cost": None if cost is None else finite(cost.as_record()),
            },
            "seconds": round(result.seconds, 3),
            "seconds_to_first_step": self._watcher.seconds_to_first_step,
            "seconds_of_process": round(seconds_since_start(), 3),
            "environment": environment(),
        }

    def _say(self, text: str) -> None:
        if not self._arguments.quiet:
            print(text, flush=True)


class _Watcher(Callback):
    """Begins the files of the run, and the callbacks that write them, when there is something to keep.

    That is the first step that is done, or a checkpoint; at once where a run is resumed. A run whose first step fails
    leaves nothing, and what it was to replace stays; only of a loss that is not finite there is a record. From then on
    this notes the first step and the end, and keeps the best weights.
    """

    def __init__(self, model: Model, folder: RunFolder, validated: bool) -> None:
        self._model = model
        self._folder = folder
        self._validated = validated
        #: the callbacks that write files
        self.writers = CallbackList()
        self.began = False
        self.resident: int | None = None
        self.result: TrainingResult | None = None
        self.seconds_to_first_step: float | None = None
        self._step = 0  # updates done when the run began

    def train_begin(self, run: RunFacts) -> None:
        self.resident = resident_memory()
        self._step = run.step
        if self._folder.resume:  # there are files already
            self._begin(run)

    def epoch_begin(self, run: RunFacts, epoch: int) -> None:
        if self.began:
            self.writers.epoch_begin(run, epoch)

    def batch_end(self, run: RunFacts, batch: BatchReport) -> None:
        if self.seconds_to_first_step is None:
            self.seconds_to_first_step = round(seconds_since_start(), 3)
        self._begin(run)
        self.writers.batch_end(run, batch)

    def evaluation_batch(self, run: RunFacts, use: str, batch: int) -> None:
        self._begin(run)
        self.writers.evaluation_batch(run, use, batch)

    def epoch_end(self, run: RunFacts, row: EpochRow) -> None:
        self._begin(run)
        if self._validated and run.best_epoch == row.epoch:
            self._model.save(self._folder / files.BEST)
        self.writers.epoch_end(run, row)

    def saved(self, run: RunFacts, what: str, path: Path) -> None:
        self._begin(run, path)
        self.writers.saved(run, what, path)

    def train_end(self, run: RunFacts, result: TrainingResult) -> None:
        if result.ended != "error":
            self._begin(run)
        if self.began:
            self.result = result
            self.writers.train_end(run, result)

    def _begin(self, run: RunFacts, written: Path | None = None) -> None:
        """Once: remove the run that is replaced, but not the file that is ``written`` already."""
        if self.began:
            return
        from nntrainer_py.graph.save import to_text

        self._folder.clear(written)
        self.began = True
        text = to_text(self._model.spec, self._folder.path.absolute())
        write_text(self._folder / files.DESCRIPTION, text)
        self.writers.train_begin(replace(run, step=self._step))


def environment() -> dict[str, Any]:
    """What a run ran on."""
    import numpy as np

    numba = sys.modules.get("numba")
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "numba": getattr(numba, "__version__", None),
        "system": platform.system(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
    }


def write_text(path: Path, text: str) -> None:
    """Replace a file atomically."""
    write_atomically(path, [text.encode("utf-8", "surrogateescape")], error=DataError)


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Replace a file atomically; the text is never there as a whole."""
    write_atomically(path, (part.encode() for part in json_parts(record, indent=1)), error=DataError)


def _figures(row: EpochRow) -> dict[str, Any]:
    kept = {name: value for name, value in row.columns().items() if name not in ("epoch", "seconds", "learning_rate")}
    found: dict[str, Any] = finite(kept)
    return found
