"""Planned and resident memory of every model, written as a table: ``python benchmarks/memory.py``.

``--peers torch --python torch=PATH`` adds the peak of PyTorch's process on the same model (or BENCHMARK_PYTHON_TORCH
names the interpreter). ``--parts plans`` needs no measurement and takes seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent))
from resident import described
from workers import MODELS as PEER_MODELS
from workers import Case, Setup, Worker, WorkerError, command_of

from nntrainer_py.errors import PlanError
from nntrainer_py.memory.nntrainer_planners import optimized_v1, optimized_v3
from nntrainer_py.memory.planner import aligned
from nntrainer_py.training.engine import persistent

HERE = Path(__file__).resolve().parent
MIB = 1 << 20
DEFAULT = "no budget (the default)"
TARGETS = ((260, False), (200, None))  # MiB for ResNet-18 at 128; with and without swapping


@dataclass(slots=True)
class Row:
    """A model, a batch, an optimizer; NNTrainer's recorded figures in MiB: tensors + weights, process peak."""

    model: str
    batch: int
    optimizer: str
    recorded: tuple[float, float] | None = None
    recorded_peak: float | None = None
    plan: dict[str, Any] = field(default_factory=dict)
    run: dict[str, Any] = field(default_factory=dict)
    fresh: dict[str, Any] = field(default_factory=dict)
    peers: dict[str, float] = field(default_factory=dict)


ROWS = (
    Row("mlp", 64, "sgd", (1.089, 0.897), 15),
    Row("mlp", 64, "adam", (1.089, 2.691), 17),
    Row("lenet", 32, "adam", (1.055, 0.045), 14),
    Row("lstm", 32, "sgd", (6.395, 0.384), 20),
    Row("lstm", 32, "adam"),
    Row("transformer", 16, "sgd", (2.692, 0.222), 17),
    Row("transformer", 16, "adam"),
    Row("vgg_small", 32, "adam", (11.08, 11.08), 40),
    Row("vgg", 32, "adam", (51.4, 170.2), 246),
    Row("resnet18_adam", 32, "adam", (182.1, 128.4), 343),
    Row("resnet18_adam", 128, "adam", (701.0, 128.4)),
    Row("vgg16", 32, "sgd"),
    Row("resnet18", 32, "sgd"),
    Row("resnet18", 128, "sgd"),
)


def path_of(model: str) -> str:
    return str(HERE / "models" / f"{model}.ini")


def measure_plan(row: Row, threads: int) -> None:
    """Everything that is known before a byte is taken."""
    model = described(path_of(row.model), row.optimizer).compile(row.batch, threads=threads)
    made = model.compiled.memory("train", row.batch)
    plan, placement = made.plan, made.plan.placement
    row.plan = {
        "without reuse": plan.without_reuse(),
        "bound": placement.lower_bound,
        "arena": placement.arena,
        "ratio": placement.ratio,
        "kept": sum(aligned(value.nbytes) for value in persistent(model.compiled.lowered("train", row.batch))),
        "v1": optimized_v1(plan.requests).arena,
        "v3": optimized_v3(plan.requests).arena,
        "predicted": made.report.predicted_slowdown,
        "order": made.report.order,
        "recomputed": len(made.report.taken("recompute")),
    }


def run_resident(model: str, batch: int, threads: int, *extra: str) -> dict[str, Any]:
    """One measured process."""
    command = [sys.executable, str(HERE / "resident.py"), path_of(model), "--batch", str(batch)]
    command += ["--threads", str(threads), *extra]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])}
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if answer.returncode:
        raise RuntimeError(f"{model}: {answer.stderr.strip().splitlines()[-1:]}")
    found: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
    return found


def measure_peers(row: Row, setup: Setup, peers: list[str], threads: int) -> None:
    """Peak of a peer's whole process; it knows the six models of the speed table with the optimizers of their files."""
    own = {"mlp": "sgd", "resnet18": "sgd", "vgg16": "sgd"}.get(row.model, "adam")
    if row.model not in PEER_MODELS or row.optimizer != own:
        return
    for peer in peers:
        try:
            with Worker(
                command_of(setup, peer, Case(row.model, threads, batch=row.batch)), setup.environment()
            ) as worker:
                worker.time(0.1)
            row.peers[peer] = worker.peak_mb
        except (WorkerError, subprocess.CalledProcessError) as error:
            print(f"{row.model}: {peer}: {error}", file=sys.stderr)


def smallest_budget(model: str, batch: int, threads: int, swap: bool | None) -> int:
    """The smallest budget that the compiler finds plans for, training and inference; data buffers not counted."""
    made = described(path_of(model), "")
    try:
        made.compile(batch, threads=threads, memory_budget=1, data_buffers=0, swap=swap)
    except PlanError as error:
        return error.smallest
    raise AssertionError("a plan of one byte")


def measure_budgets(threads: int, steps: int, rounds: int, folder: str) -> list[tuple[str, dict[str, Any]]]:
    """ResNet-18 at 128 under budgets: (what, figures)."""
    common = ("--steps", str(steps), "--set", "data_buffers=0")
    found = [
        ("no budget, nothing recomputed", ("--set", "recompute=False")),
        (DEFAULT, ()),
    ]
    for budget, swap in TARGETS:
        how = "recomputation only" if swap is False else "recomputation and swapping"
        extra = ("--set", f"memory_budget={budget * MIB}", "--set", f"swap={swap}", "--set", f"swap_folder={folder}")
        found.append((f"{budget} MiB, {how}", extra))
    for swap, how in ((False, "recomputation only"), (None, "recomputation and swapping")):
        least = smallest_budget("resnet18", 128, threads, swap)
        extra = ("--set", f"memory_budget={least}", "--set", f"swap={swap}", "--set", f"swap_folder={folder}")
        found.append((f"smallest, {how}: {least / MIB:.1f} MiB", extra))
    runs: dict[str, list[dict[str, Any]]] = {what: [] for what, _ in found}
    for _ in range(rounds):  # in turns, so that a slow moment of the machine does not fall on one of them
        for what, extra in found:
            runs[what].append(run_resident("resnet18", 128, threads, *common, *extra))
            print(what, json.dumps(runs[what][-1]), file=sys.stderr, flush=True)
    base = [run["milliseconds"] for run in runs[DEFAULT]]
    rows = []
    for what, done in runs.items():
        times = [run["milliseconds"] for run in done]
        ratios = sorted(mine / theirs for mine, theirs in zip(times, base, strict=True))
        figures = {
            "milliseconds": statistics.median(times),
            "ratio": statistics.median(ratios),
            "least": ratios[0],
            "most": ratios[-1],
            "grown": max(run["grown"] for run in done),
            "measured": statistics.median(run["measured"] for run in done),
        }
        rows.append((what, done[-1] | figures))
    return rows


def _mib(size: float | None, digits: int = 2) -> str:
    return "" if size is None else f"{size / MIB:.{digits}f}"


def plan_table(rows: list[Row]) -> list[str]:
    """Planned memory and NNTrainer's."""
    lines = [
        "| model, batch, optimizer | without reuse | lower bound | arena | ratio | v1 | v3 | weights, state | sum "
        "| NNTrainer's plan | sum |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        p = row.plan
        theirs, total = ("", "") if row.recorded is None else (
            f"{row.recorded[0]:g} + {row.recorded[1]:g}", f"{sum(row.recorded):.2f}"
        )  # fmt: skip
        lines.append(
            f"| {row.model}, {row.batch}, {row.optimizer} | {_mib(p['without reuse'])} | {_mib(p['bound'])} | "
            f"{_mib(p['arena'])} | {p['ratio']:.4f} | {_mib(p['v1'])} | {_mib(p['v3'])} | {_mib(p['kept'])} | "
            f"{_mib(p['arena'] + p['kept'])} | {theirs} | {total} |"
        )
    return lines


def run_table(rows: list[Row], peers: list[str]) -> list[str]:
    """Measured memory."""
    head = ["model, batch, optimizer", "planned", "grown", "allowed", "process peak", "NNTrainer's process"]
    head += [f"{peer}'s process" for peer in peers]
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    for row in rows:
        allowed = 1.1 * row.run["planned"] + 8 * MIB
        cells = [
            f"{row.model}, {row.batch}, {row.optimizer}", _mib(row.run["planned"]), _mib(row.run["grown"]),
            _mib(allowed), _mib(row.fresh["peak"], 0),
            "" if row.recorded_peak is None else f"{row.recorded_peak:g}",
            *("" if peer not in row.peers else f"{row.peers[peer]:.0f}" for peer in peers),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def budget_table(rows: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """ResNet-18 at 128 under budgets."""
    lines = [
        "| ResNet-18, 3x32x32, batch 128, SGD | planned | grown | ms a step | of the default | predicted | measured "
        "| to file, MiB a step | from file |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for what, found in rows:
        ratio = f"{found['ratio']:.2f} ({found['least']:.2f} to {found['most']:.2f})"
        cells = [
            what, _mib(found["planned"], 1), _mib(found["grown"], 1), f"{found['milliseconds']:.0f}", ratio,
            f"{found['predicted']:.2f}", f"{found['measured']:.2f}", _mib(found["written"], 0), _mib(found["read"], 0),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines


TEXT = """# Memory

Written by `python benchmarks/memory.py`. MiB throughout, {threads} thread(s). One configuration for everything: the
default of the speed table.

## Planned, known before a byte is taken

*Without reuse*: every tensor and scratch region in memory of its own, after in-place operations. *Lower bound*: the
most that is alive at one moment, which no placement can beat. *v1* and *v3*: NNTrainer's planners on the same requests.
*NNTrainer's plan*: tensors + weights of NNTrainer (commit 65dccdec8) on the same description, as recorded.
"""

RESIDENT = """
## Resident

*Grown*: peak of resident memory above what was resident with the kernels loaded and nothing else taken; *allowed* is
the plan plus 10 % plus 8 MiB. *Process peak* is that of a fresh process that trains three steps, interpreter and
compiler of the kernels included.
"""

BUDGETS = """
## Under a budget

*Predicted* and *measured*: time of a step over that without recomputation and swapping, the first by the estimates
of the operations, the second by a clock around each of them. The bytes of the swap file mostly stay in the system's
page cache on this machine; on a slow card they would not. *Of the default*: the runs take turns; the
median of the turns' ratios, and their range.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="")
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5, help="of each run under a budget")
    parser.add_argument("--rounds", type=int, default=3, help="turns of the runs under a budget")
    parser.add_argument("--models", default="", help="only these, by name")
    parser.add_argument("--parts", default="plans,resident,budgets")
    parser.add_argument("--output", type=Path, default=HERE / "memory.md")
    given = parser.parse_args()
    parts, wanted = given.parts.split(","), [name for name in given.models.split(",") if name]
    peers = [peer for peer in given.peers.split(",") if peer]
    pythons = dict(item.split("=", 1) for item in given.python)
    for peer in peers:
        named = os.environ.get(f"BENCHMARK_PYTHON_{peer.upper().replace('-', '_')}")
        if named and peer not in pythons:
            pythons[peer] = named
    rows = [row for row in ROWS if not wanted or row.model in wanted]
    text = TEXT.format(threads=given.threads)
    with tempfile.TemporaryDirectory() as folder:
        setup = Setup(pythons, Path(folder))
        for row in rows:
            measure_plan(row, given.threads)
        text += "\n" + "\n".join(plan_table(rows)) + "\n"
        if "resident" in parts:
            for row in rows:
                extra = ("--optimizer", row.optimizer)
                row.run = run_resident(row.model, row.batch, given.threads, *extra)
                row.fresh = run_resident(row.model, row.batch, given.threads, *extra, "--fresh")
                measure_peers(row, setup, peers, given.threads)
                print(row.model, row.batch, row.optimizer, json.dumps(row.run), row.peers, file=sys.stderr, flush=True)
            text += RESIDENT + "\n" + "\n".join(run_table(rows, peers)) + "\n"
        if "budgets" in parts:
            text += (
                BUDGETS
                + "\n"
                + "\n".join(budget_table(measure_budgets(given.threads, given.steps, given.rounds, folder)))
                + "\n"
            )
    given.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
