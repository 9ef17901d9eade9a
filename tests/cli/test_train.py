"""nntrainer-train: the run folder, its files, its refusals, going on."""

from __future__ import annotations

import csv
import json
import re
import shlex
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from commands import MODEL, command, points, process, program, write_problem

FILES = {
    "best.safetensors", "checkpoint.safetensors", "confusion.png", "curves.png", "evaluation.json", "history.csv",
    "history.jsonl", "layout.json", "model.bin", "model.ini", "model.safetensors", "result.json", "run.log",
}  # fmt: skip
COLUMNS = ["epoch", "loss", "accuracy", "valid_loss", "valid_accuracy", "learning_rate", "seconds"]


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "history.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.usefixtures("no_sockets")
def test_a_run_leaves_everything_in_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path / "work")
    done = command(capsys, "train", ini)
    assert done.code == 0
    assert done.err == ""
    folder = tmp_path / "work" / "runs" / "model-1"
    assert {path.name for path in folder.iterdir()} == FILES
    rows = _rows(folder)
    assert list(rows[0]) == COLUMNS
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert all(0.0 <= float(row[name]) <= 1.0 for row in rows for name in ("accuracy", "valid_accuracy"))
    lines = [line for line in done.out.splitlines() if line.startswith("epoch ")]
    assert len(lines) == 3
    for line in lines:
        for word in ("loss", "accuracy", "valid_loss", "valid_accuracy", " s"):
            assert word in line
    assert done.out.isascii()
    assert str(folder) in done.out
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert result["final"]["valid_accuracy"] == float(rows[-1]["valid_accuracy"])
    assert result["best"]["valid_loss"] == min(
        float(row["valid_loss"]) for row in rows if float(row["valid_accuracy"]) == result["best"]["valid_accuracy"]
    )
    assert (result["seed"], result["epochs"], result["exit_code"], result["version"] > "") == (0, 3, 0, True)
    planned = result["memory"]["planned"]
    assert planned["total"] == sum(planned[key] for key in ("weights", "optimizer", "gradients", "arena", "data"))
    assert result["memory"]["peak_resident"] > planned["total"]
    assert 0 < result["seconds_to_first_step"] <= result["seconds_of_process"]
    # the picture files are pictures
    assert (folder / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("verb", [True, False])
def test_seconds_are_those_of_the_command_alone(tmp_path: Path, verb: bool) -> None:
    """A shell that execs the command may have spent any time in the same process before."""
    ini = write_problem(tmp_path)
    words = [*program("main"), "train"] if verb else program("train")
    script = f"sleep 3; exec {shlex.join([*words, str(ini), '--quiet', '--out', str(tmp_path / 'run')])}"
    began = time.monotonic()
    subprocess.run(["sh", "-c", script], check=True)
    whole = time.monotonic() - began
    result = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    assert 0 < result["seconds_to_first_step"] <= result["seconds_of_process"] < whole - 2.9
    # what is not counted is the sleep and the end of Python, not the import of what computes
    assert result["seconds_of_process"] > result["seconds"]


def test_the_next_free_number_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path, name="my net.ini")
    (tmp_path / "runs" / "my net-7").mkdir(parents=True)
    (tmp_path / "runs" / "my net-x").mkdir()
    assert command(capsys, "train", ini, "--epochs", 1).code == 0
    assert (tmp_path / "runs" / "my net-8" / "model.bin").is_file()


def test_out_that_exists_is_refused_and_untouched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    out = tmp_path / "run"
    out.mkdir()
    (out / "history.csv").write_text("mine", encoding="utf-8")
    done = command(capsys, "train", ini, "--out", out)
    assert done.code == 2
    assert "--out" in done.err
    assert "--overwrite" in done.err
    assert [path.name for path in out.iterdir()] == ["history.csv"]
    assert (out / "history.csv").read_text(encoding="utf-8") == "mine"
    (out / "history.csv").unlink()
    assert command(capsys, "train", ini, "--out", out, "--overwrite", "--quiet").code == 0
    assert len(_rows(out)) == 3
    done = command(capsys, "train", ini, "--out", ini)
    assert done.code == 2
    assert "is no folder" in done.err


def test_resume_is_bit_equal_to_a_run_that_never_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert command(capsys, "train", ini, "--out", whole, "--epochs", 4).code == 0
    assert command(capsys, "train", ini, "--out", parts, "--epochs", 2).code == 0
    done = command(capsys, "train", ini, "--out", parts, "--epochs", 4, "--resume")
    assert done.code == 0
    assert "resumed at epoch 3 (12 steps done)" in done.out
    assert (parts / "model.bin").read_bytes() == (whole / "model.bin").read_bytes()
    assert [row["loss"] for row in _rows(parts)] == [row["loss"] for row in _rows(whole)]


def test_resume_with_nothing_to_do_touches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    assert command(capsys, "train", ini).code == 0
    folder = tmp_path / "runs" / "model-1"
    before = {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()}
    done = command(capsys, "train", ini, "--resume")
    assert done.code == 0
    assert "nothing to do" in done.out
    assert {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["model-1"]


def test_a_run_that_stopped_early_has_nothing_to_do_either(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini, out = write_problem(tmp_path), tmp_path / "run"
    words = (ini, "--out", out, "--patience", 2, "--epochs", 200, "--test", tmp_path / "valid.dat")
    assert command(capsys, "train", *words).code == 0
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    assert result["ended"] == "early stopping"
    # the test data is evaluated with the weights that are left, here those of the best epoch
    assert result["test"]["loss"] == result["best"]["valid_loss"]
    done = command(capsys, "train", *words, "--resume")
    assert done.code == 0
    first, second = done.out.splitlines()
    assert first == (
        f"nothing to do: stopped early after epoch {result['epochs']} of 200: 2 epochs brought nothing better than "
        f"epoch {result['best']['epoch']}; ask for more patience to go on"
    )
    assert second.startswith("test: loss ")
    assert json.loads((out / "result.json").read_text(encoding="utf-8")) == result


@pytest.mark.parametrize("cut", ["killed", "interrupted"])
def test_a_run_cut_off_behind_its_last_epoch_is_finished(
    cut: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Killed, or interrupted in the pass over the test data: resuming brings what is missing, and then nothing."""
    ini, out = write_problem(tmp_path), tmp_path / "run"
    words = (ini, "--out", out, "--test", tmp_path / "valid.dat")
    assert command(capsys, "train", *words).code == 0
    files = ("model.bin", "model.safetensors", "evaluation.json", "history.csv")
    whole = {name: (out / name).read_bytes() for name in files}
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    if cut == "killed":
        for name in ("result.json", *files[:3]):
            (out / name).unlink()
        (out / "history.csv").write_bytes(b"".join(whole["history.csv"].splitlines(keepends=True)[:-1]))
    else:
        cut_off = {**result, "ended": "interrupted", "exit_code": 130, "test": None}
        (out / "result.json").write_text(json.dumps(cut_off), encoding="utf-8")
    done = command(capsys, "train", *words, "--resume")
    assert done.code == 0
    assert "done      3 epochs are done" in done.out
    assert {name: (out / name).read_bytes() for name in files} == whole
    late = json.loads((out / "result.json").read_text(encoding="utf-8"))
    for key in ("ended", "exit_code", "epochs", "steps", "final", "best", "test", "weights_of_epoch"):
        assert late[key] == result[key], key
    assert command(capsys, "train", *words, "--resume").out.startswith("nothing to do: 3 epochs are done")


def test_continue_train_with_nothing_left_makes_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = MODEL.replace("[Model]\n", "[Model]\ncontinue_train = true\nsave_path = w.bin\n")
    ini = write_problem(tmp_path, text)
    assert command(capsys, "train", ini, "--epochs", 1, "--out", tmp_path / "first").code == 0
    before = (tmp_path / "w.bin").read_bytes()
    for words in ((), ("--out", tmp_path / "second")):
        done = command(capsys, "train", ini, "--epochs", 1, *words)
        assert (done.code, done.err) == (0, "")
        assert done.out == "nothing to do: 1 epoch is done, 1 asked for; ask for more to go on\n"
    (record,) = map(json.loads, command(capsys, "train", ini, "--epochs", 1, "--json").out.splitlines())
    assert (record["ended"], record["folder"]) == ("nothing to do", None)
    assert not (tmp_path / "runs").exists()
    assert not (tmp_path / "second").exists()
    assert (tmp_path / "w.bin").read_bytes() == before
    done = command(capsys, "train", ini, "--epochs", 2, "--out", tmp_path / "second")
    assert "done      2 epochs are done" in done.out


FAULTY = """\
import numpy as np
from nntrainer_py import Layer, register_layer

@register_layer("faulty")
class Faulty(Layer):
    count = 0

    def finalize(self, ctx):
        ctx.output(ctx.inputs[0])

    def forward(self, ctx):
        Faulty.count += 1
        if Faulty.count >= LAST:
            raise ValueError("no such thing")
        ctx.outputs[0][...] = ctx.inputs[0]

    def calc_derivative(self, ctx):
        ctx.derivatives[0][...] = ctx.incoming[0]
"""


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_first_step_that_fails_leaves_nothing(tmp_path: Path, overwrite: bool) -> None:
    """Neither a folder with untrained weights, nor a run that was to be replaced and is gone."""
    ini = write_problem(tmp_path, MODEL.replace("[cloud]", "[mine]\ntype = faulty\n\n[cloud]"))
    plugin = tmp_path / "mine.py"
    out = tmp_path / "run"
    words: list[object] = [ini, "--plugin", plugin, "--out", out, "--test", "valid.dat"]
    before: dict[str, bytes] = {}
    if overwrite:
        plugin.write_text(FAULTY.replace("LAST", "10 ** 9"), encoding="utf-8")
        assert process("train", *words, cwd=tmp_path).code == 0
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        words.append("--overwrite")
    plugin.write_text(FAULTY.replace("LAST", "1"), encoding="utf-8")
    done = process("train", *words, cwd=tmp_path)
    assert done.code != 0
    assert "no such thing" in done.err
    assert out.exists() == overwrite
    if overwrite:
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    else:
        assert process("train", *words[:3], cwd=tmp_path).code != 0
        assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        ("type = cosine", "the rate starts from the top again after step 12, in epoch 3 of 4"),
        ("type = linear", "the rate stays at min_learning_rate after step 12, in epoch 3 of 4"),
    ],
)
def test_a_schedule_that_more_epochs_do_not_stretch_is_told(
    schedule: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = f"[LearningRateScheduler]\n{schedule}\nmax_learning_rate = 0.02\nmin_learning_rate = 0.001\n"
    text = MODEL.replace("learning_rate = 0.02\n", f"\n{rates}decay_steps = 12\n")
    ini, out = write_problem(tmp_path, text), tmp_path / "run"
    assert command(capsys, "train", ini, "--out", out, "--epochs", 2).err == ""
    done = command(capsys, "train", ini, "--out", out, "--epochs", 4, "--resume")
    assert done.code == 0
    assert done.err.count("\n") == 1
    assert f"[LearningRateScheduler] decay_steps: {told}" in done.err
    changed = write_problem(tmp_path, text.replace("decay_steps = 12", "decay_steps = 30"))
    done = command(capsys, "train", changed, "--out", out, "--epochs", 5, "--resume")
    assert "was changed since the run began" in done.err
    assert command(capsys, "train", changed, "--out", out, "--epochs", 5, "--resume").err == ""


def test_resume_without_a_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    for options in ((), ("--out", tmp_path / "nothing")):
        done = command(capsys, "train", ini, "--resume", *options)
        assert done.code == 2
        assert "checkpoint.safetensors" in done.err
    assert not (tmp_path / "nothing").exists()
    assert command(capsys, "train", ini, "--resume", "--overwrite").code == 2


def test_result_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = command(capsys, "train", write_problem(tmp_path), "--json")
    records = [json.loads(line) for line in done.out.splitlines()]
    assert records[-1]["final"]["loss"] == records[2]["loss"]
    assert Path(records[-1]["folder"]).name == "model-1"


def test_event_files_for_tensorboard(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini, run = write_problem(tmp_path), tmp_path / "run"
    assert command(capsys, "train", ini, "--out", run, "--epochs", 1, "--tensorboard").code == 0
    (first,) = (run / "tensorboard").iterdir()
    assert b"batch/loss" in first.read_bytes()
    assert b"accuracy/valid" in first.read_bytes()
    assert command(capsys, "train", ini, "--out", run, "--resume", "--tensorboard").code == 0
    assert len(list((run / "tensorboard").iterdir())) == 2
    # an earlier run's files go away with it; other files in the folder stay
    (run / "tensorboard" / "mine").touch()
    events = tmp_path / "all" / "events"
    done = command(capsys, "train", ini, "--out", run, "--overwrite", f"--tensorboard={events}", "--test", "valid.dat")
    assert done.code == 3
    assert len(list((run / "tensorboard").iterdir())) == 3  # nothing was touched by a run that did not begin
    assert command(capsys, "train", ini, "--out", run, "--overwrite", "--tensorboard", events, "--quiet").code == 0
    assert [path.name for path in (run / "tensorboard").iterdir()] == ["mine"]
    assert len(list(events.iterdir())) == 1


def test_event_folders_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    done = command(capsys, "train", "--tensorboard", ini)
    assert done.code == 2
    assert "--tensorboard: " in done.err
    assert "model.ini' is a file" in done.err
    done = command(capsys, "train", ini, "--tensorboard", ini / "events", "--valid", tmp_path / "nix.csv")
    assert done.code == 2
    assert "--tensorboard: " in done.err
    assert "nix.csv" in done.err
    assert not (tmp_path / "runs").exists()


def test_quiet_is_silent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = command(capsys, "train", write_problem(tmp_path), "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")


def test_regression_has_its_own_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, _ = points(60, 3)
    np.savez(tmp_path / "line.npz", x=x, y=(x @ [1.0, -2.0, 0.5, 0.0]).astype(np.float32)[:, None])
    text = MODEL.replace("loss = cross", "loss = mse").replace("unit = 3\nactivation = softmax", "unit = 1")
    text = "\n\n".join(part for part in text.split("\n\n") if not part.startswith(("[train_set]", "[valid_set]")))
    ini = tmp_path / "line.ini"
    ini.write_text(text, encoding="utf-8")
    out = tmp_path / "run"
    assert command(capsys, "train", ini, "--train", tmp_path / "line.npz", "--out", out).code == 0
    rows = _rows(out)
    assert list(rows[0]) == [
        "epoch", "loss", "mae", "r2", "valid_loss", "valid_mae", "valid_r2", "learning_rate", "seconds",
    ]  # fmt: skip
    assert rows[0]["valid_loss"] == rows[0]["valid_r2"] == ""
    assert float(rows[-1]["r2"]) > float(rows[0]["r2"])
    assert not (out / "confusion.png").exists()


def test_options_reach_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    out = tmp_path / "run"
    options = ["--seed", 7, "--threads", 1, "--batch-size", 30, "--epochs", 1, "--set", "optimizer.learning_rate=0.5"]
    assert command(capsys, "train", ini, "--out", out, "--test", tmp_path / "valid.dat", *options).code == 0
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    assert (result["seed"], result["threads"], result["batch_size"], result["steps"]) == (7, 1, 30, 3)
    assert result["test"]["loss"] == result["final"]["valid_loss"]
    assert float(_rows(out)[0]["learning_rate"]) == 0.5
    # the resolved description in the folder stands alone
    copied = command(capsys, "train", out / "model.ini", "--check", "--json")
    assert json.loads(copied.out)["batch_size"] == 30


def test_early_stopping_ends_with_the_best_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    out = tmp_path / "run"
    options = ["--epochs", 60, "--patience", 2, "--monitor", "valid_loss", "--set", "optimizer.learning_rate=0.3"]
    done = command(capsys, "train", ini, "--out", out, *options)
    assert done.code == 0
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    assert result["ended"] == "early stopping"
    assert result["weights_of_epoch"] == result["best"]["epoch"] == result["epochs"] - 2
    done = command(capsys, "infer", ini, "--weights", out, "--data", tmp_path / "valid.dat", "--evaluate", "--json")
    assert json.loads(done.out)["loss"] == pytest.approx(result["best"]["valid_loss"], rel=1e-12)


def test_a_loss_that_is_not_finite_ends_with_code_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    table = np.fromfile(tmp_path / "train.dat", "<f4").reshape(-1, 7)
    table[33, 2] = np.inf
    table.astype("<f4").tofile(tmp_path / "train.dat")
    out = tmp_path / "run"
    done = command(capsys, "train", ini, "--out", out)
    assert done.code == 4
    assert "epoch 1" in done.err
    assert "Traceback" not in done.err
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    assert (result["ended"], result["exit_code"]) == ("not finite", 4)
    assert not (out / "model.bin").exists()


def test_save_path_of_the_description_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path, MODEL.replace("epochs = 3", "epochs = 1\nsave_path = deep/er/w.bin"))
    assert command(capsys, "train", ini).code == 0
    assert (tmp_path / "deep" / "er" / "w.bin").read_bytes() == (
        tmp_path / "runs" / "model-1" / "model.bin"
    ).read_bytes()


def test_a_csv_with_names_and_normalization(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["red", "green", "blue"]
    for file, seed in (("train.csv", 0), ("valid.csv", 1)):
        x, classes = points(60, seed)
        rows = [",".join([*(f"{50 + 10 * v:.4f}" for v in row), names[c]]) for row, c in zip(x, classes, strict=True)]
        (tmp_path / file).write_text("\n".join(["a,b,c,d,colour", *rows]) + "\n", encoding="utf-8")
    text = MODEL.replace("type = file", "type = csv").replace(".dat", ".csv")
    text = text.replace("path = train.csv", "path = train.csv\nnormalization = standard\nnormalization_scope = feature")
    ini = tmp_path / "model.ini"
    ini.write_text(text, encoding="utf-8")
    out = tmp_path / "run"
    assert command(capsys, "train", ini, "--out", out, "--epochs", 8).code == 0
    result = json.loads((out / "result.json").read_text(encoding="utf-8"))
    classes = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))["classes"]
    assert sorted(one["name"] for one in classes) == sorted(names)
    # prediction scales the same way: the figures of the run come back, from the .bin and from the .safetensors
    for weights in (out, out / "model.bin"):
        done = command(
            capsys, "infer", ini, "--weights", weights, "--data", tmp_path / "valid.csv", "--json", "--evaluate"
        )
        assert json.loads(done.out)["loss"] == pytest.approx(result["final"]["valid_loss"], rel=1e-12)
    lonely = tmp_path / "lonely.bin"
    lonely.write_bytes((out / "model.bin").read_bytes())
    done = command(capsys, "infer", ini, "--weights", lonely, "--data", tmp_path / "valid.csv")
    assert done.code == 2
    assert "normalized" in done.err


def test_a_budget_that_cannot_be_met_costs_no_earlier_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    out = tmp_path / "run"
    assert command(capsys, "train", ini, "--out", out, "--quiet").code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    done = command(capsys, "train", ini, "--out", out, "--overwrite", "--memory-budget", "1KB")
    assert done.code == 2
    assert done.err.startswith(f"{ini}: [Model] memory_budget: ")
    smallest = re.search(r"the smallest that would do is [^(]*\((\d+) bytes\)", done.err)
    assert smallest is not None
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    # the figure is kept: the plan of the run, its data buffers included, stays below it
    done = command(capsys, "train", ini, "--out", out, "--overwrite", "--memory-budget", smallest[1], "--json")
    assert done.code == 0, done.err
    result = json.loads(done.out.splitlines()[-1])
    assert result["memory"]["planned"]["total"] <= int(smallest[1])
    assert (out / "model.bin").read_bytes() == before["model.bin"]


def test_a_run_starts_from_given_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    first = tmp_path / "first"
    assert command(capsys, "train", ini, "--out", first, "--epochs", 12).code == 0
    trained, fresh = (float(_rows(first)[row]["loss"]) for row in (-1, 0))
    before = {path.name: path.read_bytes() for path in first.iterdir()}
    losses = set()
    for name, given in (("folder", first), ("bin", first / "model.bin"), ("st", first / "model.safetensors")):
        done = command(capsys, "train", ini, "--out", tmp_path / name, "--epochs", 2, "--weights", given)
        assert done.code == 0, done.err
        rows = _rows(tmp_path / name)
        assert [row["epoch"] for row in rows] == ["1", "2"]  # counters start anew
        assert float(rows[0]["loss"]) < trained + 0.2 * (fresh - trained)
        losses.add(rows[0]["loss"])
    assert len(losses) == 1
    assert {path.name: path.read_bytes() for path in first.iterdir()} == before
    done = command(capsys, "train", ini, "--check", "--weights", first)
    assert done.code == 0, done.err


def test_given_weights_that_cannot_be_started_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    first, out = tmp_path / "first", tmp_path / "out"
    assert command(capsys, "train", ini, "--out", first, "--epochs", 1).code == 0
    before = {path.name: path.read_bytes() for path in first.iterdir()}
    (tmp_path / "short.bin").write_bytes(b"\0" * 40)
    other = tmp_path / "other.ini"
    other.write_text(MODEL.replace("unit = 8", "unit = 9"), encoding="utf-8")
    saving = tmp_path / "saving.ini"
    saving.write_text(MODEL.replace("epochs = 3", "epochs = 3\nsave_path = first/model.bin"), encoding="utf-8")
    going_on = tmp_path / "on.ini"
    going_on.write_text(MODEL.replace("epochs = 3", "epochs = 3\ncontinue_train = true"), encoding="utf-8")
    for code, said, *words in (
        (2, "--resume and --weights", ini, "--out", first, "--resume", "--weights", first),
        (2, "would overwrite", ini, "--out", first, "--overwrite", "--weights", first),
        (2, "would overwrite the weights", saving, "--out", out, "--weights", first / "model.bin"),
        (2, "on.ini:4: [Model] continue_train", going_on, "--out", out, "--weights", first),
        (3, "no such file", ini, "--out", out, "--weights", tmp_path / "nix.bin"),
        (3, "--weights: ", ini, "--out", out, "--weights", tmp_path / "short.bin"),
        (3, "--weights: ", other, "--out", out, "--weights", first),
        (3, "--weights: ", other, "--check", "--weights", first),
    ):
        done = command(capsys, "train", *words)
        assert done.code == code, (words, done.err)
        assert said in done.err
    assert not out.exists()
    assert {path.name: path.read_bytes() for path in first.iterdir()} == before


def test_given_weights_keep_the_order_of_their_classes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    x, classes = points(90, 0)
    rows = [f"{','.join(map(str, values))},{'abc'[number]}" for values, number in zip(x.tolist(), classes, strict=True)]
    (tmp_path / "all.csv").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "some.csv").write_text("\n".join(row for row in rows if row[-1] != "a"), encoding="utf-8")
    first, second = tmp_path / "first", tmp_path / "second"
    text = "\n\n".join(part for part in MODEL.split("\n\n") if "valid_set" not in part)
    ini.write_text(text.replace("type = file\npath = train.dat", "type = csv\npath = all.csv"), encoding="utf-8")
    assert command(capsys, "train", ini, "--out", first, "--epochs", 12).code == 0
    done = command(
        capsys, "train", ini, "--out", second, "--epochs", 1, "--weights", first, "--train", tmp_path / "some.csv"
    )
    assert done.code == 0, done.err
    done = command(
        capsys, "infer", ini, "--weights", second, "--data", tmp_path / "all.csv", "--output", tmp_path / "p"
    )
    assert done.code == 0, done.err
    found = float(re.search(r"accuracy ([0-9.]+) %", done.out)[1])  # type: ignore[index]
    assert found > 85
