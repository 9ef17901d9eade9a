"""Data by the command line, in every form, and the exit code of each way in which it can be wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from commands import MODEL, Done, command, points, write_dat, write_problem

#: without data sections, as most public model files are
BARE = MODEL[: MODEL.index("[train_set]")] + MODEL[MODEL.index("[point]") :]
FORMS = ["dat", "csv", "npz"]


def _write(path: Path, x: np.ndarray, classes: np.ndarray) -> Path:
    rows = np.eye(3, dtype=np.float32)[classes]
    if path.suffix == ".dat":
        write_dat(path, x, classes)
    elif path.suffix == ".csv":
        np.savetxt(path, np.concatenate([x, rows], axis=1), delimiter=",", fmt="%.9g")
    else:
        np.savez(path, x=x, y=rows)
    return path


@pytest.mark.usefixtures("no_sockets")
def test_every_form_gives_the_same_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--train, --valid and --test, raw, csv and npz: the same bytes in the end."""
    ini = write_problem(tmp_path, BARE)
    made = []
    for form in FORMS:
        options: list[object] = []
        for use, (count, seed) in {"train": (90, 0), "valid": (40, 1), "test": (30, 2)}.items():
            options += [f"--{use}", _write(tmp_path / f"{use}.{form}", *points(count, seed))]
        done = command(capsys, "train", ini, *options, "--out", tmp_path / form, "--threads", 1)
        assert done.code == 0, done.err
        made.append((tmp_path / form / "model.bin").read_bytes())
    assert made[0] == made[1] == made[2]


def _broken(folder: Path, form: str) -> dict[str, Path]:
    """Files of one form that cannot be used, by what is wrong."""
    x, classes = points(20, 5)
    made = {"missing": folder / f"nowhere.{form}", "empty": folder / f"empty.{form}", "folder": folder / f"dir.{form}"}
    made["empty"].write_bytes(b"")
    made["folder"].mkdir()
    made["wrong stride"] = _write(folder / f"stride.{form}", x[:, :3], classes)
    odd = np.eye(3, dtype=np.float32)[classes]
    odd[13] = 2 / 3
    made["no distribution"] = folder / f"labels.{form}"
    table = np.concatenate([x, odd], axis=1)
    if form == "dat":
        table.astype("<f4").tofile(made["no distribution"])
    elif form == "csv":
        np.savetxt(made["no distribution"], table, delimiter=",")
    else:
        np.savez(made["no distribution"], x=x, y=odd)
    return made


@pytest.mark.parametrize("use", ["train", "valid", "test"])
@pytest.mark.parametrize("form", FORMS)
def test_data_that_cannot_be_used_ends_with_code_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str, use: str
) -> None:
    ini = write_problem(tmp_path, BARE)
    good = {"train": tmp_path / "train.dat", "valid": tmp_path / "valid.dat"}
    for what, path in _broken(tmp_path, form).items():
        given = {**good, use: path}
        out = tmp_path / "out"
        options = [word for name, file in given.items() for word in (f"--{name}", file)]
        done = command(capsys, "train", ini, *options, "--out", out, "--epochs", 1)
        assert done.code == 3, (what, done)
        assert "Traceback" not in done.err
        assert path.name in done.err, (what, done.err)
        if what == "no distribution":
            # a row is looked at when it is read, or before the first step where that is cheap
            word = "labels.csv:14: " if form == "csv" else "sample 13"
            assert word in done.err
            assert "sum of 2" in done.err
        else:
            assert not out.exists(), what
        _remove(out)


def _remove(folder: Path) -> None:
    if folder.exists():
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()


@pytest.mark.parametrize(
    ("loss", "activation", "label", "words"),
    [
        ("loss = cross", "softmax", [0.5, 0.5, 0.5], "must sum to 1, got a sum of 1.5"),
        ("loss = cross", "softmax", [0.0, 0.0, 0.0], "must sum to 1, got a sum of 0"),
        ("loss = cross", "softmax", [2.0, -1.0, 0.0], "not negative, got -1 at position 1"),
        ("loss = cross", "sigmoid", [0.0, 0.0, 1.5], "between 0 and 1, got 1.5 at position 2"),
        ("loss = mse", "none", [0.0, np.inf, 0.0], "must be finite, got inf at position 1"),
        ("loss = kld", "softmax", [0.5, 0.5, 0.5], "must sum to 1, got a sum of 1.5"),
    ],
)
def test_u013_labels_that_a_loss_cannot_mean(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], loss: str, activation: str, label: list[float], words: str
) -> None:
    """The file, the sample and the value are named."""
    ini = write_problem(tmp_path, BARE.replace("loss = cross", loss).replace("softmax", activation))
    x, classes = points(30, 3)
    rows = np.eye(3, dtype=np.float32)[classes]
    rows[17] = label
    np.concatenate([x, rows], axis=1).astype("<f4").tofile(tmp_path / "bad.dat")
    done = command(capsys, "train", ini, "--train", tmp_path / "bad.dat")
    assert done.code == 3, done
    assert "bad.dat: sample 17: " in done.err
    assert words in done.err


@pytest.mark.parametrize(("loss", "activation"), [("cross", "softmax"), ("cross", "sigmoid"), ("kld", "softmax")])
def test_u013_soft_labels_are_legal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], loss: str, activation: str
) -> None:
    ini = write_problem(tmp_path, BARE.replace("cross", loss).replace("softmax", activation))
    x, classes = points(30, 3)
    rows = np.eye(3, dtype=np.float32)[classes] * 0.7 + 0.1
    np.concatenate([x, rows], axis=1).astype("<f4").tofile(tmp_path / "soft.dat")
    done: Done = command(capsys, "train", ini, "--train", tmp_path / "soft.dat", "--epochs", 1)
    assert done.code == 0, done.err


def test_u019_a_nan_in_sample_17_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Code 4 within that step; what is left on disk is the last finite state."""
    ini = write_problem(tmp_path, BARE.replace("epochs = 3", "epochs = 3\nsave_path = kept/w.bin"))
    good = command(capsys, "train", ini, "--train", tmp_path / "train.dat", "--out", tmp_path / "good", "--epochs", 1)
    assert good.code == 0, good.err
    before = (tmp_path / "kept" / "w.bin").read_bytes()
    x, classes = points(90, 0)
    x[17, 2] = np.nan
    write_dat(tmp_path / "nan.dat", x, classes)
    done = command(capsys, "train", ini, "--train", tmp_path / "nan.dat", "--out", tmp_path / "bad")
    assert done.code == 4
    assert "epoch 1, step " in done.err
    assert "sample 17" in done.err
    assert (tmp_path / "kept" / "w.bin").read_bytes() == before
    for path in (tmp_path / "bad").rglob("*.bin"):
        assert np.isfinite(np.fromfile(path, "<f4")[:67]).all(), path.name
