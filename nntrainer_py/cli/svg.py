"""Drawings of a report as SVG text: curves, a confusion matrix, a memory plan. No library, no script, no address."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from nntrainer_py.cli.quantities import amount

if TYPE_CHECKING:
    from nntrainer_py.cli.pictures import Points

#: of the lines of a panel; in the page's style sheet
_LINES = ("first", "second", "third")
_BOXES = 6000  # drawn at most; a browser slows down with more


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round numbers from ``low`` to ``high``, both inside."""
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [number * step for number in range(first, last + 1)]


def curves(title: str, lines: Sequence[tuple[str, Points]], width: int = 380, height: int = 240) -> str:
    """One panel: a line for each (label, points), epochs across."""
    import numpy as np

    points = np.concatenate([np.empty((0, 2)), *(line for _, line in lines)])
    if not len(points):
        return (
            f'<svg class="panel" viewBox="0 0 {width} {height}"><text x="20" y="30">{escape(title)}: none</text></svg>'
        )
    left, right, top, bottom = 56, 12, 28, 30
    low_x, low_y = map(float, points.min(axis=0))
    high_x, high_y = map(float, points.max(axis=0))
    if low_y == high_y:
        low_y, high_y = low_y - (abs(low_y) * 0.1 or 1), high_y + (abs(high_y) * 0.1 or 1)
    if low_x == high_x:
        low_x, high_x = low_x - 1, high_x + 1

    def across(x: float) -> float:
        return left + (x - low_x) / (high_x - low_x) * (width - left - right)

    def up(y: float) -> float:
        return height - bottom - (y - low_y) / (high_y - low_y) * (height - top - bottom)

    parts = [f'<svg class="panel" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(title)}">']
    parts.append(f'<text class="title" x="{left}" y="16">{escape(title)}</text>')
    for y in ticks(low_y, high_y, 4):
        parts.append(f'<line class="grid" x1="{left}" x2="{width - right}" y1="{up(y):.1f}" y2="{up(y):.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{y:.4g}</text>')
    for x in (x for x in ticks(low_x, high_x, 6) if x == round(x)):
        parts.append(
            f'<text class="tick" x="{across(x):.1f}" y="{height - bottom + 16}" text-anchor="middle">{x:g}</text>'
        )
    for number, (label, line) in enumerate(lines):
        style = _LINES[number % len(_LINES)]
        path = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in line)
        parts.append(f'<polyline class="line {style}" points="{path}"/>')
        if len(line) <= 60:
            parts += [
                f'<circle class="dot {style}" cx="{across(x):.1f}" cy="{up(y):.1f}" r="2.5">'
                f"<title>{escape(label)}, epoch {x:g}: {y:.6g}</title></circle>"
                for x, y in line
            ]
        if len(lines) > 1:
            place = width - right - 78 * (len(lines) - number)
            parts.append(f'<text class="legend {style}" x="{place}" y="16">{escape(label)}</text>')
    return "".join([*parts, "</svg>"])


def confusion(names: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """The matrix, rows the true class and columns the predicted one, shaded within each row."""
    count = len(names)
    cell = max(6, min(34, 1000 // max(count, 1)))
    letters = max(map(len, names), default=1)
    margin = min(12 + 7 * letters, 160)
    size = count * cell
    parts = [
        f'<svg class="matrix" viewBox="0 0 {margin + size + 10} {margin + size + 10}" '
        f'width="{min(margin + size + 10, 1100)}" role="img" aria-label="confusion matrix">'
    ]
    for number, name in enumerate(names):
        middle = margin + number * cell + cell / 2
        if cell >= 10:
            beside = f'x="{margin - 6}" y="{middle + 4:.1f}" text-anchor="end"'
            above = f'transform="translate({middle + 4:.1f},{margin - 6}) rotate(-90)"'
            parts += [f'<text class="tick" {place}>{escape(_cut(name))}</text>' for place in (beside, above)]
    for true, row in enumerate(counts):
        whole = max(sum(row), 1)
        for taken, value in enumerate(row):
            x, y = margin + taken * cell, margin + true * cell
            share = value / whole
            style = "right" if true == taken else "wrong"
            parts.append(
                f'<rect class="cell {style}" x="{x}" y="{y}" width="{cell}" height="{cell}" '
                f'fill-opacity="{share:.3f}"><title>{escape(names[true])} taken for {escape(names[taken])}: {value}'
                "</title></rect>"
            )
            if value and cell >= 18:
                place = f'x="{x + cell / 2}" y="{y + cell / 2 + 4}" text-anchor="middle"'
                ink = ' style="fill: #fff"' if share > 0.5 else ""
                parts.append(f'<text class="count" {place}{ink}>{value}</text>')
    return "".join([*parts, "</svg>"])


def memory(
    boxes: Sequence[tuple[str, int, int, int, int]],
    operations: int,
    arena: int,
    lower_bound: int,
    phases: Sequence[tuple[str, int]],
    peak: int,
    width: int = 1100,
    height: int = 480,
) -> str:
    """The arena: operations to the right, addresses upwards, a box a tensor, the peak marked."""
    left, right, top, bottom = 70, 10, 24, 34
    end = max([operations, *(last + 1 for _, _, _, last, _ in boxes)], default=1)
    scale_x = (width - left - right) / max(end, 1)
    scale_y = (height - top - bottom) / max(arena, 1)
    floor = height - bottom
    parts = [f'<svg class="plan" viewBox="0 0 {width} {height}" role="img" aria-label="memory plan">']
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = floor - share * arena * scale_y
        parts.append(f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(
            f'<text class="tick" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{amount(share * arena)}</text>'
        )
    layers: dict[str, int] = {}
    drawn = sorted((box for box in boxes if box[1]), key=lambda box: -box[1] * (box[3] - box[2] + 1))[:_BOXES]
    for name, size, first, last, address in drawn:
        layer = layers.setdefault(name.split(":")[0].split("/")[0], len(layers))
        hue = layer * 137.508 % 360  # the golden angle keeps neighbours apart
        x, w = left + first * scale_x, max((last + 1 - first) * scale_x, 0.4)
        y, h = floor - (address + size) * scale_y, max(size * scale_y, 0.4)
        parts.append(
            f'<rect class="box" x="{x:.2f}" y="{y:.2f}" width="{w:.2f}" height="{h:.2f}" '
            f'fill="hsl({hue:.0f},55%,60%)"><title>{escape(name)}: {amount(size)}, operations {first} to {last}, '
            f"address {address}</title></rect>"
        )
    for name, start in phases:
        x = left + start * scale_x
        parts.append(f'<line class="phase" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{floor}"/>')
        parts.append(f'<text class="tick" x="{x + 4:.1f}" y="{floor + 26}">{escape(name)}</text>')
    x = left + peak * scale_x
    parts.append(
        f'<rect class="peak" x="{x:.1f}" y="{top}" width="{max(scale_x, 1):.1f}" height="{floor - top}">'
        f"<title>peak at operation {peak}</title></rect>"
    )
    y = floor - lower_bound * scale_y
    parts.append(f'<line class="bound" x1="{left}" x2="{width - right}" y1="{y:.1f}" y2="{y:.1f}"/>')
    parts.append(
        f'<text class="tick" x="{left}" y="16">arena {amount(arena)}, lower bound {amount(lower_bound)}, '
        f"peak at operation {peak} of {operations}</text>"
    )
    for x in ticks(0, end, 8):
        parts.append(
            f'<text class="tick" x="{left + x * scale_x:.1f}" y="{floor + 13}" text-anchor="middle">{x:g}</text>'
        )
    return "".join([*parts, "</svg>"])


def _cut(name: str) -> str:
    return name if len(name) <= 20 else f"{name[:17]}..."
