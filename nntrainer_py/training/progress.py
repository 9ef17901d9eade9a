"""A progress bar for Python callers; the command line has its own."""

from __future__ import annotations

import sys
from typing import Any

from nntrainer_py.training.callbacks import BatchReport, Callback, RunFacts, TrainingResult
from nntrainer_py.training.history import EpochRow


class ProgressBar(Callback):
    """One bar an epoch, with loss and metrics; widgets in a notebook, text elsewhere (tqdm decides)."""

    def __init__(self) -> None:
        self._bar: Any = None

    def epoch_begin(self, run: RunFacts, epoch: int) -> None:
        from tqdm.auto import tqdm

        done = run.start_batch if epoch == run.start_epoch else 0
        self._bar = tqdm(
            desc=f"epoch {epoch}/{run.epochs}", total=run.batches_per_epoch, initial=done, unit="batch", leave=True
        )

    def batch_end(self, run: RunFacts, batch: BatchReport) -> None:
        self._bar.update(1)
        self._bar.set_postfix_str(_figures({"loss": batch.mean_loss, **batch.metrics}), refresh=False)

    def epoch_end(self, run: RunFacts, row: EpochRow) -> None:
        shown = {"loss": row.loss, **row.metrics}
        if row.valid_loss is not None:
            shown["valid_loss"] = row.valid_loss
            shown |= {f"valid_{name}": value for name, value in row.valid_metrics.items()}
        self._bar.set_postfix_str(_figures(shown))
        self._close()

    def train_end(self, run: RunFacts, result: TrainingResult) -> None:
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def progress_callbacks(wanted: bool | None) -> list[Callback]:
    """A bar when it is wanted; None: in a notebook."""
    return [ProgressBar()] if (in_notebook() if wanted is None else wanted) else []


def in_notebook() -> bool:
    """Whether this is the kernel of a notebook, where a bar is what people expect."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return False
    shell = ipython.get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"


def _figures(figures: dict[str, float]) -> str:
    return " ".join(f"{name}={value:.4g}" for name, value in figures.items())
