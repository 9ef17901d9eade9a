"""Time the product against its peers on this machine, side by side: ``python benchmarks/run.py --peers torch,ort``.

Every engine runs in a process of its own that stays alive; the processes take turns, so that a slow moment of the
machine hits all of them. A ratio is product / peer of one turn; the tables give the median of the turns and their
range. The interpreters of the peers are named by ``--python torch=PATH --python ort=PATH`` (or BENCHMARK_PYTHON_TORCH,
BENCHMARK_PYTHON_ORT); ``ort-inference`` is another one, by default the interpreter that runs this.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from report import Loss, Row, Start, draw_scaling, write
from starts import measure_starts
from workers import MODELS, WIDTH, Case, Setup, Worker, WorkerError, command_of

PEERS = ("torch", "torch-channels-last", "torch-compile", "ort")


def measure(setup: Setup, case: Case, peers: list[str], pairs: int, seconds: float) -> Row:
    """One row: all engines of a case, taking turns."""
    row = Row(case)
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for engine in ("product", *peers):
            try:
                command = command_of(setup, engine, case)
                workers[engine] = stack.enter_context(Worker(command, setup.environment()))
            except WorkerError as error:
                row.missing[engine] = str(error)
                if engine == "product":
                    return row
        for worker in workers.values():
            worker.time(seconds / 4)
        for turn in range(pairs):
            order = list(workers) if turn % 2 == 0 else list(workers)[::-1]
            for engine in order:
                median, least = workers[engine].time(seconds)
                row.times.setdefault(engine, []).append(median)
                row.least[engine] = min(row.least.get(engine, least), least)
        row.facts = {engine: worker.facts for engine, worker in workers.items()}
    row.peaks = {engine: worker.peak_mb for engine, worker in workers.items()}
    return row


def compare_losses(setup: Setup, case: Case) -> Loss:
    """Losses of the first steps from equal weights: the product, PyTorch in float32 and in float64."""
    series = {}
    for name, engine, double in (("product", "product", False), ("torch", "torch", False), ("double", "torch", True)):
        with Worker(command_of(setup, engine, case, double=double), setup.environment()) as worker:
            series[name] = [float(value) for value in worker.facts["losses"]]
    return Loss(case.model, series["product"], series["torch"], series["double"])


def scaling_cases(models: list[str], threads: int) -> list[Case]:
    """Batch sizes at width 1, widths at the usual batch (not of the deep two: a step would take many seconds)."""
    found = []
    for model in models:
        found += [Case(model, threads, batch=batch) for batch in sorted({1, 8, 32, 128, Case(model, threads).samples})]
        found += [Case(model, threads, width=width) for width in (2, 4) if model in WIDTH]
    return found


def _worth(peer: str, model: str, predict: bool) -> bool:
    """Channels last is a layout of images; compiling pays in training only, if anywhere."""
    if peer == "torch-channels-last":
        return model in ("lenet", "resnet18", "vgg16")
    return not (predict and peer == "torch-compile")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _show(row: Row) -> None:
    case = row.case
    what = "inference" if case.predict else "training"
    if not row.times:
        say(f"{case.model} {what}: {row.missing}")
        return
    found = ", ".join(f"{peer} {row.ratio(peer):.2f} (least {row.least_ratio(peer):.2f})" for peer in row.peers)
    missing = "".join(f"; {peer}: {why}" for peer, why in row.missing.items())
    ms = statistics.median(row.times["product"])
    where = f"{case.model:12s} batch {case.samples:3d} width {case.width} {case.threads} threads {what}"
    say(f"{where}: {ms:.3f} ms; {found}{missing}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="torch,ort", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--pairs", type=int, default=5, help="turns of every engine")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of a turn")
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH")
    parser.add_argument("--parts", default="training,inference,losses,starts,scaling")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results.md")
    given = parser.parse_args()
    given.peers = [peer for peer in given.peers.split(",") if peer]
    given.models, given.parts = given.models.split(","), given.parts.split(",")
    given.threads = [int(count) for count in given.threads.split(",")]
    for peer in given.peers:
        if peer not in PEERS:
            parser.error(f"--peers: expected some of {', '.join(PEERS)}, got {peer}")
    for model in given.models:
        if model not in MODELS:
            parser.error(f"--models: expected some of {', '.join(MODELS)}, got {model}")
    return given


def _pythons(given: argparse.Namespace) -> dict[str, str]:
    found = {
        name.removeprefix("BENCHMARK_PYTHON_").lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith("BENCHMARK_PYTHON_")
    }
    return found | dict(item.split("=", 1) for item in given.python)


def main() -> int:
    given = _arguments()
    training: list[Row] = []
    inference: list[Row] = []
    scaling: list[Row] = []
    losses: list[Loss] = []
    starts: list[Start] = []
    with tempfile.TemporaryDirectory() as folder:
        setup = Setup(_pythons(given), Path(folder))
        for threads in given.threads:
            for model in given.models:
                for part, rows, predict in (("training", training, False), ("inference", inference, True)):
                    if part in given.parts:
                        peers = [peer for peer in given.peers if _worth(peer, model, predict)]
                        rows.append(measure(setup, Case(model, threads, predict), peers, given.pairs, given.seconds))
                        _show(rows[-1])
                        write(given.output, training, inference, losses, starts, scaling)
        if "losses" in given.parts:
            losses = [compare_losses(setup, Case(model, 1)) for model in given.models]
        if "starts" in given.parts:
            starts = measure_starts(setup, given.models, [peer for peer in given.peers if peer in ("torch", "ort")])
        if "scaling" in given.parts:
            for case in scaling_cases(given.models, max(given.threads)):
                peers = [peer for peer in given.peers if peer == "torch"]
                scaling.append(measure(setup, case, peers, max(3, given.pairs // 2), given.seconds / 2))
                _show(scaling[-1])
    write(given.output, training, inference, losses, starts, scaling)
    if scaling:
        draw_scaling(given.output.with_name("scaling.png"), scaling)
    return 0


if __name__ == "__main__":
    sys.exit(main())
