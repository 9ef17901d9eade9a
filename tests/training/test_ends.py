"""How runs end when something goes wrong: values that are not finite, signals, data that fails."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import Recorder, classifier, data, figures, weights

from nntrainer_py.data.generator import IterableDataset
from nntrainer_py.errors import DataError, InterruptedRun, NumericalError
from nntrainer_py.training import checkpoint
from nntrainer_py.training.callbacks import AfterEpoch, Callback
from nntrainer_py.training.interrupt import InterruptGuard

ROOTS = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]


def test_u019_a_nan_in_sample_17(tmp_path):
    """U019: one NaN in sample 17: the run ends within that step and names it; the checkpoint is the last finite one."""
    x, y = data(24)
    path = tmp_path / "c.safetensors"

    def rows(epoch: int) -> Any:
        bad = x.copy()
        if epoch == 2:
            bad[17, 3] = np.nan
        return zip(bad, y, strict=True)

    recorder, model = Recorder(), classifier()
    with pytest.raises(NumericalError) as caught:
        model.train(IterableDataset(rows), epochs=9, checkpoint=path, callbacks=[recorder])
    assert caught.value.exit_code == 4
    text = str(caught.value)
    assert text.startswith("epoch 3, step 9: the loss is nan: ")
    assert "sample 17 has a value that is not finite in its input (in)" in text
    assert recorder.batches[-1].step == 8
    assert recorder.result is not None
    assert (recorder.result.ended, recorder.result.epoch) == ("not finite", 2)
    assert all(np.isfinite(array).all() for array in model.weights().values())
    good = classifier()
    found = good.train(IterableDataset(lambda: zip(x, y, strict=True)), epochs=2)
    stored = classifier()
    stored.load(path)
    assert weights(stored) == weights(good)
    assert figures(found) == figures(recorder.result)


def test_u019_the_layer_where_it_begins():
    """Finite inputs and weights: the first layer whose output is not finite, and the sample."""
    x, y = data(24)
    x[11] = 3e38
    with pytest.raises(NumericalError, match=r"begins in the layer hidden \(.*\), first in .*sample 11"):
        classifier().train(x, y, epochs=1)


def test_u019_a_weight_that_is_not_finite():
    model = classifier()
    model.weights()["hidden:weight"][0, 0, 0, 0] = np.inf
    with pytest.raises(NumericalError, match=r"epoch 1, step 1: .*the weight hidden:weight is not finite"):
        model.train(*data(16))


def test_u019_an_update_that_is_not_finite_reaches_no_file(tmp_path):
    """The last update of an epoch makes a weight infinite: the loss was fine, and no file gets the weights."""

    class Spoil(Callback):
        def batch_end(self, run: Any, batch: Any) -> None:
            if (batch.epoch, batch.batch) == (2, 2):
                run.model.weights()["out:bias"][0, 0, 0, 1] = np.inf

    files = {"checkpoint": tmp_path / "c.safetensors", "save_path": tmp_path / "w.bin"}
    with pytest.raises(NumericalError, match="after step 4: the weight out:bias is not finite"):
        classifier().train(*data(16), epochs=5, callbacks=[Spoil()], **files)
    assert checkpoint.summary(files["checkpoint"]).epoch == 1
    stored = classifier()
    for path in files.values():
        stored.load(path)
        assert all(np.isfinite(array).all() for array in stored.weights().values())


def test_u019_in_the_validation_data():
    x, y = data(16)
    bad = x.copy()
    bad[5, 0] = np.inf
    with pytest.raises(NumericalError, match=r"epoch 1, valid data: .* sample 5 has a value that is not finite"):
        classifier().train(x, y, valid=(bad, y), epochs=2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_u043_a_signal_finishes_the_step_and_saves(tmp_path, number):
    """U043: the step is finished and a checkpoint written; the exit code tells which signal; resuming is exact."""
    path = tmp_path / "c.safetensors"
    whole = classifier()
    expected = whole.train(*data(40), valid=data(9, 1), epochs=3)

    class Kill(Recorder):
        def batch_end(self, run: Any, batch: Any) -> None:
            super().batch_end(run, batch)
            if batch.step == 7:
                os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    recorder = Kill()
    with pytest.raises(
        InterruptedRun, match=r"interrupted in epoch 2, step 7 is done; saved in .*c\.safetensors"
    ) as caught:
        classifier().train(*data(40), valid=data(9, 1), epochs=3, checkpoint=path, callbacks=[recorder])
    assert caught.value.exit_code == 128 + number
    assert signal.getsignal(number) is before
    assert recorder.result is not None
    assert recorder.result.ended == "interrupted"
    assert recorder.batches[-1].step == 7
    rest = classifier()
    result = rest.train(*data(40), valid=data(9, 1), epochs=3, checkpoint=path, resume=True)
    assert figures(result) == figures(expected)
    assert weights(rest) == weights(whole)


def test_u043_a_signal_during_validation(tmp_path):
    """The validation is given up; the resumed run begins with it."""
    path = tmp_path / "c.safetensors"
    whole = classifier()
    expected = whole.train(*data(16), valid=data(40, 1), epochs=3)

    class Kill(Recorder):
        def evaluation_batch(self, run: Any, use: str, batch: int) -> None:
            super().evaluation_batch(run, use, batch)
            if run.step == 4 and batch == 2:
                os.kill(os.getpid(), signal.SIGINT)

    recorder = Kill()
    with pytest.raises(InterruptedRun):
        classifier().train(*data(16), valid=data(40, 1), epochs=3, checkpoint=path, callbacks=[recorder])
    assert recorder.calls[-3:] == ["evaluation_batch valid", "saved checkpoint", "train_end"]
    rest, again = classifier(), Recorder()
    result = rest.train(*data(16), valid=data(40, 1), epochs=3, checkpoint=path, resume=True, callbacks=[again])
    assert again.calls[:2] == ["train_begin", "evaluation_batch valid"]
    assert figures(result) == figures(expected)
    assert weights(rest) == weights(whole)


def test_u043_signals_while_a_file_is_saved(tmp_path, monkeypatch):
    """A second and a third signal during the save change nothing: the new file is whole."""
    path = tmp_path / "c.safetensors"
    replace = os.replace

    def slow(source: Any, target: Any) -> None:
        for _ in range(3):
            os.kill(os.getpid(), signal.SIGINT)
        monkeypatch.setattr("nntrainer_py.training.interrupt._SAME_PRESS", -1.0)
        os.kill(os.getpid(), signal.SIGINT)
        replace(source, target)

    kill = AfterEpoch(lambda row: monkeypatch.setattr(os, "replace", slow))
    with pytest.raises(InterruptedRun):
        classifier().train(*data(16), epochs=9, checkpoint=path, callbacks=[kill])
    assert checkpoint.summary(path).epoch == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["c.safetensors"]


def test_the_first_signal_is_told_at_once():
    told: list[int] = []
    with InterruptGuard(told.append) as guard:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        assert told == [signal.SIGINT]
        assert guard.signal == signal.SIGINT


def test_u043_a_second_signal_ends_a_run_that_hangs(monkeypatch):
    monkeypatch.setattr("nntrainer_py.training.interrupt._SAME_PRESS", 0.0)
    released = threading.Event()

    def rows() -> Any:
        yield from zip(*data(8), strict=True)
        released.wait(20)

    def press() -> None:
        for _ in range(2):
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGINT)
        released.set()

    threading.Timer(0.5, press).start()
    with pytest.raises(InterruptedRun, match="interrupted twice"):
        classifier(batch_size=4).train(IterableDataset(rows), epochs=2)


PROGRAM = """
import sys
from pathlib import Path
from small_models import Recorder, classifier, data
from nntrainer_py.errors import NNTrainerError
path = Path(sys.argv[1])
class Steps(Recorder):
    def batch_end(self, run, batch):
        print(batch.step, flush=True)
        __import__("time").sleep(0.002)
    def saved(self, run, what, path):
        print("saved", run.step, flush=True)
model = classifier(batch_size=4)
print("ready", flush=True)
try:
    result = model.train(*data(21), valid=data(9, 1), epochs=int(sys.argv[2]), checkpoint=path,
                         resume=path.exists(), callbacks=[Steps()], checkpoint_steps=3)
except NNTrainerError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
model.save(path.with_name("final.bin"), training_state=True)
"""


def start(path: Path, epochs: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(ROOTS)}
    command = [sys.executable, "-c", PROGRAM, str(path), str(epochs)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen[str], word: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.split()[0] == word:
            return
    raise AssertionError(process.communicate()[1])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_u043_exit_code_of_a_process(tmp_path, number, code):
    path = tmp_path / "c.safetensors"
    process = start(path, 10**6)
    wait_for(process, str(random.Random(number).randint(2, 40)))
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert "saved in" in errors
    done = checkpoint.summary(path)
    assert done.step >= 2
    assert [file.name for file in tmp_path.iterdir()] == ["c.safetensors"]


def test_a_second_process_in_the_folder_is_refused(tmp_path):
    path = tmp_path / "c.safetensors"
    process = start(path, 10**6)
    try:
        wait_for(process, "saved")
        other = start(path, 10)
        _, errors = other.communicate(timeout=60)
        assert other.returncode == 2
        assert f"another run (process {process.pid}) is going on in" in errors
    finally:
        process.kill()
        process.communicate()
    after = start(path, 0)  # the lock of a dead process is none
    assert after.communicate(timeout=60)[1] == ""
    assert after.returncode == 0


def test_u020_data_that_fails_ends_the_run():
    """U020: three epochs with prefetch; a generator that raises, one that ends early: text shown, no thread left."""
    x, y = data(20)

    def fails() -> Any:
        for number, row in enumerate(zip(x, y, strict=True)):
            if number == 13:
                raise OSError("the cable was pulled")
            yield row

    before = threading.active_count()
    good = IterableDataset(lambda: zip(x, y, strict=True))
    assert classifier().train(good, epochs=3).epoch == 3
    with pytest.raises(DataError, match="the cable was pulled"):
        classifier().train(IterableDataset(fails), epochs=3)
    short = IterableDataset(lambda: zip(x, y, strict=True), samples_per_epoch=25)
    with pytest.raises(DataError, match="25"):
        classifier().train(short, epochs=3)
    assert threading.active_count() == before


def test_an_error_of_a_callback_reaches_the_caller(tmp_path):
    class Fails(Callback):
        def epoch_end(self, run: Any, row: Any) -> None:
            if row.epoch == 2:
                raise RuntimeError("mine")

    recorder, before = Recorder(), threading.active_count()
    path = tmp_path / "c.safetensors"
    with pytest.raises(RuntimeError, match="mine"):
        classifier().train(*data(16), epochs=5, checkpoint=path, callbacks=[recorder, Fails()])
    assert recorder.result is not None
    assert recorder.result.ended == "error"
    assert checkpoint.summary(path).epoch == 2
    assert threading.active_count() == before
