"""A picture of a plan: time to the right, address upwards, one box for each buffer, the peak marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING

from nntrainer_py.errors import MissingExtraError, UsageError, quoted
from nntrainer_py.memory.planner import Placement, Request, peak

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))
_NAME_LENGTH = 40  # characters of a name in the list beside the picture


@dataclass(frozen=True, slots=True)
class _Box:
    """A buffer in the picture: ``left`` and ``right`` in operations, ``bottom`` and ``top`` in units of memory."""

    request: Request
    left: float
    bottom: float
    right: float
    top: float

    @property
    def centre(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2


def draw(
    requests: Sequence[Request],
    placement: Placement,
    path: str | PathLike[str],
    *,
    title: str = "",
    phases: Sequence[tuple[str, int]] = (),
    labels: int = 20,
) -> None:
    """Draw the arena into a file whose ending (png, svg, pdf) chooses the format.

    ``phases`` are names with the operation index at which each begins, e.g. ``[("forward", 0), ("backward", 40)]``. The
    ``labels`` largest buffers are numbered and listed with size and life; a name that fits stands in its box too.
    Buffers of one layer (the name up to a slash or a colon) share a colour.

    Raises `MissingExtraError` without matplotlib, and `UsageError` for a file that cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError("plot", "drawing the memory plan") from error
    if len(requests) != len(placement.offsets):
        raise ValueError(f"{len(requests)} requests, but {len(placement.offsets)} offsets")

    figure = Figure(figsize=(15, 8), dpi=120, layout="constrained")
    plot, listing = figure.subplots(1, 2, width_ratios=(3.2, 1))
    unit, scale = _unit(placement.arena)
    boxes = [
        _Box(request, request.first, offset / scale, request.last + 1, (offset + request.size) / scale)
        for request, offset in zip(requests, placement.offsets, strict=True)
        if request.size
    ]
    _axes(plot, placement, unit, scale, boxes)
    _boxes(plot, boxes)
    _phases(plot, phases)
    moment, alive = peak(requests)
    _peak(plot, moment, f"peak: {_amount(alive)} alive at operation {moment}")
    largest = sorted(boxes, key=lambda box: -box.request.size)[: max(labels, 0)]
    figure.suptitle(_title(title, placement), parse_math=False)
    _list(listing, largest, moment)
    figure.draw_without_rendering()  # settles the layout, so that texts can be measured against their boxes
    _label(plot, largest)
    _save(figure, path)


def _save(figure: Figure, path: str | PathLike[str]) -> None:
    ending = Path(fspath(path)).suffix.lstrip(".").lower()
    known = figure.canvas.get_supported_filetypes()
    if ending not in known:
        raise UsageError(
            f"cannot draw {quoted(fspath(path))}: expected a file ending in one of {', '.join(sorted(known))}"
        )
    try:
        figure.savefig(path, format=ending)
    except OSError as error:
        raise UsageError(f"cannot write {quoted(fspath(path))}: {error.strerror or error}") from error


def _unit(size: int) -> tuple[str, int]:
    """The largest unit of which ``size`` is at least one."""
    return next(((name, scale) for name, scale in _UNITS if size >= scale), _UNITS[-1])


def _amount(size: int) -> str:
    unit, scale = _unit(size)
    return f"{size / scale:.4g} {unit}"


def _title(title: str, placement: Placement) -> str:
    figures = (
        f"arena {_amount(placement.arena)}, lower bound {_amount(placement.lower_bound)}, "
        f"ratio {placement.ratio:.4f} ({placement.method})"
    )
    return f"{title}\n{figures}" if title else figures


def _axes(plot: Axes, placement: Placement, unit: str, scale: int, boxes: Sequence[_Box]) -> None:
    """Limits and names of the axes, and the arena's top and lower bound as lines across."""
    end = max((box.right for box in boxes), default=1.0)
    plot.set_xlim(min((box.left for box in boxes), default=0.0), end)
    plot.set_ylim(0, max(placement.arena / scale * 1.06, 1e-9))
    plot.set_xlabel("operation")
    plot.set_ylabel(f"address ({unit})")
    plot.axhline(placement.arena / scale, color="black", linewidth=1.2)
    if placement.lower_bound < placement.arena:
        plot.axhline(placement.lower_bound / scale, color="black", linewidth=0.8, linestyle=":")


def _boxes(plot: Axes, boxes: Sequence[_Box]) -> None:
    """All boxes as one collection: thousands of separate patches would take seconds."""
    from matplotlib import colormaps
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    palette = colormaps["tab20"]
    numbers: dict[str, int] = {}
    for box in boxes:
        numbers.setdefault(_layer(box.request.name), len(numbers))
    patches = [Rectangle((b.left, b.bottom), b.right - b.left, b.top - b.bottom) for b in boxes]
    colours = [palette(numbers[_layer(box.request.name)] % palette.N) for box in boxes]
    plot.add_collection(
        PatchCollection(patches, facecolor=colours, edgecolor="white", linewidth=0.4, alpha=0.8), autolim=False
    )


def _layer(name: str) -> str:
    return name.split(":")[0].split("/")[0]


def _phases(plot: Axes, phases: Sequence[tuple[str, int]]) -> None:
    for name, start in phases:
        plot.axvline(start, color="gray", linewidth=0.8, linestyle="--")
        place = plot.get_xaxis_transform()  # operations across, a share of the height upwards
        plot.text(start, 0.985, f" {name}", transform=place, va="top", fontsize=8, color="gray", parse_math=False)


def _peak(plot: Axes, moment: int, text: str) -> None:
    """Mark the peak's operation; the edge keeps it visible where an operation is narrower than a pixel."""
    plot.axvspan(
        moment, moment + 1, facecolor=(0.86, 0.08, 0.24, 0.15), edgecolor="crimson", linewidth=0.8, zorder=3, label=text
    )
    plot.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, fontsize=9, borderaxespad=0)


def _label(plot: Axes, boxes: Sequence[_Box]) -> None:
    """Number each box; add its name where that fits, upright or turned; point at boxes too small for their number."""
    for number, box in enumerate(boxes, 1):
        (left, bottom), (right, top) = plot.transData.transform([(box.left, box.bottom), (box.right, box.top)])
        for text, angle in (
            (f"{number} {box.request.name}", 0),
            (f"{number} {box.request.name}", 90),
            (f"{number}", 0),
        ):
            label = plot.text(
                *box.centre, text, rotation=angle, ha="center", va="center", fontsize=7, zorder=4, parse_math=False
            )
            extent = label.get_window_extent()
            if extent.width <= right - left - 2 and extent.height <= top - bottom - 1:
                break
            label.remove()
        else:
            _point(plot, str(number), box)


def _point(plot: Axes, text: str, box: _Box) -> None:
    plot.annotate(
        text,
        box.centre,
        (9, 6),
        textcoords="offset points",
        fontsize=7,
        zorder=5,
        arrowprops={"arrowstyle": "-", "linewidth": 0.6},
        bbox={"boxstyle": "round,pad=0.1", "facecolor": "white", "linewidth": 0},
    )


def _list(listing: Axes, boxes: Sequence[_Box], moment: int) -> None:
    """Number, size, life and name of the labelled buffers; those alive at the peak in red."""
    listing.set_axis_off()
    listing.set_title("largest buffers (red: alive at the peak)", fontsize=9, loc="left")
    spacing = 1 / (max(len(boxes), 20) + 1)
    for number, box in enumerate(boxes, 1):
        request = box.request
        name = request.name if len(request.name) <= _NAME_LENGTH else f"{request.name[: _NAME_LENGTH - 3]}..."
        listing.text(
            0,
            1 - number * spacing,
            f"{number:>2} {_amount(request.size):>8}  {request.first}-{request.last}  {name}",
            fontsize=7,
            family="monospace",
            va="center",
            color="crimson" if request.first <= moment <= request.last else "black",
            parse_math=False,
        )
