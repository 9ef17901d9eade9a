"""``curves.png`` and ``confusion.png``, for which matplotlib is needed (the extra ``plot``)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nntrainer_py.errors import DataError, MissingExtraError, printable

if TYPE_CHECKING:
    from nntrainer_py.training.history import EpochRow

Points = list[tuple[float, float]]
Panel = tuple[str, list[tuple[str, Points]]]


def panels(rows: Sequence[EpochRow]) -> list[Panel]:
    """What curves show: (title, lines), each line (label, points); loss, each metric, learning rate.

    Values that are not finite leave a gap.
    """
    metrics = list(dict.fromkeys(name for row in rows for name in (*row.metrics, *row.valid_metrics)))
    made: list[Panel] = []
    for name in ("loss", *metrics):
        lines = [
            (label, _points(rows, key))
            for key, label in ((name, "training"), (f"valid_{name}", "validation"))
            if any(row.figure(key) is not None for row in rows)
        ]
        made.append((name, lines))
    made.append(("learning rate", [("learning rate", _points(rows, "learning_rate"))]))
    return made


def _points(rows: Sequence[EpochRow], key: str) -> Points:
    found = [(row.epoch, row.figure(key)) for row in rows]
    return [(epoch, value) for epoch, value in found if value is not None and isfinite(value)]


def draw_curves(rows: Sequence[EpochRow], path: Path, title: str) -> None:
    """Loss, metrics and learning rate by epoch. MissingExtraError without matplotlib."""
    shown = panels(rows)
    figure = _figure(4.6 * len(shown), 3.6)
    for axes, (name, lines) in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        for label, points in lines:
            marker = "." if len(points) < 60 else ""
            axes.plot([x for x, _ in points], [y for _, y in points], marker=marker, label=label)
        axes.set_title(name)
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
        if len(lines) > 1:
            axes.legend()
    figure.suptitle(printable(title), parse_math=False)
    _save(figure, path)


def draw_confusion(names: Sequence[str], counts: Any, path: Path) -> None:
    """The matrix (true, predicted) as shades of blue, with its numbers where there is room."""
    count = len(names)
    shown = [printable(name) for name in names]
    size = min(max(4.0, 0.45 * count + 2), 24.0)
    figure = _figure(size, size)
    axes = figure.subplots()
    axes.imshow(counts, cmap="Blues")
    if count <= 60:
        axes.set_xticks(range(count), shown, rotation=90, parse_math=False)
        axes.set_yticks(range(count), shown, parse_math=False)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    if count <= 40:
        limit = counts.max() / 2
        for true, taken in zip(*counts.nonzero(), strict=True):
            colour = "white" if counts[true, taken] > limit else "black"
            axes.text(taken, true, str(counts[true, taken]), ha="center", va="center", fontsize=8, color=colour)
    right = counts.trace() / max(int(counts.sum()), 1)
    axes.set_title(f"validation: {100 * right:.2f} % right")
    _save(figure, path)


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot", "drawing curves.png") from error
    return Figure(figsize=(width, height), dpi=110, layout="constrained")


@contextmanager
def every_script() -> Iterator[None]:
    """Names in a script that the font lacks are drawn as boxes, without a warning for each letter."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        warnings.filterwarnings("ignore", message="Matplotlib currently does not support", category=UserWarning)
        yield


def _save(figure: Any, path: Path) -> None:
    try:
        with every_script():
            figure.savefig(path, format="png")
    except OSError as error:
        raise DataError(f"{path}: cannot be written: {error.strerror or error}") from None
