"""This package as one of the measured: the INI of the model, its public methods, nothing else."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from nntrainer_py.model import Model

sys.path.insert(0, str(Path(__file__).parent))
from serve import serve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="INI")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data", type=Path, required=True, help=".npz with x and y, and weights by name")
    parser.add_argument("--born", type=float, default=0.0)
    parser.add_argument("--losses", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], help="section.key=value")
    parser.add_argument("--predict", action="store_true", help="inference instead of training")
    parser.add_argument("--describe", type=Path, help="write weights and data for the peers to this .npz, and stop")
    given = parser.parse_args()
    model = Model.from_ini(given.model, given.set).compile(given.batch, threads=given.threads, seed=1)
    if given.describe:
        describe(model, given.batch, given.describe)
        return
    with np.load(given.data) as data:
        x, classes = data["x"], data["y"]
        count = model.lowered().labels[0].dim.features
        labels = np.eye(count, dtype=np.float32)[classes].reshape(len(x), 1, 1, count)
        if given.losses:
            for name, array in model.weights().items():
                array[...] = data[name]
    lowered = model.lowered("predict" if given.predict else "train", given.batch)
    planned = model.compiled.plan("predict" if given.predict else "train", given.batch).arena
    facts = {"planned_mb": planned / 2**20, "operations": len(lowered.operations)}
    if given.predict:
        serve(lambda: model.predict(x), born=given.born, **facts)
    else:
        serve(lambda: model.train_on_batch(x, labels), born=given.born, losses=given.losses, **facts)


def describe(model: Model, batch: int, path: Path) -> None:
    """Random data and the model's own initial weights, by name."""
    lowered = model.lowered("train", batch)
    rng = np.random.default_rng(7)
    x = rng.standard_normal(lowered.inputs[0].shape).astype(np.float32)
    y = rng.integers(0, lowered.labels[0].dim.features, batch)
    np.savez(path, x=x, y=y, **model.weights())


if __name__ == "__main__":
    main()
