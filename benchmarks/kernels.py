"""What each operation of the benchmark models reaches of what this machine can do.

    python benchmarks/kernels.py [--models resnet18,mlp] [--threads 1] [--rounds 10] [--share 1]

Multiplications are compared with the arithmetic peak, measured on products that stay in the caches (a
Winograd convolution counts as the direct one it replaces, so it may pass 100 %). Everything else is compared with the
speed at which this machine copies as many bytes. Times are the shortest of several rounds of single operations.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from nntrainer_py.model import Model
from nntrainer_py.tensor.kernels import matmul as products
from nntrainer_py.tensor.kernels import threads as pool

HERE = Path(__file__).resolve().parent
MODELS = {"mlp": 64, "lenet": 32, "lstm": 32, "transformer": 16, "resnet18": 32, "vgg16": 32}


def peak(threads: int) -> float:
    """Billions of multiplications and additions a second: the best of products whose operands stay in the caches."""
    best = 0.0
    for m, k, n in ((192, 256, 128), (512, 64, 256), (256, 256, 64)):
        a, b = np.ones((1, m, k), np.float32), np.ones((1, k, n * threads), np.float32)
        c, none, rate = np.empty((1, m, n * threads), np.float32), np.empty(0, np.float32), np.empty(0)
        scratch = np.empty(products.matmul_scratch(k, n * threads, threads) // 4, np.float32)
        for _ in range(200):
            start = time.perf_counter()
            for _ in range(5):
                products.matmul.function(a, 0, b, 0, none, c, rate, 0, 0, scratch, threads)
            best = max(best, 1e-8 * m * k * n * threads / (time.perf_counter() - start))
    return best


@functools.cache
def copy_rate(size: int) -> float:
    """Billions of bytes read and written a second by copying so that ``size`` bytes move, on one thread."""
    source = np.ones(max(size // 8, 16), np.float32)
    target = np.empty_like(source)
    repeats = max(1, int(2e7 / source.nbytes))
    best = np.inf
    for _ in range(7):
        start = time.perf_counter()
        for _ in range(repeats):
            np.copyto(target, source)
        best = min(best, (time.perf_counter() - start) / repeats)
    return 2e-9 * source.nbytes / best


def flops(operation: Any) -> float:
    """Multiplications and additions of a product or convolution, 0 for anything else."""
    kind = operation.kind
    if hasattr(kind, "shapes"):
        return float(kind.shapes(operation).flops)
    if hasattr(kind, "sizes"):
        return 2.0 * float(np.prod(kind.sizes(operation)))
    return 0.0


def moved(operation: Any) -> int:
    """Bytes of everything that an operation reads and writes, once each."""
    values = {value.root: value.nbytes for value in (*operation.reads.values(), *operation.writes.values())}
    return sum(values.values())


def measure(name: str, batch: int, threads: int, rounds: int) -> list[tuple[Any, float]]:
    """(operation, shortest time in nanoseconds) of one training step."""
    model = Model.from_ini(HERE / "models" / f"{name}.ini").compile(batch, threads=threads, seed=1)
    lowered = model.lowered("train", batch)
    rng = np.random.default_rng(7)
    x = rng.standard_normal(lowered.inputs[0].shape).astype(np.float32)
    classes = lowered.labels[0].dim.features
    labels = np.eye(classes, dtype=np.float32)[rng.integers(0, classes, batch)].reshape(batch, 1, 1, classes)
    model.train_on_batch(x, labels)
    program = model.compiled.program("train", batch)
    operations = model.compiled.plan("train", batch).operations
    times = np.min([model.compiled.engine.measure(program) for _ in range(rounds)], axis=0)
    return list(zip(operations, times, strict=True))


def table(name: str, measured: list[tuple[Any, float]], threads: int, arithmetic: float, share: float) -> None:
    """Print the operations that take at least ``share`` per cent of the step, those of one kind and shape together."""
    groups: dict[tuple[str, str], list[tuple[Any, float]]] = defaultdict(list)
    for operation, taken in measured:
        shapes = " ".join(
            f"{key}={'x'.join(str(size) for size in value.shape if size != 1) or '1'}"
            for key, value in operation.reads.items()
        )
        groups[operation.kind.name, shapes].append((operation, taken))
    total = sum(taken for _, taken in measured)
    print(f"\n{name}, {threads} thread{'s' if threads > 1 else ''}: {total * 1e-6:.3f} ms a step\n")
    print("| operation | reads | times | % of step | rate | % of limit |")
    print("| --- | --- | --- | --- | --- | --- |")
    for (kind, shapes), members in sorted(groups.items(), key=lambda item: -sum(taken for _, taken in item[1])):
        taken = sum(taken for _, taken in members)
        if 100 * taken < share * total:
            continue
        work = sum(flops(operation) for operation, _ in members)
        if work:
            rate, limit, unit = work / taken, arithmetic, "GF/s"
        else:
            size = moved(members[0][0])
            rate, limit, unit = len(members) * size / taken, copy_rate(1 << max(size, 64).bit_length()), "GB/s"
        print(
            f"| {kind} | {shapes} | {len(members)} | {100 * taken / total:.1f} | {rate:.1f} {unit} | "
            f"{100 * rate / limit:.0f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--share", type=float, default=2.0, help="smallest part of a step shown, in per cent")
    given = parser.parse_args()
    before = pool.set_threads(given.threads)
    arithmetic = peak(given.threads)
    pool.set_threads(before)
    print(
        f"arithmetic peak {arithmetic:.0f} GF/s; copying 128 MB {copy_rate(1 << 27):.0f} GB/s, "
        f"1 MB {copy_rate(1 << 20):.0f} GB/s"
    )
    for name in given.models.split(","):
        table(name, measure(name, MODELS[name], given.threads, given.rounds), given.threads, arithmetic, given.share)


if __name__ == "__main__":
    main()
