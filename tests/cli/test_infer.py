"""nntrainer-infer: predictions as CSV and JSON that are those of the model, figures where there are labels."""

from __future__ import annotations

import csv
import gc
import io
import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import MODEL, command, points, write_dat, write_problem

from nntrainer_py import Model
from nntrainer_py.data import sources
from nntrainer_py.data.csv_table import Table
from nntrainer_py.data.dataset import Dataset
from nntrainer_py.errors import DataError


@pytest.fixture
def trained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, Path]:
    """The INI and the run folder."""
    ini = write_problem(tmp_path)
    assert command(capsys, "train", ini, "--epochs", 6, "--out", tmp_path / "run").code == 0
    return ini, tmp_path / "run"


def _probabilities(run: Path, x: np.ndarray) -> np.ndarray:
    """The network in double precision from the weights of the file, written out here."""
    flat = np.fromfile(run / "model.bin", "<f4")[:67].astype(np.float64)
    w1, b1, w2, b2 = flat[:32].reshape(4, 8), flat[32:40], flat[40:64].reshape(8, 3), flat[64:67]
    z = np.maximum(x.astype(np.float64) @ w1 + b1, 0) @ w2 + b2
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_csv_has_the_probabilities(trained: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    ini, run = trained
    done = command(capsys, "infer", ini, "--weights", run, "--data", ini.parent / "valid.dat")
    assert done.code == 0, done.err
    rows = list(csv.DictReader(io.StringIO(done.out)))
    x, classes = points(40, 1)
    wanted = _probabilities(run, x)
    assert [row["sample"] for row in rows] == [str(k) for k in range(40)]
    found = np.array([[float(row[f"p_{k}"]) for k in range(3)] for row in rows])
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)
    assert [int(row["class"]) for row in rows] == list(wanted.argmax(axis=1))
    # the labels are there, so the figures are told beside
    assert f"accuracy {100 * np.mean(wanted.argmax(axis=1) == classes):.2f} %" in done.err


def test_json_and_output_file(trained: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    ini, run = trained
    out = ini.parent / "p.jsonl"
    weights = run / "model.safetensors"
    done = command(
        capsys, "infer", ini, "--weights", weights, "--data", ini.parent / "valid.dat", "--json", "--output", out
    )
    assert done.code == 0, done.err
    records = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert len(records) == 40
    assert records[0]["class"] == int(np.argmax(records[0]["probabilities"]))
    figures = json.loads(done.out)
    assert figures["samples"] == 40
    assert np.array(figures["report"]["confusion"]).sum() == 40
    assert [path.name for path in ini.parent.glob(".nntrainer*")] == []


def test_data_without_labels(trained: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    ini, run = trained
    x, _ = points(40, 1)
    np.save(ini.parent / "x.npy", x)
    np.savetxt(ini.parent / "x.csv", x, delimiter=",")
    x.tofile(ini.parent / "x.dat")
    wanted = command(capsys, "infer", ini, "--weights", run, "--data", ini.parent / "valid.dat").out
    for name, options in (("x.npy", ()), ("x.csv", ()), ("x.csv", ("--no-labels",)), ("x.dat", ("--no-labels",))):
        done = command(capsys, "infer", ini, "--weights", run, "--data", ini.parent / name, *options)
        assert done.code == 0, done.err
        assert done.out == wanted, name
        assert "accuracy" not in done.err
    done = command(capsys, "infer", ini, "--weights", run, "--data", ini.parent / "x.csv", "--evaluate")
    assert done.code == 3
    odd = x.reshape(-1)[:-2]
    odd.tofile(ini.parent / "odd.dat")
    assert command(capsys, "infer", ini, "--weights", run, "--data", ini.parent / "nix.dat").code == 3
    assert command(capsys, "infer", ini, "--weights", run, "--data", ini, "--evaluate", "--no-labels").code == 2


@pytest.mark.parametrize("labelled", [False, True])
def test_a_table_is_read_once(
    trained: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, labelled: bool
) -> None:
    """Also under a budget, which wants to know of the data before there are weights."""
    ini, run = trained
    x, classes = points(500, 1)
    table = np.concatenate([x, classes[:, None]], axis=1) if labelled else x
    np.savetxt(ini.parent / "x.csv", table, fmt="%.3f", delimiter=",")
    words = ("--weights", run, "--data", ini.parent / "x.csv", "--output", ini.parent / "p.csv", "--quiet")
    read, times = Table.read, []
    monkeypatch.setattr(Table, "read", lambda self: (times.append(1), read(self)))
    assert command(capsys, "infer", ini, *words, "--memory-budget", "20MB").code == 0
    assert len(times) == 1
    wanted = (ini.parent / "p.csv").read_text(encoding="utf-8")
    assert command(capsys, "infer", ini, *words).code == 0
    assert (ini.parent / "p.csv").read_text(encoding="utf-8") == wanted
    assert wanted.count("\n") == 501


def test_what_could_not_be_read_with_labels_is_let_go(
    trained: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An npz file is tried with labels first; when it is opened again, what was read before is gone."""
    ini, run = trained
    np.savez(ini.parent / "x.npz", x=points(40, 1)[0])
    opened: list[weakref.ref[Dataset]] = []
    alive: list[int] = []
    open_dataset = sources.open_dataset

    def watched(*given: Any, **named: Any) -> Dataset:
        alive.append(sum(found() is not None for found in opened))
        made = open_dataset(*given, **named)
        opened.append(weakref.ref(made))
        return made

    monkeypatch.setattr(sources, "open_dataset", watched)
    words = ("--weights", run, "--data", ini.parent / "x.npz", "--quiet")
    gc.disable()
    try:
        assert command(capsys, "infer", ini, *words).code == 0
        assert command(capsys, "infer", ini, *words, "--memory-budget", "20MB").code == 0
    finally:
        gc.enable()
    assert alive == [0] * 6


def test_a_description_without_loss_and_optimizer(
    trained: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    ini, run = trained
    bare = ini.with_name("bare.ini")
    text = MODEL.replace("loss = cross\n", "").replace("[Optimizer]\ntype = adam\nlearning_rate = 0.02\n", "")
    bare.write_text("\n\n".join(p for p in text.split("\n\n") if "_set]" not in p), encoding="utf-8")
    x, _ = points(40, 1)
    np.save(ini.parent / "x.npy", x)
    wanted = command(capsys, "infer", ini, "--weights", run, "--data", ini.parent / "valid.dat").out
    done = command(capsys, "infer", bare, "--weights", run / "model.bin", "--data", ini.parent / "x.npy")
    assert done.code == 0, done.err
    assert done.out == wanted


def test_weights_of_another_model_and_data_are_told_together(
    trained: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    ini, run = trained
    (ini.parent / "w.bin").write_bytes(b"\0" * 40)
    done = command(capsys, "infer", ini, "--weights", ini.parent / "w.bin", "--data", ini.parent / "nix.csv")
    assert done.code == 3
    assert "w.bin: 40 bytes" in done.err
    assert "nix.csv" in done.err
    done = command(capsys, "infer", ini, "--weights", run, "--data", ini.parent / "valid.dat", "--output", run)
    assert done.code == 2


def test_outputs_of_a_regression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, _ = points(30, 4)
    np.savez(tmp_path / "line.npz", x=x, y=x[:, :2] * 2)
    text = MODEL.replace("loss = cross", "loss = mse").replace("unit = 3\nactivation = softmax", "unit = 2")
    ini = tmp_path / "line.ini"
    ini.write_text("\n\n".join(p for p in text.split("\n\n") if "_set]" not in p), encoding="utf-8")
    run = tmp_path / "run"
    assert command(capsys, "train", ini, "--train", tmp_path / "line.npz", "--out", run).code == 0
    done = command(capsys, "infer", ini, "--weights", run, "--data", tmp_path / "line.npz")
    assert done.out.splitlines()[0] == "sample,y_0,y_1"
    assert "r2" in done.err
    done = command(capsys, "infer", ini, "--weights", run, "--data", tmp_path / "line.npz", "--json", "--quiet")
    assert len(json.loads(done.out.splitlines()[0])["outputs"]) == 2


def test_two_classes_from_one_probability(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, classes = points(60, 5)
    table = np.concatenate([x, (classes == 1)[:, None]], axis=1).astype("<f4")
    table.tofile(tmp_path / "two.dat")
    text = MODEL.replace("unit = 3\nactivation = softmax", "unit = 1\nactivation = sigmoid")
    ini = tmp_path / "two.ini"
    ini.write_text(text.replace("train.dat", "two.dat").replace("valid.dat", "two.dat"), encoding="utf-8")
    run = tmp_path / "run"
    assert command(capsys, "train", ini, "--out", run, "--epochs", 10).code == 0
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    report = json.loads((run / "evaluation.json").read_text(encoding="utf-8"))
    assert report["accuracy"] == pytest.approx(result["final"]["valid_accuracy"])
    assert np.array(report["confusion"]).sum(axis=1).tolist() == [int((classes != 1).sum()), int((classes == 1).sum())]
    done = command(capsys, "infer", ini, "--weights", run, "--data", tmp_path / "two.dat")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert np.mean([int(r["class"]) == (c == 1) for r, c in zip(rows, classes, strict=True)]) == report["accuracy"]
    assert all((float(row["p_1"]) > 0.5) == (row["class"] == "1") for row in rows)


_COLUMNS = ["a", "b", "c", "d"]


def _write_columns(path: Path, columns: list[str], count: int = 40, label: int | None = 4) -> Path:
    """The points of `points` under their names, in any order; the class name at column ``label``."""
    x, classes = points(count, 1)
    rows = [[f"{values[_COLUMNS.index(name)]!r}" if name in _COLUMNS else "7" for name in columns] for values in
            x.tolist()]  # fmt: skip
    header = list(columns)
    if label is not None:
        header.insert(label, "kind")
        for row, number in zip(rows, classes, strict=True):
            row.insert(label, ("ash", "elm", "oak")[number])
    path.write_text("\n".join(",".join(row) for row in [header, *rows]) + "\n", encoding="utf-8")
    return path


def test_columns_are_taken_by_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = _write_columns(tmp_path / "train.csv", _COLUMNS, 90)
    ini = tmp_path / "model.ini"
    data = "[train_set]\ntype = csv\npath = train.csv\nnormalization = standard\nnormalization_scope = feature"
    text = MODEL.replace("[train_set]\ntype = file\npath = train.dat", data)
    ini.write_text(text.replace("type = file\npath = valid.dat", "type = csv\npath = valid.csv"), encoding="utf-8")
    _write_columns(tmp_path / "valid.csv", ["c", "a", "d", "b"])
    run = tmp_path / "run"
    assert command(capsys, "train", ini, "--epochs", 6, "--out", run).code == 0
    same = command(capsys, "infer", ini, "--weights", run, "--data", train, "--quiet").out.splitlines()[:41]
    assert same[0].startswith("sample,class,name,p_ash")
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    for weights in (run, run / "model.bin", run / "checkpoint.safetensors"):
        for label in (4, None):
            other = _write_columns(tmp_path / "other.csv", ["d", "b", "a", "c"], 40, label)
            done = command(capsys, "infer", ini, "--weights", weights, "--data", other)
            assert done.code == 0, done.err
            ours = command(capsys, "infer", ini, "--weights", weights, "--data", tmp_path / "valid.csv", "--quiet").out
            assert done.out == ours
    found = command(capsys, "infer", ini, "--weights", run, "--data", tmp_path / "valid.csv", "--evaluate", "--json")
    assert json.loads(found.out)["accuracy"] == pytest.approx(result["final"]["valid_accuracy"])
    # without a header, by place
    bare = tmp_path / "bare.csv"
    lines = _write_columns(tmp_path / "x.csv", _COLUMNS, 40, None).read_text(encoding="utf-8").splitlines()[1:]
    bare.write_text("\n".join(lines), encoding="utf-8")
    done = command(capsys, "infer", ini, "--weights", run, "--data", bare)
    assert done.code == 0, done.err
    assert done.out == ours


@pytest.mark.parametrize("label", [4, None])
def test_other_columns_are_refused(label: int | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write_columns(tmp_path / "train.csv", _COLUMNS, 90)
    ini = tmp_path / "model.ini"
    text = "\n\n".join(part for part in MODEL.split("\n\n") if "valid_set" not in part)
    ini.write_text(text.replace("type = file\npath = train.dat", "type = csv\npath = train.csv"), encoding="utf-8")
    run = tmp_path / "run"
    assert command(capsys, "train", ini, "--epochs", 1, "--out", run).code == 0
    other = _write_columns(tmp_path / "other.csv", ["a", "b", "x", "d"], 40, label)
    for words in (("infer", ini, "--weights", run, "--data", other),
                  ("train", ini, "--weights", run, "--train", other, "--out", tmp_path / "second")):  # fmt: skip
        done = command(capsys, *words)
        assert done.code == 3
        assert "other.csv: the header lacks columns of the training data: 'c'; others in its header: 'x'" in done.err
        assert not done.out
    twice = _write_columns(tmp_path / "twice.csv", ["a", "b", "c", "c", "d"], 40, label and 5)
    done = command(capsys, "infer", ini, "--weights", run, "--data", twice)
    assert done.code == 3
    assert "twice: 'c'" in done.err


def _trained_by_name(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[Path, Path]:
    """The INI and the run folder of a model that was trained with columns a to d, and class names at the end."""
    _write_columns(folder / "train.csv", _COLUMNS, 90)
    ini = folder / "model.ini"
    text = MODEL.replace("[train_set]\ntype = file\npath = train.dat", "[train_set]\ntype = csv\npath = train.csv")
    ini.write_text(text.replace("type = file\npath = valid.dat", "type = csv\npath = valid.csv"), encoding="utf-8")
    _write_columns(folder / "valid.csv", ["c", "a", "d", "b"], 40, 2)
    assert command(capsys, "train", ini, "--epochs", 6, "--out", folder / "run").code == 0
    return ini, folder / "run"


@pytest.mark.parametrize("label", [0, 2, 3])
@pytest.mark.parametrize("options", [(), ("--memory-budget", "20MB")])
def test_a_label_between_the_columns_is_found_by_their_names(
    label: int, options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The validation data has it there too."""
    ini, run = _trained_by_name(tmp_path, capsys)
    plain = _write_columns(tmp_path / "plain.csv", _COLUMNS, 40)
    same = command(capsys, "infer", ini, "--weights", run, "--data", plain, "--quiet").out
    other = _write_columns(tmp_path / "other.csv", ["d", "b", "a", "c"], 40, label)
    done = command(capsys, "infer", ini, "--weights", run, "--data", other, *options)
    assert done.code == 0, done.err
    assert done.out == same
    found = command(capsys, "infer", ini, "--weights", run, "--data", other, "--evaluate", "--json")
    result = json.loads((run / "result.json").read_text(encoding="utf-8"))
    assert json.loads(found.out)["accuracy"] == pytest.approx(result["final"]["valid_accuracy"])


def test_a_word_where_a_number_belongs_makes_no_label_of_a_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini, run = _trained_by_name(tmp_path, capsys)
    slip = tmp_path / "slip.csv"
    slip.write_text("a,b,c,d,kind\n1,x,3,4,0\n1,2,3,4,1\n", encoding="utf-8")
    slip_of_all = tmp_path / "all.csv"
    slip_of_all.write_text("a,d,b,c\n1,x,3,4\n1,y,3,4\n", encoding="utf-8")
    first = tmp_path / "first.csv"
    first.write_text("kind,a,b,c,d\nash,1,2,3,4\nelm,1,2,3,4\noak,1,2,3,4\n", encoding="utf-8")
    for words, message in (
        (("infer", ini, "--weights", run, "--data", slip), "slip.csv:2: column 2 (b): expected a number, got 'x'"),
        (("infer", ini, "--weights", run, "--data", slip_of_all), "all.csv:2: column 2 (d): expected a number, got"),
        (("train", ini, "--train", slip, "--out", tmp_path / "x"), "slip.csv:2: column 2 (b): expected a number, got"),
        # no training before this one, whose names could tell
        (("train", ini, "--train", first, "--out", tmp_path / "x"), "first.csv:2: column 1 (kind): expected a number"),
    ):
        done = command(capsys, *words)
        assert done.code == 3
        assert message in done.err, done.err
    with pytest.raises(DataError, match=r"all\.csv:2: column 2 \(d\): expected a number"):
        Model.from_file(run / "model.safetensors").predict(str(slip_of_all))


@pytest.mark.parametrize("options", [(), ("--memory-budget", "20MB"), ("--evaluate",)])
def test_wrong_weights_cast_no_doubt_on_the_data(
    options: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Class names and columns cannot be judged without them."""
    ini, run = _trained_by_name(tmp_path, capsys)
    other = tmp_path / "other"
    other.mkdir()
    wide = other / "wide.ini"
    wide.write_text(MODEL.replace("unit = 8", "unit = 9"), encoding="utf-8")
    write_problem(other)
    assert command(capsys, "train", wide, "--epochs", 1, "--out", other / "run").code == 0
    (other / "w.bin").write_bytes(b"\0" * 40)
    (other / "model.safetensors").write_bytes((run / "model.safetensors").read_bytes())
    between = _write_columns(tmp_path / "between.csv", ["d", "b", "a", "c"], 40, 2)
    renamed = tmp_path / "renamed.csv"
    renamed.write_text(between.read_text(encoding="utf-8").replace("d,b,", "D,B,", 1), encoding="utf-8")
    at_end = _write_columns(tmp_path / "end.csv", _COLUMNS, 40)
    weights = (
        tmp_path / "nix.safetensors",
        other / "run" / "model.safetensors",
        other / "run" / "model.bin",
        other / "w.bin",
    )
    for wrong in weights:
        for data in (between, renamed, at_end):
            done = command(capsys, "infer", ini, "--weights", wrong, "--data", data, *options)
            assert done.code == 3
            assert "--weights: " in done.err
            assert "--data" not in done.err, done.err
            assert not done.out
        done = command(capsys, "infer", ini, "--weights", wrong, "--data", tmp_path / "no.csv", *options)
        assert "--weights: " in done.err
        assert "--data: " in done.err


def test_an_unknown_column_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini, run = _trained_by_name(tmp_path, capsys)
    extra = _write_columns(tmp_path / "extra.csv", ["a", "b", "colour", "c", "d"], 40, 5)
    words = tmp_path / "words.csv"
    words.write_text(extra.read_text(encoding="utf-8").replace(",7,", ",red,"), encoding="utf-8")
    bare = _write_columns(tmp_path / "bare.csv", ["a", "b", "colour", "c", "size", "d"], 40, None)
    for path, options, message in (
        (extra, (), "extra.csv: column 3 (colour) was not in the training data; leave it out"),
        (words, (), "words.csv:2: column 3 (colour): expected a number, got 'red'; it was no input in training, leave"),
        (bare, (), "bare.csv: columns 3 (colour), 5 (size) were not among the inputs of the training data, and the "
                   "labels take 1 or 3 of them; leave out"),
        (bare, ("--no-labels",), "bare.csv: columns 3 (colour), 5 (size) were not among the inputs"),
    ):  # fmt: skip
        done = command(capsys, "infer", ini, "--weights", run, "--data", path, *options)
        assert done.code == 3, done.out
        assert message in done.err, done.err
        assert ("leave out --no-labels" in done.err) == bool(options)


def test_a_run_does_not_go_on_with_columns_in_another_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _write_columns(tmp_path / "train.csv", _COLUMNS, 90)
    ini = tmp_path / "model.ini"
    text = "\n\n".join(part for part in MODEL.split("\n\n") if "valid_set" not in part)
    ini.write_text(text.replace("type = file\npath = train.dat", "type = csv\npath = train.csv"), encoding="utf-8")
    run = tmp_path / "run"
    assert command(capsys, "train", ini, "--epochs", 1, "--out", run).code == 0
    assert command(capsys, "train", ini, "--epochs", 2, "--out", run, "--resume").code == 0
    _write_columns(tmp_path / "train.csv", ["c", "a", "d", "b"], 90)
    done = command(capsys, "train", ini, "--epochs", 3, "--out", run, "--resume")
    assert done.code == 2
    assert "input columns ['a', 'b', 'c', 'd'], this one has ['c', 'a', 'd', 'b']" in done.err


def test_labels_are_never_taken_for_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A raw file with labels, read as inputs alone, is refused where its size does not fit."""
    ini, run = write_problem(tmp_path), tmp_path / "run"
    assert command(capsys, "train", ini, "--out", run, "--epochs", 1, "--quiet").code == 0
    write_dat(tmp_path / "new.dat", *points(21, 3))  # 21 * 7 values are no whole number of 4
    done = command(capsys, "infer", ini, "--weights", run, "--data", tmp_path / "new.dat", "--no-labels")
    assert (done.code, done.out) == (3, "")
    assert "12 bytes are left over after 36 samples" in done.err
    assert "if it has labels, leave out --no-labels" in done.err
