"""What a run leaves in its folder, and what it says at its end."""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nntrainer_py.cli import run_folder as files
from nntrainer_py.cli.console import LogFile, follower
from nntrainer_py.cli.process import peak_memory, resident_memory, seconds_since_start
from nntrainer_py.cli.quantities import amount, duration, figures
from nntrainer_py.errors import MissingExtraError, NNTrainerError, NumericalError, printable
from nntrainer_py.formats.atomic import write_atomically
from nntrainer_py.training.callbacks import BatchReport, Callback, HistoryFiles, RunFacts, TrainingResult
from nntrainer_py.training.history import EpochRow
from nntrainer_py.version import __version__

if TYPE_CHECKING:
    from nntrainer_py.cli.layout import Layout
    from nntrainer_py.cli.run_folder import RunFolder
    from nntrainer_py.model import Model
    from nntrainer_py.training.feeding import Loaders
    from nntrainer_py.training.settings import TrainSettings


class Recorder:
    """Writes the files of a run. `begin` before it, `finish` after it, in whatever way it ended."""

    def __init__(self, model: Model, folder: RunFolder, arguments: argparse.Namespace, loaders: Loaders) -> None:
        self._model = model
        self._folder = folder
        self._loaders = loaders
        self._arguments = arguments
        self._name = Path(arguments.model).name
        self._started = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        self._resident = resident_memory()
        self._watcher = _Watcher(folder, loaders.valid is not None)
        self._log = LogFile(folder / files.LOG)
        shown = follower(quiet=arguments.quiet, as_json=arguments.json)
        written = HistoryFiles(folder / files.HISTORY, folder / files.HISTORY_LINES)
        #: to be called by the run
        self.callbacks: list[Callback] = [written, self._watcher, *([shown] if shown else []), self._log]

    def begin(self, settings: TrainSettings) -> None:
        """Keep what the run is made of."""
        from nntrainer_py.graph.save import to_text

        text = to_text(self._model.spec, self._folder.path.absolute())
        _write(self._folder / files.DESCRIPTION, text)
        _write_json(self._folder / files.INPUTS, inputs_of(self._model))
        going_on = " (resumed)" if settings.resume else ""
        self._log.note(f"nntrainer_py {__version__}: training {self._name} for {settings.epochs} epochs{going_on}")

    def finish(self, error: NNTrainerError | None) -> None:
        """Weights, results and pictures; the last lines on the terminal."""
        result = self._watcher.result
        if result is None or result.ended == "nothing to do":
            if result is not None:
                self._say(f"nothing to do: {result.reason}")
            return
        if not isinstance(error, NumericalError) and result.step:
            self._model.save(self._folder / files.WEIGHTS, training_state=True)
        from nntrainer_py.cli.layout import layout_of

        loaders = (self._loaders.train, self._loaders.valid, self._loaders.test)
        data = sum(loader.buffer_bytes for loader in loaders if loader is not None)
        layout = layout_of(self._model, self._name, data)
        _write_json(self._folder / files.LAYOUT, layout.as_record())
        record = self._record(result, layout, error)
        _write_json(self._folder / files.RESULT, record)
        missing = self._pictures(result, failed=error is not None)
        if self._arguments.json:
            print(json.dumps({"event": "result", "folder": str(self._folder.path), **record}, allow_nan=False))
        else:
            self._report(result, record, missing, error)

    def _record(self, result: TrainingResult, layout: Layout, error: NNTrainerError | None) -> dict[str, Any]:
        last = result.history[-1] if len(result.history) else None
        options = self._model.compiled.options
        return {
            "model": self._name,
            "version": __version__,
            "started": self._started,
            "ended": result.ended,
            "reason": result.reason,
            "exit_code": 0 if error is None else error.exit_code,
            "epochs": result.epoch,
            "steps": result.step,
            "final": None if last is None else _figures(last),
            "best": None if result.best is None else {"epoch": result.best_epoch, **_figures(result.best)},
            "weights_of_epoch": result.best_epoch if result.restored else result.epoch,
            "test": None if result.test is None else _finite(dict(result.test)),
            "seed": options.seed,
            "threads": options.threads,
            "batch_size": self._model.batch_size,
            "memory": {
                "planned": {
                    "weights": layout.memory.weights + layout.memory.state,
                    "optimizer": layout.memory.optimizer,
                    "gradients": layout.memory.gradients,
                    "arena": layout.memory.arena,
                    "lower_bound": layout.memory.lower_bound,
                    "data": layout.memory.data,
                    "total": layout.memory.total,
                },
                "resident_before": self._resident,
                "peak_resident": peak_memory(),
            },
            "seconds": round(result.seconds, 3),
            "seconds_to_first_step": self._watcher.seconds_to_first_step,
            "seconds_of_process": round(seconds_since_start(), 3),
            "environment": environment(),
        }

    def _pictures(self, result: TrainingResult, *, failed: bool) -> str:
        """Draw curves and confusion matrix; what is missing for that, if anything."""
        from nntrainer_py.cli import pictures
        from nntrainer_py.cli.confusion import confusion_of

        confusion = None
        if not failed and self._loaders.valid is not None:
            confusion = confusion_of(self._model, self._loaders.valid)
            if confusion is not None:
                _write_json(self._folder / files.EVALUATION, confusion.as_record())
        try:
            pictures.draw_curves(result.history, self._folder / files.CURVES, self._name)
            if confusion is not None:
                pictures.draw_confusion(confusion, self._folder / files.CONFUSION)
        except MissingExtraError as error:
            return error.message
        return ""

    def _report(
        self, result: TrainingResult, record: Mapping[str, Any], missing: str, error: NNTrainerError | None
    ) -> None:
        if error is None:
            first = self._watcher.seconds_to_first_step
            began = "" if first is None else f" (first step {duration(first)} after the start)"
            why = f": {result.reason}" if result.reason else ""
            self._say(f"{result.ended} done{why}" if result.ended == "epochs" else f"{result.ended}{why}", newline=True)
            self._say(f"time      {duration(result.seconds)}{began}")
        if result.best is not None and result.best.valid_loss is not None:
            shown = figures({"loss": result.best.valid_loss, **result.best.valid_metrics}, "valid_")
            self._say(f"best      epoch {result.best_epoch}: {shown}{' (restored)' if result.restored else ''}")
        if result.test is not None:
            self._say(f"test      {figures(dict(result.test))}")
        memory = record["memory"]
        peak = "" if memory["peak_resident"] is None else f", process at most {amount(memory['peak_resident'])}"
        self._say(f"memory    planned {amount(memory['planned']['total'])}{peak}")
        if missing:
            self._say(f"pictures  {missing}")
        self._say(f"folder    {printable(str(self._folder.path))}")

    def _say(self, text: str, newline: bool = False) -> None:
        if not self._arguments.quiet:
            print(("\n" if newline else "") + text, flush=True)


class _Watcher(Callback):
    """Remembers how the run ended and when its first step was; keeps the best weights."""

    def __init__(self, folder: RunFolder, validated: bool) -> None:
        self._folder = folder
        self._validated = validated
        self.result: TrainingResult | None = None
        self.seconds_to_first_step: float | None = None

    def batch_end(self, run: RunFacts, batch: BatchReport) -> None:
        if self.seconds_to_first_step is None:
            self.seconds_to_first_step = round(seconds_since_start(), 3)

    def epoch_end(self, run: RunFacts, row: EpochRow) -> None:
        if self._validated and run.best_epoch == row.epoch:
            run.model.save(self._folder / files.BEST)

    def train_end(self, run: RunFacts, result: TrainingResult) -> None:
        self.result = result


def inputs_of(model: Model) -> dict[str, Any]:
    """What prediction must know of the training data: its scaling and the names of its classes."""
    return {
        "normalization": None if model.normalization is None else model.normalization.to_json(),
        "class_names": None if model.class_names is None else list(model.class_names),
    }


def environment() -> dict[str, Any]:
    """What a run ran on."""
    import numpy

    numba = sys.modules.get("numba")
    return {
        "python": platform.python_version(),
        "numpy": numpy.__version__,
        "numba": getattr(numba, "__version__", None),
        "system": platform.system(),
        "machine": platform.machine(),
        "processors": __import__("os").cpu_count(),
    }


def _figures(row: EpochRow) -> dict[str, Any]:
    columns = row.columns()
    return _finite({key: value for key, value in columns.items() if key not in ("epoch", "seconds", "learning_rate")})


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    import math

    return {key: None if isinstance(v, float) and not math.isfinite(v) else v for key, v in values.items()}


def _write(path: Path, text: str) -> None:
    from nntrainer_py.errors import DataError

    write_atomically(path, [text.encode("utf-8", "surrogateescape")], error=DataError)


def _write_json(path: Path, record: Mapping[str, Any]) -> None:
    _write(path, json.dumps(record, indent=1, allow_nan=False, ensure_ascii=True) + "\n")
