"""Class names in one file of a run beside numbers in another: told before anything is computed, by every command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from commands import MODEL, command, points

from nntrainer_py import Model
from nntrainer_py.errors import DataError

NAMES = ("ash", "elm", "oak")
INI = MODEL.replace("type = file", "type = csv").replace(".dat", ".csv")

Capture = pytest.CaptureFixture[str]


def _table(path: Path, count: int, seed: int, words: tuple[str, ...], *, header: bool = False) -> Path:
    x, classes = points(count, seed)
    rows = [[*map(repr, row), words[k]] for row, k in zip(x.tolist(), classes, strict=True)]
    lines = [["a", "b", "c", "d", "tree"]] * header + rows
    path.write_text("\n".join(map(",".join, lines)) + "\n", encoding="utf-8")
    return path


def _problem(folder: Path, train: tuple[str, ...], valid: tuple[str, ...], *, header: bool = False) -> Path:
    folder.mkdir(exist_ok=True)
    _table(folder / "train.csv", 60, 0, train, header=header)
    _table(folder / "valid.csv", 40, 1, valid, header=header)
    (folder / "model.ini").write_text(INI, encoding="utf-8")
    return folder / "model.ini"


NUMBERS, FLOATS = ("0", "1", "2"), ("0.0", "1.0", "2.0")


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize(
    ("train", "valid", "message"),
    [
        (NUMBERS, NAMES, "got the class name '{}', but the training data has numbers for its classes"),
        (
            NAMES,
            NUMBERS,
            "expected one of the class names that the model knows (ash, elm, oak), got the number {}; write",
        ),
    ],
)
def test_a_run_is_refused(
    tmp_path: Path, capsys: Capture, train: tuple[str, ...], valid: tuple[str, ...], message: str, header: bool
) -> None:
    ini = _problem(tmp_path, train, valid, header=header)
    label = (ini.parent / "valid.csv").read_text().splitlines()[header].rpartition(",")[2]
    ways: list[tuple[str | Path, ...]] = [(), ("--check",), ("--valid", ini.parent / "valid.csv")]
    for options in ways:
        done = command(capsys, "train", ini, *options)
        assert done.code == 3, done.err
        assert done.err.startswith("--valid: " if "--valid" in options else f"{ini}:16: [valid_set] path: ")
        assert f"valid.csv:{1 + header}: {message.format(label)}" in done.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.ini", "train.csv", "valid.csv"]


def test_floats_beside_integers_are_the_same_numbers(tmp_path: Path, capsys: Capture) -> None:
    made = [
        command(capsys, "train", _problem(tmp_path / name, *words), "--json", "--out", tmp_path / name / "run")
        for name, words in (("a", (NUMBERS, FLOATS)), ("b", (FLOATS, NUMBERS)), ("c", (NUMBERS, NUMBERS)))
    ]
    assert [done.code for done in made] == [0, 0, 0]
    weights = {(tmp_path / name / "run" / "model.bin").read_bytes() for name in "abc"}
    histories = {
        tuple(line.rpartition(",")[0] for line in (tmp_path / name / "run" / "history.csv").read_text().splitlines())
        for name in "abc"
    }
    assert len(weights) == len(histories) == 1


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run trained with names, and one with numbers."""
    from nntrainer_py.cli.train import main

    found = {}
    for kind, words in (("names", NAMES), ("numbers", NUMBERS)):
        ini = _problem(tmp_path_factory.mktemp(kind), words, words)
        assert main([str(ini), "--quiet", "--epochs", "6", "--out", str(ini.parent / "run")]) == 0
        found[kind] = ini.parent
    return found


def test_prediction_takes_what_training_had(runs: dict[str, Path], capsys: Capture) -> None:
    figures = []
    for kind in ("names", "numbers"):
        folder = runs[kind]
        done = command(
            capsys, "infer", folder / "model.ini", "--weights", folder / "run", "--data", folder / "valid.csv",
            "--evaluate",
        )  # fmt: skip
        assert done.code == 0, done.err
        figures.append(done.out.splitlines()[0])
    assert figures[0] == figures[1]
    assert "accuracy" in figures[0]


@pytest.mark.parametrize("options", [(), ("--evaluate",), ("--set", "model.memory_budget=1MB")])
def test_prediction_refuses_the_other(runs: dict[str, Path], capsys: Capture, options: tuple[str, ...]) -> None:
    for kind, other in (("names", "numbers"), ("numbers", "names")):
        folder = runs[kind]
        done = command(
            capsys, "infer", folder / "model.ini", "--weights", folder / "run", "--data", runs[other] / "valid.csv",
            *options,
        )  # fmt: skip
        assert done.code == 3
        assert done.err.startswith("--data: ")
        assert "valid.csv:1: " in done.err
        expected = "that the model knows (ash, elm, oak), got the number" if kind == "names" else "got the class name"
        assert expected in done.err
        assert done.out == ""


def test_a_bin_alone_has_no_names(runs: dict[str, Path], tmp_path: Path, capsys: Capture) -> None:
    """Beside the run's other file it has them."""
    folder = runs["names"]
    ini, data = folder / "model.ini", folder / "valid.csv"
    assert command(capsys, "infer", ini, "--weights", folder / "run" / "model.bin", "--data", data).code == 0
    (tmp_path / "model.bin").write_bytes((folder / "run" / "model.bin").read_bytes())
    done = command(capsys, "infer", ini, "--weights", tmp_path / "model.bin", "--data", data)
    assert done.code == 3
    assert "or the weights came without its names" in done.err
    unlabelled = tmp_path / "x.csv"
    unlabelled.write_text("".join(line.rpartition(",")[0] + "\n" for line in data.read_text().splitlines()))
    assert command(capsys, "infer", ini, "--weights", tmp_path / "model.bin", "--data", unlabelled).code == 0


def test_fine_tuning_with_the_names_of_the_weights(runs: dict[str, Path], tmp_path: Path, capsys: Capture) -> None:
    weights = runs["names"] / "run"
    ini = _problem(tmp_path / "numbers", NUMBERS, NUMBERS)
    done = command(capsys, "train", ini, "--weights", weights, "--out", tmp_path / "run")
    assert done.code == 3
    assert (
        "train.csv:1: expected one of the class names that the model knows (ash, elm, oak), got the number" in done.err
    )
    assert not (tmp_path / "run").exists()
    # training data that lacks a class which the weights and the validation data know
    ini = _problem(tmp_path / "fewer", NAMES, NAMES)
    lines = (ini.parent / "train.csv").read_text().splitlines()
    (ini.parent / "train.csv").write_text("".join(f"{line}\n" for line in lines if not line.endswith("elm")))
    done = command(capsys, "train", ini, "--weights", weights, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert Model.from_file(tmp_path / "run" / "model.safetensors").class_names == NAMES
    done = command(capsys, "train", ini, "--out", tmp_path / "other")
    assert done.code == 3
    assert "expected one of the class names that the model knows (ash, oak), got 'elm'" in done.err


@pytest.mark.parametrize(("words", "last"), [(NAMES, "3"), (("1", "3", "x"), "unnamed_3")])
def test_more_outputs_than_names(words: tuple[str, ...], last: str, tmp_path: Path, capsys: Capture) -> None:
    """The names that there are stay; training warns."""
    ini = _problem(tmp_path, words, words)
    ini.write_text(INI.replace("unit = 3", "unit = 4"), encoding="utf-8")
    done = command(capsys, "train", ini, "--epochs", 4, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert done.err.count("3 class names, but the model has 4 outputs") == 1
    data = ("--data", tmp_path / "valid.csv")
    for options in ((), ("--memory-budget", "20MB")):
        done = command(capsys, "infer", ini, "--weights", tmp_path / "run", *data, *options)
        assert done.code == 0, done.err
        assert "class names, but" not in done.err
    lines = [line.split(",") for line in done.out.splitlines()]
    assert lines[0] == ["sample", "class", "name", *(f"p_{name}" for name in (*words, last))]
    assert {line[2] for line in lines[1:]} <= {*words, last}
    assert all(line[2] == (*words, last)[int(line[1])] for line in lines[1:])


def test_from_python(runs: dict[str, Path]) -> None:
    for kind, other in (("names", "numbers"), ("numbers", "names")):
        model = Model.from_file(runs[kind] / "run" / "model.safetensors")
        right = model.evaluate(runs[kind] / "valid.csv")
        with pytest.raises(DataError, match=r"valid\.csv:1: "):
            model.evaluate(runs[other] / "valid.csv")
        x, classes = points(40, 1)
        assert model.evaluate(x, classes) == right  # arrays of numbers are indices
    model = Model.from_ini(runs["numbers"] / "model.ini")
    with pytest.raises(DataError, match=r"valid\.csv:1: got the class name"):
        model.train(valid=runs["names"] / "valid.csv")
    x, classes = points(40, 1)
    with pytest.raises(DataError, match="sample 0: got the class name"):
        model.train(valid=(x, np.array(NAMES)[classes]))
