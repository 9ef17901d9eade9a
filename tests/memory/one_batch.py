"""One training step on one batch from a checkpoint to another: in a process of its own, or in one that goes on.

    python one_batch.py MODEL.ini FOLDER NUMBER BATCH OPTIONS

reads ``FOLDER/NUMBER.safetensors``, writes ``FOLDER/fresh-NUMBER.safetensors`` and prints the loss.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from nntrainer_py.model import Model
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.training import checkpoint


def save(made: Model, path: Path) -> None:
    """Weights, running statistics, moments and counters."""
    checkpoint.save(path, made, checkpoint.Progress(0, 0, False, {}, {}), None)


def one_step(made: Model, number: int, batch: int) -> str:
    """The loss, to the last bit; the data is a function of ``number`` and ``batch``."""
    rng = np.random.default_rng(number)
    compiled = made.compiled
    program = compiled.program("train", batch)
    inputs = [rng.standard_normal(array.shape).astype(np.float32) for array in program.inputs]
    shapes = [array.shape for array in program.labels]
    labels = [np.eye(shape[-1], dtype=np.float32)[rng.integers(0, shape[-1], shape[:-1])] for shape in shapes]
    compiled.feed("train", program, inputs, labels)
    compiled.state.numbers[StepState.LEARNING_RATE] = 0.01
    compiled.state.numbers[StepState.SAMPLES] = batch
    return compiled.engine.step(program).hex()


def main(description: str, place: str, number: str, batch: str, options: str) -> None:
    """A fresh process: compiled for this batch, never having seen another."""
    made = Model.from_ini(description).compile(int(batch), **json.loads(options))
    folder = Path(place)
    checkpoint.restore(folder / f"{number}.safetensors", made, {})
    print(one_step(made, int(number), int(batch)))
    save(made, folder / f"fresh-{number}.safetensors")


if __name__ == "__main__":
    main(*sys.argv[1:])
