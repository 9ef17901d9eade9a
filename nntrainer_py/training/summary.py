"""The layers of a model as a table of text."""

from __future__ import annotations

from nntrainer_py.graph.lower import Lowered

_HEADER = ("name", "type", "output", "parameters")


def layer_table(lowered: Lowered) -> str:
    """Name, type, output shapes (channel:height:width) and parameters of each layer, and the sum of the latter.

    A shared weight counts once, in the layer that has it first; running statistics are no parameters.
    """
    seen: set[str] = set()
    rows: list[tuple[str, ...]] = []
    total = 0
    for row in lowered.table:
        own = {w.key: w.dim.size for w in row.weights if w.trainable and w.key not in seen}
        seen.update(own)
        total += sum(own.values())
        shapes = " ".join(f"{dim.channel}:{dim.height}:{dim.width}" for dim in row.outputs)
        rows.append((row.name, row.keyword, shapes, f"{sum(own.values()):,}"))
    rows.append(("total", "", "", f"{total:,}"))
    widths = [max(len(line[column]) for line in (_HEADER, *rows)) for column in range(len(_HEADER))]
    return "\n".join(_line(line, widths) for line in (_HEADER, *rows))


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    texts = [cell.ljust(width) for cell, width in zip(cells[:-1], widths[:-1], strict=True)]
    return "  ".join([*texts, cells[-1].rjust(widths[-1])])
