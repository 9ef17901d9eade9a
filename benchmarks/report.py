"""Rows of results, and the page that they become."""

from __future__ import annotations

import platform
import statistics
from dataclasses import dataclass, field
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from workers import Case

#: product / fastest peer, by model; mlp by threads
GOALS = {"mlp": 0.95, "lenet": 0.6, "lstm": 0.8, "transformer": 0.8, "resnet18": 0.65, "vgg16": 0.65}
MLP_TWO_THREADS = 0.88
MEMORY_GOAL = 0.55


@dataclass(slots=True)
class Row:
    """Milliseconds of a step, one for each turn, by engine; peaks in MiB."""

    case: Case
    times: dict[str, list[float]] = field(default_factory=dict)
    least: dict[str, float] = field(default_factory=dict)  # of all turns
    peaks: dict[str, float] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    def ratios(self, peer: str) -> list[float]:
        return [mine / other for mine, other in zip(self.times["product"], self.times[peer], strict=True)]

    def ratio(self, peer: str) -> float:
        return statistics.median(self.ratios(peer))

    def least_ratio(self, peer: str) -> float:
        """Of the smallest times: what is left when other programs take the processors from time to time."""
        return self.least["product"] / self.least[peer]

    @property
    def least_of_peers(self) -> float:
        """Against the peer with the smallest step."""
        return max(self.least_ratio(peer) for peer in self.peers)

    @property
    def peers(self) -> list[str]:
        return [engine for engine in self.times if engine != "product"]

    @property
    def fastest(self) -> str | None:
        return min(self.peers, key=lambda peer: statistics.median(self.times[peer]), default=None)

    @property
    def goal(self) -> float:
        if self.case.predict:
            return 1.0
        return MLP_TWO_THREADS if self.case.model == "mlp" and self.case.threads > 1 else GOALS[self.case.model]


@dataclass(slots=True)
class Loss:
    """Losses of the first steps."""

    model: str
    product: list[float]
    torch: list[float]
    double: list[float]

    @property
    def rows(self) -> list[tuple[float, float, float, bool]]:
        """For each step: the product's difference from float64, PyTorch's, the limit, and whether it is kept."""
        found, worst = [], 0.0
        for mine, other, exact in zip(self.product, self.torch, self.double, strict=True):
            worst = max(worst, abs(other - exact))
            limit = max(1e-6, 3.0 * worst)
            found.append((abs(mine - exact), abs(other - exact), limit, abs(mine - exact) <= limit))
        return found


@dataclass(slots=True)
class Start:
    """Seconds to the first step."""

    model: str
    warm: dict[str, float]
    cold: float
    cold_peak_mb: float


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *rows)]


def _timing(rows: list[Row]) -> list[str]:
    engines = list(dict.fromkeys(peer for row in rows for peer in row.peers))
    head = ["model", "batch", "threads", "product, ms", *(f"{peer}, ms" for peer in engines)]
    head += ["product / fastest peer (range)", "of smallest steps", "goal", ""]
    made = []
    for row in rows:
        if not row.times:
            made.append(
                [row.case.model, str(row.case.samples), str(row.case.threads), f"not run: {row.missing['product']}"]
            )
            continue
        line = [row.case.model, str(row.case.samples), str(row.case.threads), _ms(row.times["product"])]
        line += [_ms(row.times[peer]) if peer in row.times else "-" for peer in engines]
        peer = row.fastest
        if peer is None:
            made.append([*line, "-", "", "", ""])
            continue
        found = row.ratios(peer)
        ratio = statistics.median(found)
        smallest = row.least_of_peers
        verdict = "reached" if max(ratio, smallest) <= row.goal else "missed"
        middle = f"**{ratio:.2f}** ({min(found):.2f}-{max(found):.2f}) {peer}"
        made.append([*line, middle, f"{smallest:.2f}", f"{row.goal:.2f}", verdict])
    return _table(head, made)


def _ms(times: list[float]) -> str:
    return f"{statistics.median(times):.3g}" if statistics.median(times) < 100 else f"{statistics.median(times):.0f}"


def _memory(rows: list[Row]) -> list[str]:
    engines = list(dict.fromkeys(engine for row in rows for engine in row.peaks if engine != "product"))
    head = [
        "model",
        "threads",
        "product, MiB",
        "planned",
        *(f"{engine}, MiB" for engine in engines),
        "product / torch",
        "goal",
        "",
    ]
    made = []
    for row in rows:
        if not row.times:
            continue
        mine = row.peaks["product"]
        line = [row.case.model, str(row.case.threads), f"{mine:.0f}", f"{row.facts['product']['planned_mb']:.1f}"]
        line += [f"{row.peaks[engine]:.0f}" if engine in row.peaks else "-" for engine in engines]
        if "torch" in row.peaks:
            ratio = mine / row.peaks["torch"]
            line += [f"**{ratio:.2f}**", f"{MEMORY_GOAL:.2f}", "reached" if ratio <= MEMORY_GOAL else "missed"]
        else:
            line += ["-", "", ""]
        made.append(line)
    return _table(head, made)


def _losses(losses: list[Loss]) -> list[str]:
    made = []
    for loss in losses:
        for step, (mine, other, limit, kept) in enumerate(loss.rows):
            made.append([
                loss.model, str(step), f"{loss.double[step]:.7f}", f"{mine:.1e}", f"{other:.1e}", f"{limit:.1e}",
                "kept" if kept else "exceeded",
            ])  # fmt: skip
    return _table(["model", "step", "float64 loss", "product", "PyTorch float32", "limit", ""], made)


def _starts(starts: list[Start]) -> list[str]:
    engines = list(dict.fromkeys(engine for start in starts for engine in start.warm))
    head = ["model", *(f"{engine}, s" for engine in engines), "product, nothing compiled, s", "its peak, MiB"]
    made = [
        [
            start.model, *(f"{start.warm[engine]:.2f}" if engine in start.warm else "-" for engine in engines),
            f"{start.cold:.1f}", f"{start.cold_peak_mb:.0f}",
        ]
        for start in starts
    ]  # fmt: skip
    return _table(head, made)


def _scaling(rows: list[Row]) -> list[str]:
    made = []
    for row in rows:
        if "torch" not in row.times:
            continue
        ratio = row.ratio("torch")
        bar = "#" * max(1, round(20 * ratio))
        case = row.case
        what = f"width x{case.width}" if case.width > 1 else f"batch {case.samples}"
        made.append([case.model, what, _ms(row.times["product"]), _ms(row.times["torch"]), f"{ratio:.2f}", f"`{bar}`"])
    return _table(["model", "", "product, ms", "torch, ms", "ratio", "product's time, 20 # = torch's"], made)


def draw_scaling(path: Path, rows: list[Row]) -> None:
    """Milliseconds of a step over the batch (left) and the width (right), solid the product, dashed PyTorch."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    FigureCanvasAgg(figure)
    models = list(dict.fromkeys(row.case.model for row in rows))
    left, right = figure.subplots(1, 2, sharey=True)
    for number, model in enumerate(models):
        mine = [row for row in rows if row.case.model == model and row.times]
        batches = sorted((row for row in mine if row.case.width == 1), key=lambda row: row.case.samples)
        usual = Case(model, 1).samples
        widths = [row for row in batches if row.case.samples == usual]
        widths += sorted((row for row in mine if row.case.width > 1), key=lambda row: row.case.width)
        for axes, some, place in ((left, batches, "samples"), (right, widths, "width")):
            for engine, style in (("product", "-o"), ("torch", "--")):
                points = [
                    (getattr(row.case, place), statistics.median(row.times[engine]))
                    for row in some
                    if engine in row.times
                ]
                if points:
                    label = model if engine == "product" else None
                    axes.plot(*zip(*points, strict=True), style, color=f"C{number}", markersize=4, label=label)
    for axes, name in ((left, "batch"), (right, "width, times the usual")):
        axes.set(xscale="log", yscale="log", xlabel=name)
        axes.grid(alpha=0.3)
    left.set_ylabel("ms a step")
    left.legend()
    figure.suptitle("Training step: product (solid) and PyTorch (dashed)")
    figure.savefig(path, dpi=110)


def _versions(rows: list[Row]) -> str:
    found: dict[str, str] = {}
    for row in rows:
        for engine, facts in row.facts.items():
            if "version" in facts:
                found[engine] = str(facts["version"])
    for package in ("numpy", "numba", "llvmlite"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return ", ".join(f"{name} {number}" for name, number in found.items())


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.processor()


def write(
    path: Path, training: list[Row], inference: list[Row], losses: list[Loss], starts: list[Start], scaling: list[Row]
) -> None:
    """The page of results."""
    turns = len(next((row.times["product"] for row in training + inference if row.times), []))
    lines = [
        "# Results", "",
        f"Written by `benchmarks/run.py` on {date.today().isoformat()}: {_processor()}, {platform.system()}, "
        f"Python {platform.python_version()}; {_versions(training + inference)}.",
        f"{turns} turns an engine, taken alternately; medians, in brackets the range of the turns. See README.md here.",
    ]  # fmt: skip
    for title, rows, text in (
        ("Training step", training, _timing), ("Peak resident memory in training", training, _memory),
        ("Inference", inference, _timing), ("Losses from equal weights", losses, _losses),
        ("Seconds to the first step", starts, _starts), ("Scaling", scaling, _scaling),
    ):  # fmt: skip
        if rows:
            lines += ["", f"## {title}", "", *text(rows)]  # type: ignore[operator]
    if scaling:
        lines += ["", "![Time of a step over batch and width](scaling.png)"]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
