"""Inputs of 0 to 255 that nothing scales are told before the run, with their place and the remedy; others are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from commands import MODEL, command, points, write_dat, write_problem

from nntrainer_py import Model
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
    line = MODEL.splitlines().index("[train_set]") + 1
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
