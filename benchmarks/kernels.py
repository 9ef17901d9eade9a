"""How near the kernels come to what the machine can do: ``python benchmarks/kernels.py [--models resnet18,vgg16]``.

Measures the machine first, one thread: float32 multiply-add (the product's own micro-kernel on data that stays in the
caches) and copying at several sizes. Then times every operation of a training step alone, within the plan of its model,
and prints those that carry more than 1 % of the step: the rate in GF/s for operations that count multiplications, else
in GB/s, and the share of the machine's peak. Winograd convolutions are counted by the multiplications of direct ones,
so they may pass 100 %. ``--write`` keeps the table in kernels.md.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nntrainer_py.model import Model
from nntrainer_py.tensor.kernels.matmul import matmul, matmul_scratch
from nntrainer_py.tensor.operations.record import Operation, StepState

HERE = Path(__file__).parent
MODELS = ("mlp", "lenet", "lstm", "transformer", "resnet18", "vgg16")
BATCH = {"mlp": 64, "transformer": 16}
LIMIT = 0.5  # a kernel with more than 5 % of a step should reach this share of the peak


@dataclass(frozen=True, slots=True)
class Machine:
    """Peaks of one thread: GF/s, and GB/s (read and written together) by bytes of working set."""

    gflops: float
    bandwidth: dict[int, float]

    def copy_rate(self, nbytes: int) -> float:
        """GB/s for a working set: that of the next larger size measured."""
        return next(
            (rate for size, rate in self.bandwidth.items() if nbytes <= size), list(self.bandwidth.values())[-1]
        )


def least_seconds(function: object, *arguments: object, seconds: float = 0.3) -> float:
    """Smallest time of many calls."""
    found, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        function(*arguments)  # type: ignore[operator]
        found = min(found, time.perf_counter() - start)
    return found


def measure_machine() -> Machine:
    """Peaks as they are now."""
    rows, depth, columns = 256, 256, 128
    a, b = np.ones((1, rows, depth), np.float32), np.ones((1, depth, columns), np.float32)
    c, none = np.empty((1, rows, columns), np.float32), np.empty(0, np.float32)
    scratch = np.empty(matmul_scratch(depth, columns, 1) // 4, np.float32)
    arguments = (a, 0, b, 0, none, c, np.empty(0), 0, 0, scratch, 1)
    matmul(*arguments)
    gflops = 2e-9 * rows * depth * columns / least_seconds(matmul, *arguments)
    bandwidth = {}
    for size in (1 << 18, 1 << 20, 1 << 23, 1 << 25, 1 << 28):
        source, target = np.ones(size // 8, np.float32), np.ones(size // 8, np.float32)
        bandwidth[size] = 1e-9 * size / least_seconds(np.copyto, target, source)
    return Machine(gflops, bandwidth)


def multiplications(operation: Operation) -> float:
    """Floating-point operations of products and convolutions, 0 for kinds that move data."""
    kind = operation.kind
    if hasattr(kind, "flops"):
        return float(kind.flops(operation))
    if hasattr(kind, "shapes"):
        return float(kind.shapes(operation).flops)
    if hasattr(kind, "sizes"):
        batch, m, k, n = kind.sizes(operation)
        return 2.0 * batch * m * k * n
    return 0.0


def moved(operation: Operation) -> int:
    """Bytes read and written, each value once."""
    return sum(value.nbytes for value in (*operation.reads.values(), *operation.writes.values()))


@dataclass(slots=True)
class Line:
    """One operation of a step."""

    model: str
    operation: Operation
    seconds: float
    share: float

    def text(self, machine: Machine) -> list[str]:
        flops, size = multiplications(self.operation), moved(self.operation)
        if flops:
            rate, peak, unit = 1e-9 * flops / self.seconds, machine.gflops, "GF/s"
        else:
            rate, peak, unit = 1e-9 * size / self.seconds, machine.copy_rate(size), "GB/s"
        reached = rate / peak
        note = "below the limit" if self.share > 0.05 and reached < LIMIT else ""
        shapes = ", ".join("x".join(map(str, value.shape)) for value in list(self.operation.reads.values())[:2])
        return [
            self.model, self.operation.kind.name, shapes, f"{self.seconds * 1e6:.0f}", f"{100 * self.share:.1f}",
            f"{rate:.1f} {unit}", f"{100 * reached:.0f} %", note,
        ]  # fmt: skip


def lines_of(name: str, seconds: float) -> list[Line]:
    """Smallest time of every operation, over as many steps as fit in ``seconds``."""
    batch = BATCH.get(name, 32)
    model = Model.from_ini(HERE / "models" / f"{name}.ini").compile(batch, threads=1)
    program = model.compiled.program("train", batch)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(program.inputs[0].shape).astype(np.float32)
    y = np.zeros(program.labels[0].shape, np.float32)
    y[..., 0] = 1.0
    model.train_on_batch(x, y)
    model.compiled.state.numbers[StepState.LEARNING_RATE] = 0.0
    best = np.full(len(program.calls), np.inf)
    end, done = time.perf_counter() + seconds, 0
    while done < 3 or time.perf_counter() < end:
        model.compiled.feed("train", program, [x], [y])
        best = np.minimum(best, model.compiled.engine.measure(program))
        done += 1
    total = float(best.sum())
    found = zip(program.plan.operations, best, strict=True)
    lines = [Line(name, operation, float(took) * 1e-9, float(took) / total) for operation, took in found]
    return sorted((line for line in lines if line.share > 0.01), key=lambda line: -line.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    machine = measure_machine()
    copies = ", ".join(f"{size >> 10} KiB {rate:.0f}" for size, rate in machine.bandwidth.items())
    head = ["model", "operation", "operands", "us", "% of step", "rate", "of peak", ""]
    rows = [head, ["---"] * len(head)]
    for name in given.models.split(","):
        rows += [line.text(machine) for line in lines_of(name, given.seconds)]
    text = [
        "# Kernels", "",
        f"One thread; peak {machine.gflops:.0f} GF/s; copying, GB/s by working set: {copies}.", "",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]  # fmt: skip
    print("\n".join(text))
    if given.write:
        (HERE / "kernels.md").write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
