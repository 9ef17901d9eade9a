"""Inputs of 0 to 255 that nothing scales are told before the run, with their place and the remedy; others are not."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from commands import MODEL, command, points, write_dat, write_problem

from nntrainer_py import DataWarning, Model
from nntrainer_py.training.feeding import open_loaders

REMEDY = "which often keeps a network from learning; add normalization = {} to [train_set]"


def told(folder: Path, text: str = MODEL, scale: float = 60.0, shift: float = 0.0) -> list[str]:
    """The warnings of the problem with other inputs."""
    ini = write_problem(folder, text)
    inputs, classes = points(90, 0)
    write_dat(folder / "train.dat", np.abs(inputs) * scale + shift, classes)
    loaders = open_loaders(Model.from_ini(ini))
    loaders.close()
    return [notice for notice in loaders.notices if "nothing scales them" in notice]


def with_keys(section: str, keys: str) -> str:
    return MODEL.replace(f"[{section}]\n", f"[{section}]\n{keys}\n", 1)


def test_raw_pixels(tmp_path: Path) -> None:
    (notice,) = told(tmp_path)
    line = MODEL.splitlines().index("path = train.dat") + 1
    assert notice.startswith(f"warning: {tmp_path / 'model.ini'}:{line}: ")
    assert f"{tmp_path / 'train.dat'}: inputs go from " in notice
    assert REMEDY.format("pixel (division by 255)") in notice
    assert notice.endswith("or set normalization = true in [point]")


def test_other_large_numbers(tmp_path: Path) -> None:
    (notice,) = told(tmp_path, scale=10.0, shift=1000.0)
    assert REMEDY.format("standard") in notice


def test_numbers_of_a_good_size_are_not_told(tmp_path: Path) -> None:
    assert told(tmp_path, scale=1.0) == []


@pytest.mark.parametrize(
    ("section", "keys"),
    [
        ("train_set", "normalization = pixel"),
        ("train_set", "normalization = standard\nnormalization_scope = feature"),
        ("point", "normalization = true"),
        ("point", "standardization = true"),
        ("hidden", "type = batch_normalization\n[first]"),
        ("hidden", "type = fully_connected\nunit = 3\n[norm]\ntype = batch_normalization\n[first]"),
        ("hidden", "type = flatten\n[norm]\ntype = layer_normalization\naxis = 3\n[first]"),
    ],
)
def test_what_scales_them_is_seen(section: str, keys: str, tmp_path: Path) -> None:
    assert told(tmp_path, with_keys(section, keys)) == []


@pytest.mark.parametrize(
    "keys",
    [
        "type = activation\nactivation = tanh\n[norm]\ntype = batch_normalization\n[first]",
        "type = flatten\n[first]",
        "type = fully_connected\nunit = 3\nactivation = relu\n[norm]\ntype = batch_normalization\n[first]",
    ],
)
def test_what_does_not_scale_them_is_seen_too(keys: str, tmp_path: Path) -> None:
    assert len(told(tmp_path, with_keys("hidden", keys))) == 1


def test_an_image_folder_is_told_once_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    for use in ("train", "valid"):
        for name in ("a", "b", "c"):
            (tmp_path / use / name).mkdir(parents=True)
            for number in range(4):
                pixels = rng.integers(0, 256, (2, 2), dtype=np.uint8)
                image.fromarray(pixels).save(tmp_path / use / name / f"{number}.png")
    text = (
        MODEL.replace("type = file", "type = image_folder").replace("train.dat", "train").replace("valid.dat", "valid")
    )
    ini = tmp_path / "model.ini"
    ini.write_text(
        text.replace("1:1:4", "1:2:2")
        .replace("batch_size = 16", "batch_size = 12")
        .replace("[cloud]", "[flat]\ntype = flatten\n[cloud]")
    )
    done = command(capsys, "train", ini, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert done.err.count("nothing scales them") == 1
    assert "normalization = pixel" in done.err
    done = command(capsys, "train", ini, "--out", tmp_path / "other", "--set", "train_set.normalization=pixel")
    assert (done.code, done.err) == (0, "")


def test_a_csv_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    rows = "".join(f"{n},0,{255 - n},3,{n % 3}\n" for n in range(200))
    (tmp_path / "train.csv").write_text(rows, encoding="utf-8")
    done = command(capsys, "train", ini, "--train", tmp_path / "train.csv", "--out", tmp_path / "run")
    assert done.code == 0, done.err
    assert "--train: " in done.err
    assert "inputs go from 0 to 255" in done.err


def test_data_that_cannot_be_read_is_left_to_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    image = pytest.importorskip("PIL.Image")
    for name in ("a", "b", "c"):
        (tmp_path / "train" / name).mkdir(parents=True)
        image.fromarray(np.full((2, 2), 200, np.uint8)).save(tmp_path / "train" / name / "0.png")
    cut = tmp_path / "train" / "b" / "0.png"
    cut.write_bytes(cut.read_bytes()[:45])
    text = MODEL.split("[valid_set]")[0].replace("type = file", "type = image_folder").replace("train.dat", "train")
    text += "[point]" + MODEL.split("[point]")[1].replace("1:1:4", "1:2:2")
    ini = tmp_path / "model.ini"
    ini.write_text(text.replace("[cloud]", "[flat]\ntype = flatten\n[cloud]"), encoding="utf-8")
    done = command(capsys, "train", ini, "--out", tmp_path / "run")
    assert done.code == 3
    assert "nothing scales them" not in done.err
    assert done.err.count("is no readable image") == 1


def _pixels(count: int = 40) -> tuple[np.ndarray, np.ndarray]:
    inputs, classes = points(count, 0)
    return np.clip(np.abs(inputs) * 60, 0, 255).astype(np.uint8), classes


def test_python_is_warned_once_at_its_own_line(tmp_path: Path) -> None:
    model = Model.from_ini(write_problem(tmp_path))
    x, y = _pixels()
    with pytest.warns(DataWarning) as caught:
        model.train(x, y, valid=(x, y), epochs=1, progress=False)
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message).startswith("data: inputs go from ")
    assert "divide them by 255; or set normalization = true in [point]" in str(warning.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(x, y, epochs=2, progress=False)  # the same again is not told again


def test_python_says_of_a_file_what_the_command_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (notice,) = told(tmp_path)
    with pytest.warns(DataWarning) as caught:
        Model.from_ini(tmp_path / "model.ini").train(epochs=1, progress=False)
    assert [f"warning: {warning.message}" for warning in caught] == [notice]
    assert f"{notice}\n" in command(capsys, "train", tmp_path / "model.ini", "--epochs", 1).err


def test_python_can_be_silenced(tmp_path: Path) -> None:
    x, y = _pixels()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", DataWarning)
        Model.from_ini(write_problem(tmp_path)).train(x, y, epochs=1, progress=False)
        warnings.simplefilter("error", DataWarning)
        with pytest.raises(DataWarning):
            Model.from_ini(tmp_path / "model.ini").train(x, y, epochs=1, progress=False)
        Model.from_ini(tmp_path / "model.ini").train(x / np.float32(255), y, epochs=1, progress=False)


def test_a_users_own_data_set_is_not_read_beforehand(tmp_path: Path) -> None:
    calls: list[int] = []

    class Own:
        def __len__(self) -> int:
            return 32

        def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
            calls.append(index)
            return np.full(4, 255, np.float32), index % 3

    Model.from_ini(write_problem(tmp_path)).train(Own(), epochs=1, progress=False)
    assert sorted(calls) == list(range(32))


def test_other_doubts_about_data_are_given_too(tmp_path: Path) -> None:
    x, classes = points(40, 0)
    words = np.array(["7", "x", "y"])[classes]
    lines = [",".join([*map(repr, row), word]) for row, word in zip(x.tolist(), words, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(lines), encoding="utf-8")
    model = Model.from_ini(write_problem(tmp_path))
    with pytest.warns(DataWarning, match=r"t\.csv:[0-9]+: the label '[xy]' is no number, so that all labels are names"):
        model.train(tmp_path / "t.csv", valid=tmp_path / "t.csv", epochs=1, progress=False)
