"""``curves.png`` and ``confusion.png``, for which matplotlib is needed (the extra ``plot``)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nntrainer_py.errors import DataError, MissingExtraError

if TYPE_CHECKING:
    from nntrainer_py.cli.confusion import Confusion
    from nntrainer_py.training.history import EpochRow


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot", "drawing curves.png") from error
    return Figure(figsize=(width, height), dpi=110, layout="constrained")


def panels(rows: Sequence[EpochRow]) -> list[tuple[str, list[tuple[str, list[tuple[int, float]]]]]]:
    """What curves show: (title, lines), each line (label, points), one panel for the loss and one for each metric."""
    metrics = list(dict.fromkeys(name for row in rows for name in (*row.metrics, *row.valid_metrics)))
    made = []
    for name in ("loss", *metrics):
        lines = []
        for key, label in ((name, "training"), (f"valid_{name}", "validation")):
            points = [(row.epoch, value) for row in rows if (value := row.figure(key)) is not None]
            if points:
                lines.append((label, points))
        made.append((name, lines))
    made.append(("learning rate", [("learning rate", [(row.epoch, row.learning_rate) for row in rows])]))
    return made


def draw_curves(rows: Sequence[EpochRow], path: Path, title: str) -> None:
    """Loss, metrics and learning rate by epoch."""
    from math import isfinite

    shown = panels(rows)
    figure = _figure(4.6 * len(shown), 3.6)
    for axes, (name, lines) in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        for label, points in lines:
            kept = [(x, y) for x, y in points if isfinite(y)]
            axes.plot([x for x, _ in kept], [y for _, y in kept], marker="." if len(kept) < 60 else "", label=label)
        axes.set_title(name)
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
        if len(lines) > 1:
            axes.legend()
    figure.suptitle(title, parse_math=False)
    _save(figure, path)


def draw_confusion(confusion: Confusion, path: Path) -> None:
    """The matrix as shades of blue, with its numbers where there is room."""
    count = len(confusion.names)
    size = min(max(4.0, 0.45 * count + 2), 24.0)
    figure = _figure(size, size)
    axes = figure.subplots()
    counts = confusion.counts
    axes.imshow(counts, cmap="Blues")
    for axis in (axes.set_xticks, axes.set_yticks):
        axis(range(count), confusion.names, parse_math=False, **({"rotation": 90} if axis == axes.set_xticks else {}))
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    if count <= 40:
        limit = counts.max() / 2
        for true in range(count):
            for taken in range(count):
                if counts[true, taken]:
                    colour = "white" if counts[true, taken] > limit else "black"
                    axes.text(taken, true, str(counts[true, taken]), ha="center", va="center", fontsize=8, color=colour)
    axes.set_title(f"validation: {100 * confusion.accuracy:.2f} % right")
    _save(figure, path)


def _save(figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None
