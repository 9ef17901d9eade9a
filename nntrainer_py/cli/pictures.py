"""``curves.png`` and ``confusion.png``, for which matplotlib is needed (the extra ``plot``)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import DataError, MissingExtraError, printable

if TYPE_CHECKING:
    from nntrainer_py.cli.confusion import Confusions
    from nntrainer_py.training.history import EpochRow

#: inches; the pixels of a picture of this size take 4 MiB while it is drawn
_LARGEST = 9.0

#: (points, 2): epoch and value
Points = NDArray[np.float64]
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
    found = ((row.epoch, row.figure(key)) for row in rows)
    kept = ((epoch, value) for epoch, value in found if value is not None and isfinite(value))
    return np.fromiter(chain.from_iterable(kept), np.float64).reshape(-1, 2)


def draw_curves(rows: Sequence[EpochRow], path: Path, title: str) -> None:
    """Loss, metrics and learning rate by epoch. MissingExtraError without matplotlib."""
    shown = panels(rows)
    figure = _figure(4.6 * len(shown), 3.6)
    for axes, (name, lines) in zip(figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True):
        for label, points in lines:
            marker = "." if len(points) < 60 else ""
            axes.plot(points[:, 0], points[:, 1], marker=marker, label=label)
        axes.set_title(name)
        axes.set_xlabel("epoch")
        axes.grid(alpha=0.3)
        axes.xaxis.get_major_locator().set_params(integer=True)
        if len(lines) > 1:
            axes.legend()
    figure.suptitle(printable(title), parse_math=False)
    _save(figure, path)


def draw_confusion(found: Confusions, path: Path) -> None:
    """The matrix (true, predicted) as shades of blue, with its numbers where there is room.

    Of many classes groups of neighbours are drawn.
    """
    groups = found.groups()
    drawn = found.table(groups)
    shown = [printable(found.names[group.start]) for group in groups]
    title = f"validation: {100 * found.right:.2f} % right"
    if len(groups) < len(found.names):
        title += f"\n{len(found.names)} classes in {len(groups)} groups, each named after its first"
    count = len(drawn)
    size = min(max(4.0, 0.45 * count + 2), _LARGEST)
    figure = _figure(size, size)
    axes = figure.subplots()
    axes.pcolormesh(drawn, cmap="Blues")  # less memory than an image, which is resampled
    axes.set_aspect("equal")
    axes.invert_yaxis()
    middles = [place + 0.5 for place in range(count)]
    small = {"fontsize": 6} if count > 30 else {}
    axes.set_xticks(middles, shown, rotation=90, parse_math=False, **small)
    axes.set_yticks(middles, shown, parse_math=False, **small)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")
    if count <= 40:
        limit = drawn.max() / 2
        for true, taken in zip(*drawn.nonzero(), strict=True):
            colour = "white" if drawn[true, taken] > limit else "black"
            place = (taken + 0.5, true + 0.5)
            axes.text(
                *place, str(drawn[true, taken]), ha="center", va="center", color=colour, **small or {"fontsize": 8}
            )
    axes.set_title(title)
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
