"""Two threads at once, a fork after training: right results or a clear error, never an abort."""

from __future__ import annotations

import os
import sys
import textwrap
import threading
from pathlib import Path
from subprocess import run

import numpy as np
import pytest

from nntrainer_py import Model
from nntrainer_py.layers.activation import Activation
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.losses.cross_softmax import CrossSoftmax
from nntrainer_py.optimizers.sgd import Sgd

ROOT = Path(__file__).resolve().parents[2]


def model(threads: int, seed: int) -> Model:
    layers = [
        ("in", Input(input_shape="1:1:256")),
        ("a", FullyConnected(unit=512)),
        ("relu", Activation(activation="relu")),
        ("b", FullyConnected(unit=10)),
        ("loss", CrossSoftmax()),
    ]
    return Model.build(layers, optimizer=Sgd(learning_rate=0.01)).compile(64, threads=threads, seed=seed)


def losses(threads: int, seed: int, steps: int = 12) -> list[float]:
    made, rng = model(threads, seed), np.random.default_rng(seed)
    x, y = rng.standard_normal((64, 256), dtype=np.float32), rng.integers(0, 10, 64)
    return [made.train_on_batch(x, y) for _ in range(steps)]


@pytest.mark.parametrize("threads", [1, 2])
def test_two_models_in_two_threads(threads: int) -> None:
    expected = [losses(threads, seed) for seed in (1, 2)]
    found: dict[int, list[float]] = {}
    workers = [threading.Thread(target=lambda s=seed: found.update({s: losses(threads, s)})) for seed in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [found.get(1), found.get(2)] == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
def test_fork_after_training() -> None:
    """In a child, one thread computes the same numbers, two are refused with the remedy; nobody is killed."""
    script = textwrap.dedent(
        """
        import os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # Python's own warning about fork
        from test_launch import losses, model
        from nntrainer_py.errors import ForkError
        before = losses(2, 1)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                same = losses(1, 1) == before
                try:
                    losses(2, 1)
                except ForkError as error:
                    code = 0 if same and "spawn" in str(error) else 2
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        assert losses(2, 1) == before
        sys.exit(os.waitstatus_to_exitcode(status))
        """
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(Path(__file__).parent)])}
    done = run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
