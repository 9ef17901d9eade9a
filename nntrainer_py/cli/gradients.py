"""``nntrainer-inspect --check-gradients``: what each layer passes back, compared with differences."""

from __future__ import annotations

import argparse
import json
import math
import sys
from typing import TYPE_CHECKING, Any

from nntrainer_py.cli.command import number, say, tell_of_compiling
from nntrainer_py.cli.quantities import table
from nntrainer_py.errors import UsageError, counted, printable

if TYPE_CHECKING:
    from nntrainer_py.model import Model
    from nntrainer_py.training.gradient_check import GradientReport, TensorCheck

#: exit code of the command when a tensor fails
WRONG = 5
_CLEAR = "\r\x1b[K"
_MOST_SAMPLES = 1 << 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The check and what it takes."""
    parser.add_argument(
        "--check-gradients",
        action="store_true",
        help="instead of all that, compare derivatives and gradients of every layer with differences of its forward "
        "pass, on the first samples of the training data",
    )
    parser.add_argument(
        "--layer", dest="layers", action="append", default=[], metavar="NAME",
        help="with --check-gradients: only this layer; may be given several times",
    )  # fmt: skip
    parser.add_argument(
        "--samples", type=number(1, _MOST_SAMPLES), metavar="N", help="with --check-gradients: samples (default: 3)"
    )


def require_fitting(arguments: argparse.Namespace) -> None:
    """UsageError for an option that has no effect beside the others."""
    if arguments.check_gradients:
        why = "--check-gradients shows no plan"
        idle = {"--plot": arguments.plot, "--planners": arguments.planners, "--inference": arguments.inference}
    else:
        why = "it belongs to --check-gradients"
        idle = {"--layer": arguments.layers, "--samples": arguments.samples}
    for option, value in idle.items():
        if value:
            raise UsageError(f"{option} has no effect: {why}")


def check(model: Model, arguments: argparse.Namespace) -> int:
    """Run the check and show it; returns the exit code."""
    from nntrainer_py.training.gradient_check import check_gradients

    tell_of_compiling(arguments.quiet or arguments.json)
    given = {} if arguments.samples is None else {"samples": arguments.samples}
    shown = not arguments.quiet and sys.stderr.isatty()
    try:
        report = check_gradients(model, layers=arguments.layers, progress=_tell if shown else None, **given)
    finally:
        if shown:
            print(_CLEAR, end="", file=sys.stderr, flush=True)
    if arguments.json:
        print(json.dumps(_record(report)))
    elif arguments.quiet:
        for row in report.failed:
            say(printable(str(row)))
    else:
        _show(report)
    return 0 if report.ok else WRONG


def _tell(done: int, total: int, name: str) -> None:
    """One line that is written over."""
    print(f"{_CLEAR}layer {done} of {total}: {printable(name)[:60]}", end="", file=sys.stderr, flush=True)


def _show(report: GradientReport) -> None:
    rows = [
        [
            printable(row.layer),
            row.keyword,
            printable(row.tensor),
            _figure(row.error),
            _figure(row.uncertainty),
            _figure(report.allowed(row)),
            _told(row),
        ]
        for row in report
    ]
    print(table(["layer", "type", "tensor", "error", "known to", "allowed", ""], rows, right=(3, 4, 5)))
    print(f"\n{report.summary()} ({counted(report.samples, 'sample')}, tolerance {report.tolerance:g})")
    for row in report:
        if row.element is not None or row.place:
            print(f"\n[{printable(row.layer)}] {printable(row.tensor)}: {row.verdict.value}")
            for line in (row.place, row.element, row.reason):
                if line:
                    print(f"  {printable(str(line))}")
    for note in report.notes:
        print(f"\nnote: {printable(note)}")


def _told(row: TensorCheck) -> str:
    """The verdict, and why, where no paragraph of its own tells it."""
    if row.reason and row.element is None and not row.place:
        return f"{row.verdict.value}: {printable(row.reason)}"
    return row.verdict.value


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.1e}"


def _record(report: GradientReport) -> dict[str, Any]:
    return {
        "ok": report.ok,
        "samples": report.samples,
        "tolerance": report.tolerance,
        "tensors": [_tensor(row, report.allowed(row)) for row in report],
        "notes": list(report.notes),
    }


def _tensor(row: TensorCheck, allowed: float | None) -> dict[str, Any]:
    found: dict[str, Any] = {
        "layer": row.layer,
        "type": row.keyword,
        "tensor": row.tensor,
        "verdict": row.verdict.value,
        "error": _finite(row.error),
        "uncertainty": _finite(row.uncertainty),
        "allowed": _finite(allowed),
    }
    if row.element is not None:
        expected, made = _finite(row.element.expected), _finite(row.element.found)
        found["element"] = {"index": list(row.element.index), "expected": expected, "found": made}
    return found | {name: text for name, text in (("place", row.place), ("reason", row.reason)) if text}


def _finite(value: float | None) -> float | None:
    """JSON has no word for infinity and NaN."""
    return value if value is not None and math.isfinite(value) else None
