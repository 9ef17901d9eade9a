"""The loop: what an epoch sees, what its figures mean, which epoch is best, and who is told what and when."""

from __future__ import annotations

import csv
import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, r2_score
from small_models import Recorder, classifier, data, figures, regressor, weights

from nntrainer_py.data.generator import IterableDataset
from nntrainer_py.errors import DataError, InterruptedRun, NumericalError, UsageError, WeightFileError
from nntrainer_py.optimizers.constant import Constant
from nntrainer_py.optimizers.reduce_on_plateau import ReduceOnPlateau
from nntrainer_py.training import checkpoint
from nntrainer_py.training.callbacks import AfterEpoch, Callback, HistoryFiles, StopWhen
from nntrainer_py.training.settings import TrainSettings
from nntrainer_py.training.tensorboard import TensorBoard


def test_order_of_calls():
    recorder = Recorder()
    classifier().train(*data(20), valid=data(9, 1), test=data(4, 2), epochs=2, callbacks=[recorder])
    epoch = ["batch_end"] * 3 + ["evaluation_batch valid"] * 2
    assert recorder.calls == [
        "train_begin", "epoch_begin 1", *epoch, "epoch_end 1", "epoch_begin 2", *epoch, "epoch_end 2",
        "evaluation_batch test", "train_end",
    ]  # fmt: skip


def test_u016_batch_larger_than_the_data():
    """U016: 5 samples with batch 32 train one step of 5; 33 give two steps and all are seen; drop_last is an error."""
    recorder = Recorder()
    classifier(batch_size=32).train(*data(5), epochs=2, callbacks=[recorder])
    assert [(b.samples, b.samples_seen) for b in recorder.batches] == [(5, 5)] * 2
    recorder = Recorder()
    classifier(batch_size=32).train(*data(33), callbacks=[recorder])
    assert [(b.samples, b.samples_seen) for b in recorder.batches] == [(32, 32), (1, 33)]


def test_u016_batch_size_changed_after_the_first_use():
    model = classifier()
    for size in (4, 32, 7, 100):
        recorder = Recorder()
        model.train(*data(33), batch_size=size, callbacks=[recorder])
        assert sum(b.samples for b in recorder.batches) == 33


@pytest.mark.filterwarnings("ignore:nothing is trained:nntrainer_py.errors.DataWarning")
def test_figures_are_over_samples():
    """A short last batch counts for its samples: without updates the epoch's figures are those of one large batch."""
    x, y = data(21)
    model = classifier(optimizer="sgd", scheduler=Constant(learning_rate=0.0), dropout=0.0, normalization=False)
    result = model.train(x, y, valid=(x, y), batch_size=8)
    whole = model.evaluate(x, y, batch_size=21)
    row = result.history[0]
    assert row.loss == pytest.approx(whole["loss"], rel=1e-12)
    assert row.metrics["accuracy"] == whole["accuracy"] == row.valid_metrics["accuracy"]
    assert row.valid_loss == pytest.approx(row.loss, rel=1e-12)
    logits = model.predict(x).reshape(21, 3).astype(np.float64)
    assert whole["accuracy"] == np.mean(logits.argmax(axis=1) == y)
    assert whole["loss"] == pytest.approx(-np.mean(np.log(logits[np.arange(21), y])), rel=1e-6)


def test_regression_has_mae_and_r2():
    x, _ = data(30)
    y = np.stack([x[:, 0] - x[:, 1], np.sin(x[:, 2])], axis=1)
    model = regressor()
    result = model.train(x, y, valid=(x, y), epochs=20)
    assert list(result.history[-1].columns()) == [
        "epoch", "loss", "mae", "r2", "valid_loss", "valid_mae", "valid_r2", "learning_rate", "seconds",
    ]  # fmt: skip
    found = model.evaluate(x, y)
    made = model.predict(x).reshape(30, 2)
    assert found["mae"] == pytest.approx(mean_absolute_error(y, made), rel=1e-6)
    assert found["r2"] == pytest.approx(r2_score(y.reshape(-1), made.reshape(-1)), rel=1e-5)
    assert found["loss"] == pytest.approx(np.mean((y - made) ** 2), rel=1e-6)
    assert result.history[-1].loss < result.history[0].loss


def test_the_same_run_twice_and_with_more_threads():
    first, second = classifier(), classifier()
    runs = [model.train(*data(40), valid=data(10, 1), epochs=3) for model in (first, second)]
    assert figures(runs[0]) == figures(runs[1])
    assert weights(first) == weights(second)
    third = classifier().compile(threads=2)
    assert figures(third.train(*data(40), valid=data(10, 1), epochs=3)) == figures(runs[0])
    other = classifier(seed=1)
    assert figures(other.train(*data(40), epochs=3)) != figures(runs[0])


def test_a_second_train_begins_anew_but_keeps_the_weights():
    model = classifier()
    recorder = Recorder()
    model.train(*data(16), epochs=2)
    before = weights(model)
    model.train(*data(16), epochs=1, callbacks=[recorder])
    assert recorder.batches[0].step == 1
    assert weights(model) != before
    fresh = Recorder()
    classifier().train(*data(16), epochs=1, callbacks=[fresh])
    assert recorder.losses != fresh.losses


@pytest.mark.parametrize("count", [32, 29, 33])
def test_accumulated_gradients_are_those_of_a_large_batch(count):
    """Four batches of 4 update as one of 16 does, up to the rounding of other sums; also a short last one."""
    settings = {"dropout": 0.3, "normalization": False, "optimizer": "sgd"}
    large, small = classifier(batch_size=16, **settings), classifier(batch_size=4, gradient_accumulation=4, **settings)
    one, many = Recorder(), Recorder()
    large.train(*data(count), epochs=3, callbacks=[one])
    small.train(*data(count), epochs=3, callbacks=[many])
    assert many.batches[-1].step == one.batches[-1].step == 3 * -(-count // 16)
    for name, array in large.weights().items():
        np.testing.assert_allclose(small.weights()[name], array, rtol=2e-5, atol=1e-6, err_msg=name)
    assert many.result.history[-1].loss == pytest.approx(one.result.history[-1].loss, rel=1e-5)


def test_accumulated_gradients_of_data_of_unknown_length():
    x, y = data(29)
    known, unknown = (classifier(batch_size=4, gradient_accumulation=4, normalization=False) for _ in range(2))
    known.train(x, y, epochs=2, shuffle=False)
    unknown.train(IterableDataset(lambda: zip(x, y, strict=True)), epochs=2)
    for name, array in known.weights().items():
        np.testing.assert_allclose(unknown.weights()[name], array, rtol=1e-4, atol=1e-6, err_msg=name)


def test_early_stopping_restores_the_best_epoch(tmp_path):
    x, y = data(30)
    noise = np.random.default_rng(5).integers(0, 3, 30)
    model = classifier(dropout=0.0, optimizer="adam")
    best = tmp_path / "best.bin"
    result = model.train(x, noise, valid=(x, y), epochs=60, patience=4, save_best_path=best)
    assert result.ended == "early stopping"
    assert result.epoch == result.best_epoch + 4 == len(result.history)
    assert result.restored
    assert model.evaluate(x, y) == {"loss": result.best.valid_loss, **result.best.valid_metrics}


class _Boom(Callback):
    def __init__(self, epoch):
        self._epoch = epoch

    def epoch_end(self, run, row):
        if row.epoch == self._epoch:
            raise RuntimeError("boom")


@pytest.mark.parametrize("ending", ["epochs", "patience", "stop", "not finite", "interrupt", "error"])
def test_u046_the_best_file_gives_the_reported_figures(tmp_path, ending):
    """U046: however the run ends, the best file evaluated afresh has exactly the reported best figures."""
    x, y = data(24)
    noise = np.random.default_rng(5).integers(0, 3, 24)
    recorder = Recorder()
    settings = {"epochs": 12, "patience": 3 if ending == "patience" else 11}
    callbacks: list[Callback] = [recorder]
    error: type[BaseException] | None = None
    source: object = (x, noise)
    if ending == "stop":
        callbacks.append(Recorder(stop_epoch=8))
    elif ending == "not finite":
        error = NumericalError
        bad = x.copy()
        bad[3] = np.nan

        def rows(epoch):
            return zip(bad if epoch == 8 else x, noise, strict=True)

        source = IterableDataset(rows)
    elif ending == "interrupt":
        error = InterruptedRun
        callbacks.append(AfterEpoch(lambda row: os.kill(os.getpid(), signal.SIGINT) if row.epoch == 8 else None))
    elif ending == "error":
        error = RuntimeError
        callbacks.append(_Boom(8))
    model = classifier(dropout=0.0)
    best = tmp_path / "best.bin"

    def run():
        return model.train(source, valid=(x, y), callbacks=callbacks, save_best_path=best, **settings)

    if error is None:
        run()
    else:
        with pytest.raises(error):
            run()
    result = recorder.result
    assert result is not None
    assert result.restored
    reported = {"loss": result.best.valid_loss, **result.best.valid_metrics}
    assert reported == max(
        ({"loss": row.valid_loss, **row.valid_metrics} for row in result.history),
        key=lambda row: (row["accuracy"], -row["loss"]),
    )
    afresh = classifier(dropout=0.0)
    afresh.load(best)
    assert afresh.evaluate(x, y) == reported == model.evaluate(x, y)
    assert afresh.epoch == result.best_epoch


@pytest.mark.parametrize("ending", ["epochs", "best of all epochs", "patience", "stop", "stop inside"])
def test_test_data_is_evaluated_however_a_run_ends(tmp_path, ending):
    """With the weights that the caller gets, also when the run was over early; and the checkpoint is none the wiser."""
    x, y = data(24)
    noise = np.random.default_rng(5).integers(0, 3, 24)
    test = data(9, 3)
    settings: dict[str, Any] = {"epochs": 12, "checkpoint": tmp_path / "c.safetensors"}
    settings |= {"patience": {"patience": 3}, "best of all epochs": {"restore_best": True}}.get(ending, {})
    callbacks = [Recorder(stop_epoch=2 if ending == "stop" else 0, stop_step=5 if ending == "stop inside" else 0)]
    model = classifier(dropout=0.0)
    result = model.train(x, noise, valid=(x, y), test=test, callbacks=callbacks, **settings)
    assert result.ended == {"patience": "early stopping", "stop": "stopped", "stop inside": "stopped"}.get(
        ending, "epochs"
    )
    assert result.test == model.evaluate(*test)
    assert result.restored == (ending in ("patience", "best of all epochs"))
    assert callbacks[0].calls[-3:] == ["evaluation_batch test", "evaluation_batch test", "train_end"]
    without = classifier(dropout=0.0)
    plain = {**settings, "checkpoint": tmp_path / "d.safetensors"}
    stops = [Recorder(stop_epoch=callbacks[0].stop_epoch, stop_step=callbacks[0].stop_step)]
    without.train(x, noise, valid=(x, y), callbacks=stops, **plain)
    assert weights(without) == weights(model)
    stored, other = classifier(dropout=0.0), classifier(dropout=0.0)
    stored.load(settings["checkpoint"])
    other.load(plain["checkpoint"])
    assert weights(stored) == weights(other)


@pytest.mark.parametrize("ending", ["interrupt", "not finite"])
def test_test_data_is_not_evaluated_when_a_run_was_cut_off(ending):
    x, y = data(16)
    recorder = Recorder()
    if ending == "interrupt":
        cut: Callback = AfterEpoch(lambda row: os.kill(os.getpid(), signal.SIGINT))
        error: type[Exception] = InterruptedRun
    else:
        x[3], cut, error = np.nan, Callback(), NumericalError
    with pytest.raises(error):
        classifier().train(x, y, test=data(9, 3), epochs=3, callbacks=[recorder, cut])
    assert recorder.result is not None
    assert recorder.result.test is None
    assert "evaluation_batch test" not in recorder.calls


def test_without_patience_the_last_weights_stay(tmp_path):
    x, y = data(24)
    model = classifier()
    result = model.train(x, y, valid=(x, y), epochs=3)
    assert not result.restored
    assert model.evaluate(x, y)["loss"] == result.history[-1].valid_loss


def test_save_path_is_written_after_every_training_pass(tmp_path):
    x, y = data(16)
    recorder = Recorder()
    path = tmp_path / "weights.bin"
    model = classifier()
    model.train(x, y, valid=(x, y), epochs=2, save_path=path, callbacks=[recorder])
    assert recorder.calls.index("saved weights") < recorder.calls.index("evaluation_batch valid")
    other = classifier()
    other.load(path)
    assert weights(other) == weights(model)
    assert (other.epoch, other.learning_rate(0)) == (2, model.learning_rate(0))


def test_continue_train_goes_on_with_the_stored_state(tmp_path):
    """Two epochs, then a new model with continue_train to four: the bytes of four at once (adam is in the .bin)."""
    x, y = data(24)
    whole = classifier()
    whole.train(x, y, epochs=4)
    path = tmp_path / "weights.bin"
    classifier().train(x, y, epochs=2, save_path=path)
    rest = classifier()
    recorder = Recorder()
    result = rest.train(x, y, epochs=4, save_path=path, continue_train=True, callbacks=[recorder])
    assert [row.epoch for row in result.history] == [3, 4]
    assert recorder.batches[0].step == 7
    assert weights(rest) == weights(whole)


def test_history_files(tmp_path):
    x, y = data(16)
    lines = tmp_path / "history.jsonl"
    table = tmp_path / "history.csv"
    result = classifier().train(x, y, valid=(x, y), epochs=3, callbacks=[HistoryFiles(table, lines)])
    with open(table, newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert list(rows[0]) == ["epoch", "loss", "accuracy", "valid_loss", "valid_accuracy", "learning_rate", "seconds"]
    assert [float(row["loss"]) for row in rows] == result.history.column("loss")
    records = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [record["valid_loss"] for record in records] == result.history.column("valid_loss")


@pytest.mark.parametrize("kind", [str, Path])
def test_paths_may_be_texts(tmp_path, kind):
    """Every parameter that takes a path, of the run and of the callbacks that are there."""
    x, y = data(16)
    places = {name: kind(tmp_path / name) for name in ("h.csv", "h.jsonl", "w.bin", "b.bin", "c.safetensors", "events")}
    callbacks = [HistoryFiles(csv=places["h.csv"], json_lines=places["h.jsonl"]), TensorBoard(places["events"])]
    files = {"save_path": places["w.bin"], "save_best_path": places["b.bin"], "checkpoint": places["c.safetensors"]}
    model = classifier()
    result = model.train(x, y, valid=(x, y), epochs=2, callbacks=callbacks, **files)
    assert {path.name for path in tmp_path.iterdir()} == set(places)
    result.history.write_csv(kind(tmp_path / "again.csv"))
    result.history.write_json_lines(kind(tmp_path / "again.jsonl"))
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "h.csv").read_bytes()
    assert (tmp_path / "again.jsonl").read_bytes() == (tmp_path / "h.jsonl").read_bytes()
    assert checkpoint.summary(places["c.safetensors"]).epoch == 2
    settings = TrainSettings(epochs=1, **files)
    assert [getattr(settings, name) for name in files] == [Path(path) for path in files.values()]


def test_stop_callback():
    seen = []
    result = classifier().train(
        *data(24), epochs=5, callbacks=[StopWhen(lambda: len(seen) == 2), AfterEpoch(seen.append)]
    )
    assert (result.ended, result.epoch, len(result.history)) == ("stopped", 2, 2)


def test_plateau_schedule_is_told_the_figures():
    x, y = data(16)
    schedule = ReduceOnPlateau(learning_rate=0.01, factor=0.5, patience=0, threshold=1.0)
    result = classifier(scheduler=schedule).train(x, y, valid=(x, y), epochs=3)
    assert result.history.column("learning_rate") == [0.01, 0.01, 0.005]
    with pytest.raises(UsageError, match=r"valid_loss.*there is no validation data"):
        classifier(scheduler=ReduceOnPlateau(learning_rate=0.01)).train(x, y)


def test_faults_before_the_first_step(tmp_path):
    x, y = data(16)
    recorder = Recorder()

    def refused(error, match, **settings):
        with pytest.raises(error, match=match):
            classifier().train(x, y, callbacks=[recorder], **settings)

    refused(UsageError, "unknown argument 'pacience'; did you mean 'patience'", pacience=3)
    refused(UsageError, "monitor: expected one of loss, accuracy, got 'valid_loss'; there is no", monitor="valid_loss")
    refused(UsageError, "monitor: expected one of", monitor="lost")
    refused(UsageError, "patience: expected 1 or more epochs, got 0", patience=0)
    refused(WeightFileError, "the folder .*nowhere does not exist", save_path=tmp_path / "nowhere" / "w.bin")
    refused(WeightFileError, "is a folder", save_best_path=tmp_path)
    refused(WeightFileError, "does not exist", checkpoint=tmp_path / "nowhere" / "c.safetensors")
    refused(WeightFileError, "no such file", checkpoint=tmp_path / "c.safetensors", resume=True)
    refused(UsageError, "resume needs the checkpoint", resume=True)
    with pytest.raises(DataError, match="sample 3: expected a class index"):
        classifier().train(x, np.array([0, 1, 2, 3] * 4), callbacks=[recorder])
    with pytest.raises(UsageError, match="no training data"):
        classifier().train()
    assert recorder.calls == []
    assert list(tmp_path.iterdir()) == []


def test_gradients_of_a_run_that_failed_do_not_reach_the_next():
    """A callback fails between the batches of a logical one; the next run is that of a model without a past."""
    x, y = data(16)

    class Fails(Callback):
        def batch_end(self, run, batch):
            raise RuntimeError("mine")

    model, fresh = (classifier(batch_size=4, gradient_accumulation=4, normalization=False) for _ in range(2))
    with pytest.raises(RuntimeError, match="mine"):
        model.train(x, y, callbacks=[Fails()])
    assert weights(model) == weights(fresh)
    model.train(x, y)
    fresh.train(x, y)
    assert weights(model) == weights(fresh)
