"""The end of a run, when model and data are gone: its pictures, and the last lines on the terminal.

The library that draws takes memory of its own, so it comes after that of the model was given back.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nntrainer_py.cli import run_folder as files
from nntrainer_py.cli.quantities import amount, duration, figures
from nntrainer_py.errors import MissingExtraError, printable

if TYPE_CHECKING:
    from nntrainer_py.cli.confusion import Confusions
    from nntrainer_py.cli.costs import StepCost
    from nntrainer_py.training.callbacks import TrainingResult


@dataclass(frozen=True, slots=True)
class Ending:
    """What a run leaves to be shown; it holds nothing of model and data.

    Attributes:
        name: of the model file.
        folder: of the run; all files but the pictures are in it.
        record: of ``result.json``.
        confusions: of the validation data, where the run was not cut off and chooses between classes.
        cut: the run was cut off.
    """

    name: str
    folder: Path
    result: TrainingResult
    record: Mapping[str, Any]
    confusions: Confusions | None = None
    cost: StepCost | None = None
    cut: bool = False

    def show(self, *, as_json: bool, quiet: bool) -> None:
        """Draw, then tell."""
        missing = self._draw()
        if as_json:
            print(json.dumps({"event": "result", "folder": str(self.folder), **self.record}, allow_nan=False))
        elif not quiet:
            print()
            for word, text in self._lines(missing):
                print(f"{word:<8}  {text}")

    def _draw(self) -> str:
        """Curves and confusion matrix; what is missing for that, if anything."""
        from nntrainer_py.cli import pictures

        try:
            if len(self.result.history):
                pictures.draw_curves(self.result.history, self.folder / files.CURVES, self.name)
            if self.confusions is not None:
                pictures.draw_confusion(self.confusions, self.folder / files.CONFUSION)
        except MissingExtraError as error:
            return error.message
        return ""

    def _lines(self, missing: str) -> list[tuple[str, str]]:
        result = self.result
        lines: list[tuple[str, str]] = []
        if not self.cut:
            first = self.record["seconds_to_first_step"]
            began = "" if first is None else f", first step {duration(first)} after the start"
            lines.append(("done", f"{result.reason or result.ended} ({duration(result.seconds)}{began})"))
        if result.best is not None:
            best = result.best
            shown = figures({"loss": best.loss, **best.metrics})
            if best.valid_loss is not None:
                shown = figures({"loss": best.valid_loss, **best.valid_metrics}, "valid_")
            lines.append(("best", f"epoch {result.best_epoch}: {shown}{' (restored)' if result.restored else ''}"))
        if result.test is not None:
            lines.append(("test", figures(dict(result.test))))
        lines.append(("memory", memory_line(self.record["memory"])))
        if self.cost is not None:
            lines.append(("cost", str(self.cost)))
        if missing:
            lines.append(("pictures", missing))
        lines.append(("folder", printable(str(self.folder))))
        return lines


def memory_line(memory: Mapping[str, Any]) -> str:
    """Planned, and what the process had at most, pictures not counted: most of that is not ours, as it says."""
    text, peak = f"planned {amount(memory['planned']['total'])}", memory["peak_resident"]
    return (
        text if peak is None else f"{text}; the process had {amount(peak)} at most, with Python, libraries and kernels"
    )
