"""Two threads at once, a fork after training: right results or a clear error, never an abort."""

from __future__ import annotations

import gc
import os
import sys
import textwrap
import threading
from pathlib import Path
from subprocess import run
from typing import ClassVar

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from nntrainer_py import Layer, Model
from nntrainer_py.layers.activation import Activation
from nntrainer_py.layers.context import RunContext
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


class Blas(Layer):
    """A user's layer with a matrix product of NumPy in it; notes how many threads BLAS has then."""

    seen: ClassVar[set[int]] = set()

    def forward(self, ctx: RunContext) -> None:
        self.seen.update(blas_threads())
        np.matmul(ctx.inputs[0][:, 0], np.eye(512, dtype=np.float32), out=ctx.outputs[0][:, 0])

    def calc_derivative(self, ctx: RunContext) -> None:
        np.copyto(ctx.derivatives[0], ctx.incoming[0])


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_blas_has_one_thread_while_we_run_and_gets_its_own_back() -> None:
    """Two pools that both spin cost milliseconds at each change between them."""
    layers = [
        ("in", Input(input_shape="1:1:256")),
        ("a", FullyConnected(unit=512)),
        ("own", Blas()),
        ("b", FullyConnected(unit=10)),
        ("loss", CrossSoftmax()),
    ]
    rng = np.random.default_rng(0)
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        assert before
        made = Model.build(layers, optimizer=Sgd(learning_rate=0.01)).compile(64, threads=min(2, os.cpu_count() or 1))
        made.train_on_batch(rng.standard_normal((64, 256), dtype=np.float32), rng.integers(0, 10, 64))
        assert blas_threads() == before
    assert Blas.seen == {1}


def test_what_the_kernels_read_is_kept_alive() -> None:
    """Kernels get addresses; whoever drops every array but the model loses nothing."""
    made = model(1, 3)
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((64, 256), dtype=np.float32), rng.integers(0, 10, 64)
    expected = losses(1, 3)
    found = []
    for step in range(12):
        given = x.copy()
        found.append(made.train_on_batch(given, y.copy()))
        given.fill(np.nan)
        made.weights().clear()  # the dictionary is the caller's, the arrays in it are the model's
        del given
        gc.collect()
        junk = [np.full(1 << 16, np.nan, np.float32) for _ in range(16)]  # takes freed memory, if any was
        assert len(junk) == 16, step
    assert found == expected


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
