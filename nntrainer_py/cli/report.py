"""``nntrainer-report``: one HTML page of a run that opens offline; no script, no address, nothing beside it."""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nntrainer_py.cli import run_folder as files
from nntrainer_py.cli import svg
from nntrainer_py.cli.command import Parser, add_output_arguments, run
from nntrainer_py.cli.costs import StepCost
from nntrainer_py.cli.quantities import amount, duration, figure, shape
from nntrainer_py.errors import DataError, UsageError, counted, printable

if TYPE_CHECKING:
    from nntrainer_py.cli.confusion import Confusions
    from nntrainer_py.cli.layout import Layout
    from nntrainer_py.training.history import History

_WORST = 20  # pairs of classes that are listed when there are too many for the whole matrix
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fff; --soft: #66707f; --rule: #d9dee6; --one: #1f5fbf;
  --two: #d2691e; --three: #2e8b57; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ee; --paper: #14181f; --soft: #98a2b1; --rule: #353d49;
  --one: #7aa7ff; --two: #ffab66; --three: #6fd3a0; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1140px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
p.sub { color: var(--soft); margin: .2rem 0 1rem; overflow-wrap: anywhere; }
.tiles { display: flex; flex-wrap: wrap; gap: .8rem; } .tile { border: 1px solid var(--rule); border-radius: 6px;
  padding: .5rem .9rem; } .tile b { display: block; font-size: 1.25rem; } .tile span { color: var(--soft); }
table { border-collapse: collapse; } th, td { text-align: left; padding: .15rem .9rem .15rem 0;
  border-bottom: 1px solid var(--rule); } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; } pre { border: 1px solid var(--rule); border-radius: 6px; padding: .8rem; overflow-x: auto; }
.panels { display: flex; flex-wrap: wrap; gap: 1rem; }
svg { max-width: 100%; height: auto; } svg.panel { width: 350px; }
svg text { fill: var(--ink); font: 11px system-ui, sans-serif; } svg text.title { font-weight: 600; font-size: 13px; }
.grid { stroke: var(--rule); } .tick { fill: var(--soft) !important; } .line { fill: none; stroke-width: 1.8; }
.line.first { stroke: var(--one); } .line.second { stroke: var(--two); } .line.third { stroke: var(--three); }
.dot.first, .legend.first { fill: var(--one); } .dot.second, .legend.second { fill: var(--two); }
.dot.third, .legend.third { fill: var(--three); } .cell { stroke: var(--rule); stroke-width: .5; }
.cell.right { fill: var(--one); } .cell.wrong { fill: var(--two); } .box { stroke: var(--paper); stroke-width: .4; }
.phase { stroke: var(--soft); stroke-dasharray: 4 3; } .bound { stroke: var(--ink); stroke-dasharray: 2 3; }
.peak { fill: crimson; fill-opacity: .25; stroke: crimson; stroke-width: .8; }
"""


@dataclass(frozen=True)
class RunFiles:
    """What a run folder holds; None where a file is not there (a run that was stopped early has less)."""

    path: Path
    result: dict[str, Any]
    history: History
    layout: Layout | None
    evaluation: dict[str, Any] | None
    description: str
    cost: StepCost | None = None
    confusions: Confusions | None = None

    @classmethod
    def read(cls, path: Path) -> RunFiles:
        """Read a folder. UsageError when it is no run, DataError for a file that is damaged."""
        from nntrainer_py.cli.confusion import Confusions
        from nntrainer_py.cli.layout import Layout
        from nntrainer_py.training.history import History

        if not path.is_dir():
            raise UsageError(f"{printable(str(path))}: {'no folder' if path.exists() else 'no such folder'}")
        result = _json(path / files.RESULT)
        if result is None:
            raise UsageError(f"{printable(str(path))} is no finished run: it has no {files.RESULT}")
        layout, evaluation = _json(path / files.LAYOUT), _json(path / files.EVALUATION)
        try:
            lines = io.StringIO(_text(path / files.HISTORY_LINES))
            history = History.of_records(json.loads(line) for line in lines if line.strip())
            confusions = None if evaluation is None else Confusions.of_record(evaluation)
            if evaluation is not None:
                del evaluation["confusion"]  # lists of numbers take much room
            cost = (result.get("memory") or {}).get("cost")
            return cls(
                path, result, history, None if layout is None else Layout.of_record(layout),
                evaluation, _text(path / files.DESCRIPTION), None if cost is None else StepCost(**cost), confusions,
            )  # fmt: skip
        except (ValueError, TypeError, KeyError) as error:
            raise DataError(f"{printable(str(path))}: the files of the run cannot be read: {error}") from None


def parser(prog: str = "nntrainer-report") -> Parser:
    """The options of the command."""
    made = Parser(
        prog,
        "Make one HTML page of a run: curves, confusion matrix, layers, memory plan, settings. It opens offline.",
        f"{prog} runs/model-1",
    )
    made.add_argument("run", metavar="RUN", help="the folder of a run")
    made.add_argument("--out", metavar="FILE", help=f"where to write it; default: {files.REPORT} in the folder")
    add_output_arguments(made)
    return made


def main(argv: Sequence[str] | None = None, prog: str = "nntrainer-report") -> int:
    """Run the command; returns its exit code."""
    return run(parser(prog), report, argv)


def report(arguments: argparse.Namespace) -> int:
    """The command itself."""
    from nntrainer_py.formats.atomic import write_atomically

    found = RunFiles.read(Path(arguments.run))
    target = found.path / files.REPORT if arguments.out is None else Path(arguments.out)
    text = (part.encode("utf-8", "backslashreplace") for part in page(found))
    write_atomically(target, text, error=DataError)
    if arguments.json:
        print(json.dumps({"report": str(target)}))
    elif not arguments.quiet:
        print(f"report    {printable(str(target))}")
    return 0


def page(found: RunFiles) -> Iterator[str]:
    """The page, section by section."""
    title = printable(f"{found.result.get('model', 'model')}: {found.path.resolve().name}")
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    yield (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>\n<body>\n"
    )
    yield _head(found, title) + "\n"
    for section in (_curves, _classes, _layers, _memory, _epochs, _settings):
        text = section(found)
        if text:
            yield text + "\n"
    yield "</body></html>\n"


def _head(found: RunFiles, title: str) -> str:
    result = found.result
    best, final, test = result.get("best") or {}, result.get("final") or {}, result.get("test") or {}
    tiles: list[tuple[str, str]] = []
    for name, values in (("last epoch", final), (f"best epoch ({best.get('epoch')})", best), ("test", test)):
        shown = [figure(key, value) for key, value in values.items() if key != "epoch" and value is not None]
        if shown:
            tiles.append((shown[-1], f"{name}: {', '.join(shown[:-1])}"))
    tiles.append(
        (
            duration(result.get("seconds", 0.0)),
            f"{counted(result.get('epochs', 0), 'epoch')}, {counted(result.get('steps', 0), 'step')}",
        )
    )
    planned = ((result.get("memory") or {}).get("planned") or {}).get("total")
    if planned is not None:
        tiles.append((amount(planned), "planned memory"))
    blocks = "".join(f'<div class="tile"><b>{escape(a)}</b><span>{escape(b)}</span></div>' for a, b in tiles)
    sub = f"{result.get('started', '')} · nntrainer_py {result.get('version', '')} · ended: {result.get('ended', '')}"
    reason = result.get("reason")
    more = f" ({reason})" if reason else ""
    return f'<h1>{escape(title)}</h1><p class="sub">{escape(sub + more)}</p><div class="tiles">{blocks}</div>'


def _curves(found: RunFiles) -> str:
    from nntrainer_py.cli.pictures import panels

    if not len(found.history):
        return "<h2>Curves</h2><p>No epoch was completed.</p>"
    drawn = "".join(svg.curves(title, lines) for title, lines in panels(found.history))
    return f'<h2>Curves</h2><div class="panels" id="curves">{drawn}</div>'


def _classes(found: RunFiles) -> str:
    evaluation, confusions = found.evaluation, found.confusions
    if evaluation is None or confusions is None:
        return ""
    rows = [
        [one["name"], *(f"{100 * one[key]:.2f} %" for key in ("precision", "recall", "f1")), str(one["support"])]
        for one in evaluation["classes"]
    ]
    groups = confusions.groups()
    names = [_group_name([confusions.names[place] for place in group]) for group in groups]
    matrix = svg.confusion(names, confusions.table(groups).tolist())
    more = "A row or column is a group of neighbouring classes. " if len(groups) < len(rows) else ""
    worst = [[true, taken, str(count)] for true, taken, count in confusions.worst(_WORST)] if more else []
    return (
        f"<h2>Classes</h2><p>Validation, {counted(evaluation['samples'], 'sample')}, "
        f"{100 * evaluation['accuracy']:.2f} % right. "
        f'Rows are true classes, columns predicted ones. {more}</p><div class="wide" id="confusion">{matrix}</div>'
        + (_table(["class", "most often taken for", "samples"], worst, numbers=(2,)) if worst else "")
        + _table(["class", "precision", "recall", "F1", "samples"], rows, numbers=(1, 2, 3, 4))
    )


def _group_name(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"


def _layers(found: RunFiles) -> str:
    if found.layout is None:
        return ""
    rows = [
        [row.name, row.type, ", ".join(map(shape, row.outputs)), f"{row.parameters:,}", row.memory]
        for row in found.layout.layers
    ]
    total = f"{found.layout.parameters:,} parameters, {found.layout.trainable:,} of them trainable"
    return f"<h2>Layers</h2><p>{total}</p>" + _table(
        ["layer", "type", "output", "parameters", "memory"], rows, numbers=(3,)
    )


def _memory(found: RunFiles) -> str:
    if found.layout is None:
        return ""
    picture, memory = found.layout.picture, found.layout.memory
    drawn = svg.memory(
        picture.boxes, picture.operations, picture.arena, picture.lower_bound, picture.phases, _peak(picture.boxes)
    )
    rows = [
        ["weights", amount(memory.weights + memory.state)],
        ["optimizer state", amount(memory.optimizer)],
        ["kept gradients", amount(memory.gradients)],
        ["arena of a step", amount(memory.arena)],
        ["data buffers", amount(memory.data)],
        *([["weights of the best epoch", amount(memory.copies)]] if memory.copies else []),
        ["total", amount(memory.total)],
        ["lower bound of the arena", amount(memory.lower_bound)],
        ["arena without reuse", amount(memory.without_reuse)],
    ]
    resident = (found.result.get("memory") or {}).get("peak_resident")
    if resident is not None:
        rows.append(["most that the process had, with Python, libraries and kernels", amount(resident)])
    cost = () if found.cost is None else (f"cost in time: {found.cost}",)
    return (
        "<h2>Memory</h2><p>Operations of a step run to the right, addresses upwards; a box is a tensor.</p>"
        f'<div class="wide" id="memory">{drawn}</div>'
        + "".join(f"<p>{escape(choice)}</p>" for choice in (*found.layout.choices, *cost))
        + _table(["memory", "size"], rows, numbers=(1,))
    )


def _peak(boxes: Iterable[tuple[str, int, int, int, int]]) -> int:
    from nntrainer_py.memory.planner import Request, peak

    return peak([Request(size, first, last, name) for name, size, first, last, _ in boxes])[0]


def _epochs(found: RunFiles) -> str:
    if not len(found.history):
        return ""
    columns = found.history.columns()
    rows = [
        ["" if (value := row.columns().get(name)) is None else f"{value:.6g}" for name in columns]
        for row in found.history
    ]
    return "<h2>Epochs</h2>" + _table(columns, rows, numbers=range(len(columns)))


def _settings(found: RunFiles) -> str:
    result = found.result
    settings = {key: result.get(key) for key in ("seed", "threads", "batch_size", "seconds_to_first_step")}
    settings |= dict(result.get("environment") or {})
    rows = [[key.replace("_", " "), str(value)] for key, value in settings.items() if value is not None]
    description = f"<h2>Description</h2><pre>{escape(found.description)}</pre>" if found.description else ""
    return "<h2>Settings and environment</h2>" + _table(["setting", "value"], rows) + description


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Iterable[int] = ()) -> str:
    right = set(numbers)

    def line(cells: Sequence[str], tag: str) -> str:
        kinds = (' class="n"' if place in right else "" for place in range(len(cells)))
        made = (f"<{tag}{kind}>{escape(cell)}</{tag}>" for cell, kind in zip(cells, kinds, strict=True))
        return f"<tr>{''.join(made)}</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f'<div class="wide"><table><thead>{line(head, "th")}</thead><tbody>{body}</tbody></table></div>'


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise DataError(f"{printable(str(path))}: {error.strerror or error}") from None


def _json(path: Path) -> dict[str, Any] | None:
    text = _text(path)
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{printable(str(path))}: {error}") from None
    if not isinstance(found, Mapping):
        raise DataError(f"{printable(str(path))}: expected an object")
    return dict(found)
