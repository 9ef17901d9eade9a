"""nntrainer-train --check: the table of the layers and the planned memory, without data."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from commands import MODEL, command, write_problem
from shared import shared_files

from nntrainer_py import DataWarning, Model
from nntrainer_py.cli.quantities import amount
from nntrainer_py.registry import LAYERS


def test_the_table_and_the_totals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = tmp_path / "model.ini"
    ini.write_text(MODEL, encoding="utf-8")
    done = command(capsys, "train", "--check", ini)
    assert (done.code, done.err) == (0, "")
    rows = {line.split()[0]: line.split() for line in done.out.splitlines() if line.strip()}
    assert rows["layer"] == ["layer", "type", "output", "parameters", "in", "place"]
    assert rows["point"] == ["point", "input", "1:1:4", "-", "no"]
    assert rows["hidden"][:4] == ["hidden", "fully_connected", "1:1:8", "40"]
    # computed in one with its activation: its own output never lies in memory
    assert rows["hidden"][4] in ("fused", "no")
    assert rows["cloud"] == ["cloud", "fully_connected", "1:1:3", "27", "no"]
    assert rows["parameters"][:2] == ["parameters", "67"]
    assert "training, batch 16" in done.out
    assert [path.name for path in tmp_path.iterdir()] == ["model.ini"]


def test_json_has_the_same_and_memory_adds_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = tmp_path / "model.ini"
    ini.write_text(MODEL, encoding="utf-8")
    record = json.loads(command(capsys, "train", "--check", ini, "--json").out)
    assert record["parameters"] == record["trainable_parameters"] == 4 * 8 + 8 + 8 * 3 + 3
    memory = record["memory"]
    # sizes are rounded up to 64 bytes, tensor by tensor
    assert memory["weights"] == 128 + 64 + 128 + 64
    assert memory["optimizer"] == 2 * memory["weights"]
    # a ring of two batches for each of two sections: 4 inputs, 3 labels and a sample number
    assert memory["data"] == 2 * 2 * 16 * (4 * 7 + 8)
    assert memory["lower_bound"] <= memory["arena"] <= memory["without_reuse"]
    parts = ("weights", "state", "optimizer", "gradients", "arena", "data")
    assert memory["total"] == sum(memory[key] for key in parts)


@pytest.mark.parametrize(("taken", "words"), [("loss", "no loss"), ("optimizer", "no optimizer")])
def test_a_model_that_cannot_be_trained_is_planned_for_inference(
    taken: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = {"loss": "loss = cross\n", "optimizer": "[Optimizer]\ntype = adam\nlearning_rate = 0.02\n"}[taken]
    ini = tmp_path / "model.ini"
    ini.write_text(MODEL.replace(cut, ""), encoding="utf-8")
    done = command(capsys, "train", "--check", ini)
    assert done.code == 0
    assert f"the model has {words}: planned for inference" in done.out
    assert "optimizer state" not in done.out


def test_data_given_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    (tmp_path / "odd.dat").write_bytes(b"\0" * 10)
    assert command(capsys, "train", "--check", ini, "--train", tmp_path / "train.dat").code == 0
    done = command(capsys, "train", "--check", ini, "--train", tmp_path / "odd.dat")
    assert done.code == 3
    assert "odd.dat" in done.err


@pytest.mark.parametrize("path", shared_files("ini/*.ini"), ids=lambda path: path.stem)
def test_public_files_check_or_are_refused_with_their_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = command(capsys, "train", "--check", path)
    assert done.code in (0, 2)
    assert "Traceback" not in done.err
    if done.code == 2:
        faults = [line for line in done.err.splitlines() if not line.startswith("warning: ")]
        assert faults
        assert all(line.startswith(f"{path.parent}") or "[" in line for line in faults), faults
    else:
        assert "no fault was found" in done.out


def test_the_orders_that_were_tried_are_told_by_inspect_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = write_problem(tmp_path)
    assert "canonical" not in command(capsys, "train", "--check", ini).out
    assert "canonical" in command(capsys, "inspect", ini).out


DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "model.ini"


@pytest.mark.parametrize("budget", [None, "2MB"])
def test_the_figures_are_those_of_the_run(
    budget: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--check, nntrainer-inspect and the run itself plan the same bytes, the data buffers among them."""
    more = [] if budget is None else ["--memory-budget", budget]
    checked = json.loads(command(capsys, "train", "--check", DIGITS, "--json", *more).out)["memory"]
    inspected = json.loads(command(capsys, "inspect", DIGITS, "--json", *more).out)["memory"]
    done = command(capsys, "train", DIGITS, "--epochs", "1", "--out", tmp_path / "run", *more)
    assert done.code == 0, done.err
    planned = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))["memory"]["planned"]
    assert checked == inspected
    for key in ("total", "data", "arena", "optimizer"):
        assert checked[key] == planned[key], key
    # rings of two batches of 64 pixels, 10 classes and a number; the order of 1347 samples, and what it takes to draw
    # the next one; a batch of rows
    rings, order, blocks = 2 * 2 * 32 * (4 * 74 + 8), (8 + 12) * 1347, 32 * 4 * 74
    assert planned["data"] == rings + order + blocks
    if budget is not None:
        assert planned["total"] <= 2 << 20
    assert amount(planned["total"]) in done.out


def test_data_that_is_not_there_is_counted_as_far_as_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    whole = json.loads(command(capsys, "train", "--check", ini, "--json").out)
    assert whole["notes"] == []
    (tmp_path / "valid.dat").unlink()
    for module in (("train", "--check"), ("inspect",)):
        done = command(capsys, *module, ini, "--json")
        assert done.code == 0, done.err
        found = json.loads(done.out)
        (note,) = found["notes"]
        assert note.startswith("[valid_set] ")
        assert "valid.dat" in note
        assert "only the batches kept ready are counted" in note
        assert whole["memory"]["data"] == found["memory"]["data"]  # read in order, a raw file takes no more than these
    assert "note: [valid_set]" in command(capsys, "train", "--check", ini).out


@pytest.mark.parametrize("fault", ["stride", "labels", "unit", "empty", "folder", "both"])
def test_data_that_does_not_fit_ends_the_check_as_it_ends_the_run(
    fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {"stride": ("1:1:4", "1:1:9"), "unit": ("unit = 3", "unit = 9"), "both": ("1:1:4", "1:1:9")}
    ini = write_problem(tmp_path, MODEL.replace(*changes.get(fault, ("", ""))))
    train = tmp_path / "train.dat"
    if fault == "labels":
        np.full((90, 7), 0.7, "<f4").tofile(train)
    elif fault == "empty":
        train.write_bytes(b"")
    elif fault == "folder":
        train.unlink()
        train.mkdir()
    elif fault == "both":
        (tmp_path / "valid.dat").unlink()
    checked = command(capsys, "train", "--check", ini)
    assert "no fault" not in checked.out
    ran = command(capsys, "train", ini)
    assert checked.code == ran.code == 3
    if fault == "both":  # data that is not there is no fault of the check
        assert "[train_set] path: " in checked.err
        assert "valid.dat" not in checked.err
    else:
        assert checked.err == ran.err
    assert command(capsys, "train", "--check", ini, "--json").code == 3
    assert command(capsys, "inspect", ini).code == 0


def test_tables_in_memory_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A csv file is parsed once and stays; what it takes is of ours, and under a budget it must fit."""
    ini = write_problem(tmp_path, MODEL.replace("type = file\npath = train.dat", "type = csv\npath = train.csv"))
    rows = "".join(f"{n},1,2,3,{n % 3}\n" for n in range(2000))
    (tmp_path / "train.csv").write_text(rows, encoding="utf-8")
    raw = json.loads(command(capsys, "train", "--check", write_problem(tmp_path / "raw"), "--json").out)
    table = json.loads(command(capsys, "train", "--check", ini, "--json").out)
    assert table["memory"]["data"] - raw["memory"]["data"] >= 2000 * (4 * 5 + 8) + (2000 - 90) * 8
    done = command(capsys, "train", "--check", ini, "--memory-budget", "64KB")
    assert done.code == 2
    assert "memory_budget: nothing fits" in done.err
    assert command(capsys, "train", "--check", tmp_path / "raw" / "model.ini", "--memory-budget", "64KB").code == 0


def _frozen(changes: dict[str, str]) -> str:
    text = MODEL
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"type = fully_connected\n": "type = fully_connected\ntrainable = false\n"}, "every layer is frozen"),
        ({"learning_rate = 0.02": "learning_rate = 0"}, "the learning rate is 0"),
    ],
)
def test_training_that_changes_nothing_is_told_once(
    changes: dict[str, str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = write_problem(tmp_path, _frozen(changes))
    done = command(capsys, "train", "--check", ini)
    assert done.code == 0
    assert done.out.count(f"note: nothing is trained: {words}") == 1
    done = command(capsys, "train", ini, "--out", tmp_path / "run", "--epochs", "1")
    assert done.code == 0
    assert (done.out + done.err).count(f"nothing is trained: {words}") == 1
    model = Model.from_ini(ini)
    with pytest.warns(DataWarning, match=f"nothing is trained: {words}"):
        model.train(epochs=1)
    with warnings.catch_warnings():  # once a model
        warnings.simplefilter("error", DataWarning)
        model.train(epochs=1)


def test_one_layer_that_learns_is_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path, MODEL.replace("unit = 8\n", "unit = 8\ntrainable = false\n"))
    done = command(capsys, "train", "--check", ini)
    assert "nothing is trained" not in done.out
    model = Model.from_ini(ini).set_trainable(False)
    with pytest.warns(DataWarning, match="every layer is frozen"):
        model.train(epochs=1)


_WITHOUT_GRADIENT = """\
from nntrainer_py import Layer{import_}


{decorator}class Gate(Layer):
    def finalize(self, ctx):
        ctx.weight("g", ctx.inputs[0].replace(batch=1), initializer="ones")
        ctx.output(ctx.inputs[0])

    def forward(self, ctx):
        ctx.outputs[0][...] = ctx.inputs[0] * ctx.weights["g"]
"""


def test_a_missing_gradient_is_told_by_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    word = "check_gate"
    plugin, ini = tmp_path / "gate.py", tmp_path / "model.ini"
    plugin.write_text(
        _WITHOUT_GRADIENT.format(import_=", register_layer", decorator=f'@register_layer("{word}")\n'), encoding="utf-8"
    )
    ini.write_text(MODEL.replace("[cloud]", f"[gate]\ntype = {word}\n\n[cloud]"), encoding="utf-8")
    try:
        done = command(capsys, "train", "--check", ini, "--plugin", plugin)
    finally:
        LAYERS.unregister(word)
    line = next(number for number, text in enumerate(ini.read_text().splitlines(), 1) if text == "[gate]")
    assert done.code == 2
    assert f"model.ini:{line}: [gate] {word}: {plugin}:4: the class Gate has no calc_gradient" in done.err
    assert f"{plugin}:4: the class Gate has no calc_derivative" in done.err


def test_a_plugin_that_registers_nothing_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin, ini = tmp_path / "forgot.py", tmp_path / "model.ini"
    plugin.write_text(_WITHOUT_GRADIENT.format(import_="", decorator=""), encoding="utf-8")
    ini.write_text(MODEL.replace("[cloud]", "[gate]\ntype = zgatez\n\n[cloud]"), encoding="utf-8")
    done = command(capsys, "train", "--check", ini, "--plugin", plugin)
    assert done.code == 2
    assert "unknown layer or loss 'zgatez'" in done.err
    assert f'{plugin}: registers nothing; write @register_layer("zgatez")' in done.err


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("[cloud]", "[gate]\ntype = zgatez\n\n[cloud]", True),
        ("type = file\npath = train.dat", "type = zfilez\npath = train.dat", False),  # no plugin gives that
    ],
)
def test_plugins_are_named_where_one_may_be_missing(
    old: str, new: str, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = tmp_path / "model.ini"
    ini.write_text(MODEL.replace(old, new), encoding="utf-8")
    done = command(capsys, "train", "--check", ini)
    assert done.code == 2
    assert ("if 'zgatez' is a keyword of your own, give the file that defines it: --plugin FILE.py" in done.err) is told
    assert ("--plugin" in done.err) is told
