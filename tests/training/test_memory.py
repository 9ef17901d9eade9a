"""Memory stays as it is over epochs, over models and over predictions (U034).

The long run of 200 epochs: ``pytest tests/training/test_memory.py -m soak``.
"""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import numpy as np
import psutil
import pytest
from small_models import Recorder, classifier, data

from nntrainer_py.training.callbacks import Callback


class _Watch(Callback):
    """Resident bytes, bytes and number of live NumPy arrays, and live objects, after two epochs."""

    def __init__(self, first: int, last: int) -> None:
        self.found: dict[int, tuple[int, int, int]] = {}
        self._epochs = (first, last)

    def epoch_end(self, run: Any, row: Any) -> None:
        if row.epoch == 1 or row.epoch in self._epochs:  # the first one takes the memory of the measurement itself
            gc.collect()
            resident = psutil.Process().memory_info().rss
            objects = gc.get_objects()
            arrays = sum(type(thing) is np.ndarray for thing in objects)
            self.found[row.epoch] = (resident, arrays, len(objects))


@pytest.mark.parametrize(("first", "last"), [(5, 50), pytest.param(5, 200, marks=pytest.mark.soak)])
def test_u034_epochs_take_no_memory(tmp_path, first, last):
    """U034: after the last epoch as much as after the fifth: resident within 1 %, no array and no object more."""
    watch = _Watch(first, last)
    model = classifier(batch_size=16)
    model.train(
        *data(200), valid=data(50, 1), epochs=last, patience=1000, callbacks=[watch],
        checkpoint=tmp_path / "c.safetensors", save_path=tmp_path / "w.bin",
    )  # fmt: skip
    before, after = watch.found[first], watch.found[last]
    assert after[0] <= before[0] * 1.01
    assert after[1] == before[1]
    # the history has a row for each epoch: the row, and the two dictionaries of its metrics
    assert after[2] - before[2] <= 3 * (last - first) + 10


def test_predictions_of_a_file_are_held_once(tmp_path):
    """The peak of a prediction of 40,000 samples is its result, of which the batches are written into their places."""
    x, _ = data(40_000)
    np.save(tmp_path / "x.npy", x)
    model = classifier(batch_size=100)
    expected = np.concatenate([model.predict(x[first : first + 100]) for first in range(0, len(x), 100)])
    model.predict(tmp_path / "x.npy")
    tracemalloc.start()
    try:
        found = model.predict(tmp_path / "x.npy")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_array_equal(found, expected)
    assert peak < found.nbytes * 1.2


def test_u034_a_step_takes_no_array_memory():
    """Between steps and within them: the traced peak of 20 steps is that of a few small objects."""

    class Trace(Recorder):
        peak = 0

        def batch_end(self, run: Any, batch: Any) -> None:
            if batch.batch == 10:
                tracemalloc.start()
                tracemalloc.reset_peak()
            elif batch.batch == 30:
                Trace.peak = tracemalloc.get_traced_memory()[1]
                tracemalloc.stop()

    rows = 2048
    model = classifier(batch_size=rows)
    model.train(*data(40 * rows), epochs=1, callbacks=[Trace()], shuffle=False)
    assert 0 < Trace.peak < rows * 6 * 4  # less than one batch of inputs


def test_u034_building_training_and_dropping_models():
    """U034: 200 x (build, one step, drop) is flat."""

    def once() -> None:
        classifier().train_on_batch(*data(16))

    for _ in range(20):
        once()
    gc.collect()
    before = psutil.Process().memory_info().rss, len(gc.get_objects())
    for _ in range(200):
        once()
    gc.collect()
    after = psutil.Process().memory_info().rss, len(gc.get_objects())
    assert after[0] <= before[0] * 1.01
    assert after[1] <= before[1] + 10


@pytest.mark.parametrize("count", [1000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_u034_predictions(count):
    """U034: 10,000 x predict is flat."""
    model = classifier()
    x, _ = data(16)
    for _ in range(100):
        model.predict(x)
    gc.collect()
    before = psutil.Process().memory_info().rss, len(gc.get_objects())
    for _ in range(count):
        model.predict(x)
    gc.collect()
    after = psutil.Process().memory_info().rss, len(gc.get_objects())
    assert after[0] <= before[0] * 1.01
    assert after[1] <= before[1] + 10


def test_memory_does_not_grow_after_the_first_step():
    """The last, short batch and the validation are planned before the first step: the block is the same ever after."""

    blocks: set[int] = set()

    class Look(Recorder):
        def batch_end(self, run: Any, batch: Any) -> None:
            blocks.add(id(run.model.compiled.engine.arena))

    model = classifier(batch_size=8)
    model.train(*data(21), valid=data(50, 1), epochs=2, callbacks=[Look()])
    assert len(blocks) == 1
