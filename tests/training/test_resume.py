"""Resuming: bit for bit the run that was never stopped, whatever the optimizer, the schedule and the data."""

from __future__ import annotations

import hashlib
import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_models import CLASSES, FEATURES, Recorder, classifier, data, figures, weights

from nntrainer_py.data.generator import CallbackDataset, IterableDataset, MapDataset
from nntrainer_py.errors import UsageError, WeightFileError
from nntrainer_py.registry import OPTIMIZERS, SCHEDULERS
from nntrainer_py.training import checkpoint

SAMPLES, BATCH, EPOCHS = 21, 4, 4  # 6 steps an epoch, the last one short

OPTIONS = {
    "none": {},
    "constant": {"learning_rate": 0.01},
    "cosine": {"max_learning_rate": 0.02, "min_learning_rate": 0.001, "decay_steps": 20},
    "exponential": {"learning_rate": 0.01, "decay_rate": 0.9, "decay_steps": 5},
    "linear": {"max_learning_rate": 0.02, "min_learning_rate": 0.001, "decay_steps": 20, "warmup_steps": 5},
    "one_cycle": {"max_learning_rate": 0.02, "decay_steps": 24},
    "polynomial": {"max_learning_rate": 0.02, "min_learning_rate": 0.001, "decay_steps": 20},
    "reduce_on_plateau": {"learning_rate": 0.02, "factor": 0.5, "patience": 0, "threshold": 0.5},
    "step": {"learning_rate": "0.02, 0.01, 0.005", "iteration": "5, 11"},
}  # fmt: skip
SOURCES = ("arrays", "file", "csv", "npz", "npy", "idx", "image_folder", "generator", "callback", "map")


def source(kind: str, folder: Path) -> Any:
    """The same samples as another kind of data; the features are 0..255 where the kind needs bytes."""
    random = np.random.default_rng(3)
    pixels = random.integers(0, 256, size=(SAMPLES, FEATURES), dtype=np.uint8)
    x, y = pixels.astype(np.float32), random.integers(0, CLASSES, SAMPLES)
    one_hot = np.eye(CLASSES, dtype=np.float32)[y]
    if kind == "file":
        np.concatenate([x, one_hot], axis=1).tofile(folder / "data.dat")
        return folder / "data.dat"
    if kind == "csv":
        np.savetxt(folder / "data.csv", np.column_stack([x, y]), delimiter=",", fmt="%g")
        return folder / "data.csv"
    if kind == "npz":
        np.savez(folder / "data.npz", x=x, y=y)
        return folder / "data.npz"
    if kind == "npy":
        np.save(folder / "data.npy", np.concatenate([x, one_hot], axis=1))
        return folder / "data.npy"
    if kind == "idx":
        shape = np.array([SAMPLES, 1, FEATURES], ">i4").tobytes()
        (folder / "images-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + shape + pixels.tobytes())
        labels = np.array([SAMPLES], ">i4").tobytes() + y.astype(np.uint8).tobytes()
        (folder / "labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01" + labels)
        return folder / "images-idx3-ubyte"
    if kind == "image_folder":
        image = pytest.importorskip("PIL.Image")
        for number, (row, label) in enumerate(zip(pixels, y, strict=True)):
            (folder / "images" / f"c{label}").mkdir(parents=True, exist_ok=True)
            image.fromarray(row.reshape(1, FEATURES)).save(folder / "images" / f"c{label}" / f"{number:03}.png")
        return folder / "images"
    if kind == "generator":
        return IterableDataset(
            lambda epoch: ((x[(i + epoch) % SAMPLES], y[(i + epoch) % SAMPLES]) for i in range(SAMPLES))
        )
    if kind == "callback":
        calls = itertools.count()

        def callback() -> tuple[Any, Any, bool]:
            i = next(calls) % SAMPLES
            return x[i], one_hot[i], i == SAMPLES - 1

        return CallbackDataset(callback)
    return MapDataset(list(zip(x, y, strict=True))) if kind == "map" else (x, y)


def pairwise(*axes: list[str]) -> list[tuple[str, ...]]:
    """Rows in which every pair of values of two axes stands together at least once (greedy)."""
    places = list(itertools.combinations(range(len(axes)), 2))
    missing = {(a, b, u, v) for a, b in places for u in axes[a] for v in axes[b]}
    rows = []
    candidates = list(itertools.product(*axes))
    while missing:
        row = max(candidates, key=lambda row: sum((a, b, row[a], row[b]) in missing for a, b in places))
        rows.append(row)
        missing -= {(a, b, row[a], row[b]) for a, b in places}
    return rows


CASES = pairwise(OPTIMIZERS.words(), ["none", *SCHEDULERS.words()], list(SOURCES))


def test_every_optimizer_and_schedule_is_among_the_cases():
    assert {row[0] for row in CASES} == set(OPTIMIZERS.words())
    assert {row[1] for row in CASES} - {"none"} == set(SCHEDULERS.words())
    assert len(CASES) < len(OPTIMIZERS.words()) * len(OPTIONS) * len(SOURCES)


def model_of(optimizer: str, schedule: str) -> Any:
    rate = OPTIMIZERS.load(optimizer)
    momentum = {"momentum": 0.9} if optimizer == "sgd" else {}
    scheduler = None if schedule == "none" else SCHEDULERS.load(schedule)(**OPTIONS[schedule])
    return classifier(batch_size=BATCH, optimizer=rate(learning_rate=0.01, **momentum), scheduler=scheduler)


@pytest.mark.parametrize(("optimizer", "schedule", "kind"), CASES)
def test_u040_resume_is_bit_equal(tmp_path, optimizer, schedule, kind):
    """U040: stopped inside an epoch and again at the end of one, losses and bytes are those of a run without a stop."""
    valid = source("arrays", tmp_path)
    path = tmp_path / "checkpoint.safetensors"
    whole, all_of_it = model_of(optimizer, schedule), Recorder()
    expected = whole.train(source(kind, tmp_path), valid=valid, epochs=EPOCHS, patience=50, callbacks=[all_of_it])
    parts: list[Any] = []
    number = CASES.index((optimizer, schedule, kind))
    for stop in (Recorder(stop_step=1 + number % 11), Recorder(stop_epoch=3), Recorder()):
        model = model_of(optimizer, schedule)
        result = model.train(
            source(kind, tmp_path), valid=valid, epochs=EPOCHS, patience=50, callbacks=[stop],
            checkpoint=path, resume=path.exists(),
        )  # fmt: skip
        parts += stop.losses
    assert parts == all_of_it.losses
    assert figures(result) == figures(expected)
    assert weights(model) == weights(whole)
    assert (result.best_epoch, result.restored) == (expected.best_epoch, True)


@pytest.mark.parametrize("every", [1, 2, 3])
def test_checkpoints_inside_an_epoch(tmp_path, every):
    """A checkpoint every n steps; from each of them, kept aside, the run goes on to the same bytes."""
    path = tmp_path / "checkpoint.safetensors"
    copies: list[tuple[int, bytes]] = []

    class Keep(Recorder):
        def saved(self, run: Any, what: str, path: Path) -> None:
            copies.append((run.step, path.read_bytes()))

    whole = classifier(batch_size=BATCH)
    settings = {"valid": data(7, 1), "epochs": 2, "checkpoint": path}
    expected = whole.train(*data(SAMPLES), checkpoint_steps=every, callbacks=[Keep()], **settings)
    assert [step for step, _ in copies] == sorted({*range(every, 6, every), 6, *range(6 + every, 12, every), 12})
    for _, content in copies:
        path.write_bytes(content)
        model = classifier(batch_size=BATCH)
        result = model.train(*data(SAMPLES), resume=True, **settings)
        assert figures(result) == figures(expected)
        assert weights(model) == weights(whole)


def test_checkpoints_by_time(tmp_path):
    recorder = Recorder()
    classifier(batch_size=BATCH).train(
        *data(SAMPLES), epochs=1, checkpoint=tmp_path / "c.safetensors", checkpoint_seconds=1e-9, callbacks=[recorder]
    )
    assert recorder.calls.count("saved checkpoint") == 6


def test_accumulated_gradients_are_resumed_between_updates(tmp_path):
    path = tmp_path / "c.safetensors"
    whole, part = (classifier(batch_size=BATCH, gradient_accumulation=2, clip_grad_by_norm=0.1) for _ in range(2))
    expected = whole.train(*data(SAMPLES), epochs=3)
    part.train(*data(SAMPLES), epochs=3, checkpoint=path, callbacks=[Recorder(stop_step=4)])
    part = classifier(batch_size=BATCH, gradient_accumulation=2, clip_grad_by_norm=0.1)
    result = part.train(*data(SAMPLES), epochs=3, checkpoint=path, resume=True)
    assert figures(result) == figures(expected)
    assert weights(part) == weights(whole)


def test_early_stopping_is_resumed(tmp_path):
    """Patience, the best epoch and its weights go over into the next process."""
    x, y = data(SAMPLES)
    noise = np.random.default_rng(5).integers(0, CLASSES, SAMPLES)
    path = tmp_path / "c.safetensors"
    whole = classifier(dropout=0.0)
    expected = whole.train(x, noise, valid=(x, y), epochs=60, patience=4)
    assert expected.ended == "early stopping"
    for stop in range(1, expected.epoch):
        model = classifier(dropout=0.0)
        result = model.train(
            x, noise, valid=(x, y), epochs=60, patience=4, checkpoint=path, resume=stop > 1,
            callbacks=[Recorder(stop_epoch=stop)],
        )  # fmt: skip
        assert result.ended == "stopped"
    model = classifier(dropout=0.0)
    result = model.train(x, noise, valid=(x, y), epochs=60, patience=4, checkpoint=path, resume=True)
    assert (result.ended, result.best_epoch, result.restored) == ("early stopping", expected.best_epoch, True)
    assert weights(model) == weights(whole)


def test_u041_nothing_left_to_do(tmp_path):
    """U041: with the epochs done it says so, and the checkpoint stays as it is, bytes and time."""
    path = tmp_path / "c.safetensors"
    first = classifier()
    first.train(*data(16), epochs=2, checkpoint=path)

    def state():
        return path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest(), sorted(tmp_path.iterdir())

    before = state()
    recorder = Recorder()
    again = classifier()
    for epochs in (2, 1):
        result = again.train(*data(16), epochs=epochs, checkpoint=path, resume=True, callbacks=[recorder])
        assert result.ended == "nothing to do"
        assert result.reason == f"nothing to do: 2 epochs are done, {epochs} asked for; ask for more to go on"
    assert recorder.calls == []
    assert (
        path.stat().st_mtime_ns,
        hashlib.sha256(path.read_bytes()).hexdigest(),
        sorted(tmp_path.iterdir()),
    ) == before
    assert weights(again) == weights(first)
    more = again.train(*data(16), epochs=3, checkpoint=path, resume=True, callbacks=[recorder])
    assert (recorder.batches[0].epoch, recorder.batches[0].step, more.epoch) == (3, 5, 3)


def test_a_run_that_would_differ_is_refused(tmp_path):
    path = tmp_path / "c.safetensors"
    classifier().train(*data(16), epochs=2, checkpoint=path)
    before = path.read_bytes()

    def refused(error, match, model, count=16):
        untouched = weights(model)
        with pytest.raises(error, match=match):
            model.train(*data(count), epochs=3, checkpoint=path, resume=True)
        assert weights(model) == untouched
        assert path.read_bytes() == before

    refused(UsageError, "had seed 0, this one has 1", classifier(seed=1))
    refused(UsageError, "had batch size 8, this one has 4", classifier(batch_size=4))
    refused(UsageError, "had samples per epoch 16, this one has 17", classifier(), 17)
    refused(UsageError, "had optimizer adam, this one has sgd", classifier(optimizer="sgd"))
    refused(WeightFileError, "tensor 'weights/norm:.*' has no place in this model", classifier(normalization=False))
    damaged = bytearray(before)
    damaged[-5] ^= 1
    path.write_bytes(damaged)
    before = bytes(damaged)
    refused(WeightFileError, "do not agree with their hash", classifier())


def test_summary(tmp_path):
    path = tmp_path / "c.safetensors"
    classifier(seed=5).train(*data(20), epochs=9, checkpoint=path, callbacks=[Recorder(stop_step=5)])
    found = checkpoint.summary(path)
    assert (found.seed, found.epoch, found.batch, found.step) == (5, 1, 2, 5)
    assert "[hidden]" in found.ini


PROGRAM = """
import sys
from pathlib import Path
from small_models import Recorder, classifier, data
folder, epochs, kill = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
class Die(Recorder):
    def batch_end(self, run, batch):
        print(batch.step, batch.loss.hex(), flush=True)
        if batch.step == kill:
            import os, signal
            os.kill(os.getpid(), signal.SIGKILL)
path = folder / "checkpoint.safetensors"
model = classifier(batch_size=4)
model.train(*data(21), valid=data(9, 1), epochs=epochs, checkpoint=path, checkpoint_steps=2,
            resume=path.exists(), callbacks=[Die()])
model.save(folder / "final.bin", training_state=True)
"""


def run_program(folder: Path, epochs: int, kill: int) -> tuple[int, dict[int, str]]:
    """Exit code, and the loss of every step that it printed."""
    path = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    command = [sys.executable, "-c", PROGRAM, str(folder), str(epochs), str(kill)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode, {int(step): loss for step, loss in map(str.split, done.stdout.splitlines())}


def test_u040_killed_and_resumed_in_a_new_process(tmp_path):
    """U040: six epochs at once; killed inside the third one and resumed: the losses and the final bytes are equal."""
    (tmp_path / "whole").mkdir()
    (tmp_path / "parts").mkdir()
    code, whole = run_program(tmp_path / "whole", 6, -1)
    assert code == 0
    code, first = run_program(tmp_path / "parts", 6, 15)
    assert code == -signal.SIGKILL
    code, second = run_program(tmp_path / "parts", 6, -1)
    assert code == 0
    assert min(second) == 15  # the last checkpoint was after step 14
    assert {**first, **second} == whole
    assert all(first[step] == second[step] for step in first.keys() & second.keys())
    assert (tmp_path / "whole" / "final.bin").read_bytes() == (tmp_path / "parts" / "final.bin").read_bytes()
