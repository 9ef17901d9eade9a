"""A run goes on as it began: what the numbers follow from may not change, everything else may."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from commands import MODEL, command, write_problem

TEXT = MODEL.replace("epochs = 3", "epochs = 1").replace(
    "[cloud]", "[drop]\ntype = dropout\ndropout_rate = 0.1\n\n[cloud]"
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, model and the run of one epoch, never changed."""
    from nntrainer_py.cli.train import main

    folder = tmp_path_factory.mktemp("trained")
    ini = write_problem(folder, TEXT)
    assert main([str(ini), "--out", str(folder / "run"), "--quiet"]) == 0
    return folder


@pytest.fixture
def begun(trained: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(trained, tmp_path / "begun"))


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


CHANGES = [
    # what stood there, what stands there now, where and which key, before, now
    ("activation = relu", "activation = tanh", "[hidden] activation", "relu", "tanh"),
    ("activation = relu", "# activation", "[hidden] activation", "relu", "unset"),
    ("dropout_rate = 0.1", "dropout_rate = 0.6", "[drop] dropout_rate", "0.1", "0.6"),
    ("unit = 8", "unit = 8\nweight_decay = 0.1", "[hidden] weight_decay", "", "0.1"),
    ("dropout\ndropout_rate = 0.1", "activation\nactivation = tanh", "[drop] type", "dropout", "activation"),
    ("loss = cross", "loss = mse", "[Model] loss", "cross", "mse"),
    ("loss = cross", "loss = cross\nclip_grad_by_norm = 0.5", "[Model] clip_grad_by_norm", "unset", "0.5"),
    ("learning_rate = 0.02", "learning_rate = 0.01", "[Optimizer] learning_rate", "0.02", "0.01"),
    ("learning_rate = 0.02", "learning_rate = 0.02\nbeta1 = 0.5", "[Optimizer] beta1", "0.9", "0.5"),
    ("path = train.dat", "path = train.dat\nnormalization = standard", "[train_set] normalization", "none", "standard"),
    ("path = train.dat", "path = train.dat\nshuffle = false", "[train_set] shuffle", "true", "false"),
    ("[drop]\ntype = dropout\ndropout_rate = 0.1\n", "", "[drop]", "such a layer", "none"),
    ("[drop]", "[more]\ntype = flatten\n\n[drop]", "[more]", "no such layer", "one"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "place", "before", "now"), CHANGES)
def test_what_the_numbers_follow_from_may_not_change(
    old: str, new: str, place: str, before: str, now: str, begun: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = TEXT.replace(old, new)
    assert text != TEXT
    ini, run = begun / "model.ini", begun / "run"
    ini.write_text(text, encoding="utf-8")
    files = _contents(run)
    done = command(capsys, "train", ini, "--out", run, "--resume", "--epochs", 2)
    assert done.code == 2
    assert done.err.count("\n") == 1
    key = place.partition("] ")[2]
    said = f"{place}{':' if key else ''} {run / 'checkpoint.safetensors'}: the run to go on had {before}"
    assert said in done.err
    assert f", this one has {now}" in done.err
    assert "it can only go on as it began" in done.err
    assert _contents(run) == files
    if f"\n{key} = {now}" in text and key:
        section = place[: place.index("]") + 1]
        line = text[: text.index(f"\n{key} = {now}", text.index(section)) + 1].count("\n") + 1
        assert done.err.startswith(f"{ini}:{line}: {section}")


def test_an_option_of_the_first_command_may_not_be_left_out(
    begun: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini, words = begun / "model.ini", ("--out", tmp_path / "other", "--set", "hidden.activation=tanh")
    assert command(capsys, "train", ini, *words).code == 0
    done = command(capsys, "train", ini, *words[:2], "--resume", "--epochs", 2)
    assert done.code == 2
    assert "[hidden] activation: " in done.err
    assert "had tanh, this one has relu" in done.err
    assert command(capsys, "train", ini, *words, "--resume", "--epochs", 2).code == 0


def test_connections_may_not_change(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TEXT.replace("[cloud]", "[sum]\ntype = addition\ninput_layers = hidden, drop\n\n[cloud]")
    ini, run = write_problem(tmp_path, text), tmp_path / "run"
    assert command(capsys, "train", ini, "--out", run).code == 0
    ini.write_text(text.replace("hidden, drop", "hidden, drop, drop"), encoding="utf-8")
    done = command(capsys, "train", ini, "--out", run, "--resume", "--epochs", 2)
    assert done.code == 2
    assert "[sum] input_layers: " in done.err
    assert "had hidden, drop, this one has hidden, drop, drop; " in done.err


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epochs = 1", "epochs = 2\nsave_path = end.bin\nsave_best_path = best.bin"),
        ("epochs = 1", "epochs = 2\nmemory_optimization = false\nmemory_budget = 1GB\nthreads = 1"),
        ("path = train.dat", "path = moved.dat\nbuffer_size = 3\nnormalization = none\nshuffle = true"),
        ("unit = 8", "unit = 8\ntrainable = true\nweight_initializer = zeros\ninput_layers = point"),
        ("activation = relu", "activation = ReLU"),
        ("learning_rate = 0.02", "learning_rate = 2e-2\nbeta1 = 0.9"),
        ("[hidden]\ntype = fully_connected", "# a remark\n[hidden]\ntype = fully_connected # another"),
    ],
)
def test_what_changes_no_number_may_change(old: str, new: str, begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = TEXT.replace(old, new)
    assert text != TEXT
    whole = begun / "whole"
    assert command(capsys, "train", begun / "model.ini", "--out", whole, "--epochs", 2).code == 0
    (begun / "model.ini").write_text(text, encoding="utf-8")
    shutil.copy(begun / "train.dat", begun / "moved.dat")
    done = command(capsys, "train", begun / "model.ini", "--out", begun / "run", "--resume", "--epochs", 2)
    assert (done.code, done.err) == (0, "")
    if "threads" not in new:
        assert (begun / "run" / "model.bin").read_bytes() == (whole / "model.bin").read_bytes()
