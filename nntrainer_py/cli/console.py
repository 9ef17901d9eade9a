"""What a run shows while it goes: a bar on a terminal, plain lines in a log, JSON lines for programs."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import IO, Any

from nntrainer_py.cli.process import resident_memory
from nntrainer_py.cli.quantities import amount, duration, figures
from nntrainer_py.errors import DataError, counted, printable
from nntrainer_py.training.callbacks import BatchReport, Callback, RunFacts, TrainingResult
from nntrainer_py.training.history import EpochRow, finite

#: seconds between lines of progress inside an epoch where there is no terminal
_QUIET_TIME = 30.0
#: seconds between looks at the resident memory
_MEMORY_TIME = 1.0


def epoch_line(row: EpochRow, epochs: int, best: bool) -> str:
    """One line about an epoch: ``epoch 3/20: loss 0.21, accuracy 93.10 %, valid_loss ..., 0.25 s``."""
    parts = [figures({"loss": row.loss, **row.metrics})]
    if row.valid_loss is not None:
        parts.append(figures({"loss": row.valid_loss, **row.valid_metrics}, "valid_"))
    parts.append(duration(row.seconds))
    return f"epoch {row.epoch:>{len(str(epochs))}}/{epochs}: {', '.join(parts)}{' (best)' if best else ''}"


def beginning(run: RunFacts) -> str:
    """From where a resumed run goes on; empty for a new one."""
    if run.start_epoch == 1 and not run.start_batch:
        return ""
    inside = f", batch {run.start_batch + 1}" if run.start_batch else ""
    return f"resumed at epoch {run.start_epoch}{inside} ({counted(run.step, 'step')} done)"


class Lines(Callback):
    """Plain lines: one an epoch, and a sign of life inside long epochs. Pure ASCII, nothing that moves."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stdout
        self._last = time.monotonic()

    def train_begin(self, run: RunFacts) -> None:
        if beginning(run):
            self._line(beginning(run))

    def batch_end(self, run: RunFacts, batch: BatchReport) -> None:
        if run.seconds_to_first_step is None or batch.batch == 1:
            self._last = time.monotonic()  # kernels were compiled
        elif time.monotonic() - self._last >= _QUIET_TIME:
            total = "" if run.batches_per_epoch is None else f"/{run.batches_per_epoch}"
            shown = figures({"loss": batch.mean_loss, **batch.metrics})
            self._line(f"epoch {batch.epoch}/{run.epochs}, batch {batch.batch}{total}: {shown}")

    def epoch_end(self, run: RunFacts, row: EpochRow) -> None:
        self._line(epoch_line(row, run.epochs, run.best_epoch == row.epoch and row.valid_loss is not None))

    def _line(self, text: str) -> None:
        self._last = time.monotonic()
        print(text, file=self._stream, flush=True)


class Bar(Callback):
    """A bar for the whole run on the error stream, with time left, samples a second and memory; lines above it."""

    def __init__(self, stream: IO[str] | None = None, lines: IO[str] | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lines = lines or sys.stdout
        self._bar: Any = None
        self._memory = ""
        self._looked = 0.0

    def train_begin(self, run: RunFacts) -> None:
        from tqdm import tqdm

        if beginning(run):
            print(beginning(run), file=self._lines, flush=True)
        per_epoch = run.samples_per_epoch
        total = None if per_epoch is None else per_epoch * run.epochs
        done = 0 if per_epoch is None else per_epoch * (run.start_epoch - 1) + run.start_batch * run.batch_size
        self._bar = tqdm(
            total=total, initial=done, unit=" samples", file=self._stream, dynamic_ncols=True, leave=False,
            smoothing=0.1, mininterval=0.1, delay=0.0,
            bar_format="{desc} {percentage:3.0f}%|{bar}| {remaining} left, {rate_fmt}{postfix}",
        )  # fmt: skip
        if total is None:
            self._bar.bar_format = "{desc} {n_fmt} samples, {elapsed}, {rate_fmt}{postfix}"

    def epoch_begin(self, run: RunFacts, epoch: int) -> None:
        self._bar.set_description_str(f"epoch {epoch}/{run.epochs}", refresh=False)

    def batch_end(self, run: RunFacts, batch: BatchReport) -> None:
        now = time.monotonic()
        if now - self._looked >= _MEMORY_TIME:
            self._looked = now
            size = resident_memory()
            self._memory = "" if size is None else f", {amount(size)}"
        # tqdm draws at most every 0.1 s; the text must be ready by then but costs little
        self._bar.postfix = f"{figures({'loss': batch.mean_loss, **batch.metrics})}{self._memory}"
        self._bar.update(batch.samples)

    def evaluation_batch(self, run: RunFacts, use: str, batch: int) -> None:
        self._bar.update(0)

    def epoch_end(self, run: RunFacts, row: EpochRow) -> None:
        line = epoch_line(row, run.epochs, run.best_epoch == row.epoch and row.valid_loss is not None)
        self._bar.write(line, file=self._lines)
        self._lines.flush()

    def train_end(self, run: RunFacts, result: TrainingResult) -> None:
        if self._bar is not None:
            self._bar.close()


class JsonLines(Callback):
    """One JSON object an epoch on the output stream, and one first where a run goes on."""

    def train_begin(self, run: RunFacts) -> None:
        if beginning(run):
            self._line({"event": "resumed", "epoch": run.start_epoch, "batch": run.start_batch + 1, "step": run.step})

    def epoch_end(self, run: RunFacts, row: EpochRow) -> None:
        self._line({"event": "epoch", **row.as_record()})

    def _line(self, record: dict[str, Any]) -> None:
        print(json.dumps(finite(record), allow_nan=False), flush=True)


class LogFile(Callback):
    """The lines of `Lines` with the time of day in a file of the run folder, flushed line by line."""

    def __init__(self, path: Path, title: str) -> None:
        self._path = path
        self._title = title
        self._file: IO[str] | None = None

    def note(self, text: str) -> None:
        """Add one line."""
        if self._file is not None:
            try:
                self._file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
                self._file.flush()
            except OSError as error:
                self._close()
                path = printable(str(self._path))
                raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None

    def train_begin(self, run: RunFacts) -> None:
        self._file = self._path.open("a", encoding="utf-8", errors="backslashreplace")
        self.note(f"{self._title}, {counted(run.epochs, 'epoch')}; {beginning(run) or 'a new run'}")

    def epoch_end(self, run: RunFacts, row: EpochRow) -> None:
        self.note(epoch_line(row, run.epochs, run.best_epoch == row.epoch and row.valid_loss is not None))

    def saved(self, run: RunFacts, what: str, path: Path) -> None:
        self.note(f"saved {what}: {path.name}")

    def train_end(self, run: RunFacts, result: TrainingResult) -> None:
        with contextlib.suppress(DataError):  # whatever ended the run is what counts
            self.note(f"ended after epoch {result.epoch}, step {result.step}: {result.reason or result.ended}")
        self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()


def follower(*, quiet: bool, as_json: bool) -> Callback | None:
    """What shows the progress of a run on these streams; None for silence."""
    if quiet:
        return None
    if as_json:
        return JsonLines()
    return Bar() if sys.stderr.isatty() else Lines()
