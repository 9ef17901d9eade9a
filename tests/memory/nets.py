"""Small nets of every kind that memory options must not change, and their training to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nntrainer_py.model import Model
from nntrainer_py.tensor.operations.record import StepState

_HEAD = """[Model]
type = NeuralNetwork
loss = cross
batch_size = 8
[Optimizer]
type = {optimizer}
learning_rate = 0.01
"""


def _sections(*layers: str) -> str:
    """``name: type key=value ...`` lines as sections."""
    text = []
    for layer in layers:
        name, _, rest = layer.partition(":")
        kind, *keys = rest.split()
        text += [f"[{name}]", f"type = {kind}", *(key.replace("=", " = ", 1) for key in keys)]
    return "\n".join(text) + "\n"


NETS: dict[str, str] = {
    "mlp": _HEAD.format(optimizer="adam")
    + _sections(
        "in: input input_shape=1:1:96",
        "a: fully_connected unit=128 activation=relu",
        "b: fully_connected unit=64 activation=tanh",
        "c: fully_connected unit=10 activation=softmax",
    ),
    "lenet": _HEAD.format(optimizer="sgd")
    + _sections(
        "in: input input_shape=1:20:20",
        "c1: conv2d filters=6 kernel_size=5,5 activation=sigmoid",
        "p1: pooling2d pooling=average pool_size=2,2 stride=2,2",
        "c2: conv2d filters=12 kernel_size=3,3 activation=relu",
        "p2: pooling2d pooling=max pool_size=2,2 stride=2,2",
        "f: flatten",
        "out: fully_connected unit=10 activation=softmax",
    ),
    "resnet": _HEAD.format(optimizer="adam")
    + _sections(
        "in: input input_shape=3:12:12",
        "c0: conv2d filters=32 kernel_size=3,3 padding=same disable_bias=true",
        "n0: batch_normalization activation=relu",
        "a1: conv2d input_layers=n0 filters=32 kernel_size=3,3 padding=same",
        "a2: batch_normalization activation=relu",
        "a3: conv2d filters=32 kernel_size=3,3 padding=same",
        "a4: addition input_layers=a3,n0",
        "a5: batch_normalization activation=relu",
        "b1: conv2d input_layers=a5 filters=32 kernel_size=3,3 padding=1,1 stride=2,2",
        "b2: batch_normalization activation=relu",
        "b3: conv2d filters=32 kernel_size=3,3 padding=same",
        "b4: conv2d input_layers=a5 filters=32 kernel_size=1,1 stride=2,2",
        "b5: addition input_layers=b3,b4",
        "b6: batch_normalization activation=relu",
        "p: pooling2d pooling=average pool_size=6,6",
        "f: flatten",
        "out: fully_connected unit=10 activation=softmax",
    ),
    "dropout": _HEAD.format(optimizer="sgd")
    + _sections(
        "in: input input_shape=1:1:64",
        "a: fully_connected unit=96 activation=relu",
        "d1: dropout dropout_rate=0.4",
        "b: fully_connected unit=96 activation=swish",
        "d2: dropout dropout_rate=0.2",
        "out: fully_connected unit=10 activation=softmax",
    ),
    "lstm": _HEAD.format(optimizer="adam")
    + _sections(
        "in: input input_shape=1:9:24",
        "a: lstm unit=32 return_sequences=true",
        "b: lstm unit=16 return_sequences=false",
        "out: fully_connected unit=10 activation=softmax",
    ),
    "transformer": _HEAD.format(optimizer="adam")
    + _sections(
        "in: input input_shape=1:8:32",
        "n1: layer_normalization axis=3",
        "att: multi_head_attention input_layers=n1,n1,n1 num_heads=4",
        "s1: addition input_layers=in,att",
        "n2: layer_normalization axis=3",
        "h: fully_connected unit=64 activation=relu",
        "k: fully_connected unit=32",
        "s2: addition input_layers=s1,k",
        "m: reduce_mean axis=2",
        "out: fully_connected unit=10 activation=softmax",
    ),
}


def model(name: str, folder: Path) -> Model:
    """The net of that name, described in a file of ``folder``."""
    path = folder / f"{name}.ini"
    path.write_text(NETS[name], encoding="utf-8")
    return Model.from_ini(path)


def step(made: Model, batch: int, rng: np.random.Generator) -> float:
    """One training step on random data."""
    compiled = made.compiled
    program = compiled.program("train", batch)
    shapes = [array.shape for array in program.inputs], [array.shape for array in program.labels]
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes[0]]
    labels = [np.eye(shape[-1], dtype=np.float32)[rng.integers(0, shape[-1], shape[:-1])] for shape in shapes[1]]
    compiled.feed("train", program, inputs, labels)
    compiled.state.numbers[StepState.LEARNING_RATE] = 0.01
    compiled.state.numbers[StepState.SAMPLES] = batch
    return compiled.engine.step(program)


def trained(made: Model, steps: int = 20, batch: int = 8, batches: tuple[int, ...] = ()) -> dict[str, bytes]:
    """Every persistent tensor (weights, running statistics, moments), the losses and the random state as bytes."""
    rng = np.random.default_rng(0)
    losses = [step(made, size, rng) for size in batches or (batch,) * steps]
    assert np.isfinite(losses).all()
    arrays: dict[str, Any] = made.compiled.engine.store.arrays
    found = {name: array.tobytes() for name, array in arrays.items()}
    return found | {"losses": np.array(losses).tobytes(), "counters": made.compiled.state.counters.tobytes()}
