"""The weight file of whole models: its order and size, other optimizers, wrong files, names, and writing."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
import pytest

from nntrainer_py import Model
from nntrainer_py.errors import WeightFileError

TEXT = """\
[Model]
loss = mse
batch_size = 4

[Optimizer]
type = {optimizer}
learning_rate = 0.01

[x]
type = input
input_shape = 1:1:5

[first]
type = fully_connected
unit = 5

[norm]
type = batch_normalization

[frozen]
type = fully_connected
unit = 5
trainable = false

[again]
type = fully_connected
unit = 5
shared_from = first

[last]
type = fully_connected
unit = 2
"""
#: trained and other parameters, counted by hand: (5*5+5) + 2*5 + (5*2+2); 2*5 statistics and 5*5+5 frozen
P, Q = 52, 40
NAMES = {
    "hangul": unicodedata.normalize("NFC", "한글 모델") + ".bin",
    "hangul apart": unicodedata.normalize("NFD", "한글 모델") + ".bin",
    "accent": "d'été «ü».bin",
    "emoji": '🧠 "quoted".bin',
    "250 bytes": "é" * 123 + ".bin",
}


def _model(folder: Path, optimizer: str = "adam", text: str = TEXT) -> Model:
    ini = folder / f"{optimizer}.ini"
    ini.write_text(text.format(optimizer=optimizer), encoding="utf-8")
    return Model.from_ini(ini).compile(threads=1)


def _train(model: Model, steps: int) -> None:
    random = np.random.default_rng(0)
    for _ in range(steps):
        model.train_on_batch(random.normal(size=(4, 5)), random.normal(size=(4, 2)))


def _bytes(model: Model) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in model.weights().items()}


def test_order_and_content(tmp_path: Path) -> None:
    """Layer order, and a shared weight where its last user is, in training and in inference alike."""
    model = _model(tmp_path)
    _train(model, 3)
    assert list(model.weights()) == [
        "norm:moving_mean", "norm:moving_variance", "norm:gamma", "norm:beta", "frozen:weight", "frozen:bias",
        "first:weight", "first:bias", "last:weight", "last:bias",
    ]  # fmt: skip
    model.save(tmp_path / "m.bin")
    data = (tmp_path / "m.bin").read_bytes()
    weights = b"".join(_bytes(model).values())
    assert data[: 4 * (P + Q)] == weights
    assert data[4 * (P + Q) :][:4] == b"adam"
    assert np.frombuffer(data[-8:], "<u4").tolist() == [0, 3]
    plain = TEXT.replace("loss = mse\n", "").replace("[Optimizer]\ntype = {optimizer}\nlearning_rate = 0.01\n", "")
    alone = _model(tmp_path, "inference", plain)
    alone.load(tmp_path / "m.bin")
    assert list(_bytes(alone).items()) == list(_bytes(model).items())
    alone.save(tmp_path / "alone.bin")
    assert (tmp_path / "alone.bin").read_bytes() == weights


@pytest.mark.parametrize(
    ("optimizer", "steps", "rest"),
    [("sgd", 2, 8), ("adamw", 2, 8), ("adam", 2, 4 + 8 * P + 8), ("adam", 0, 4 + 8)],
)
def test_size(tmp_path: Path, optimizer: str, steps: int, rest: int) -> None:
    """Adam's moments are there when they exist: after the first update."""
    model = _model(tmp_path, optimizer)
    _train(model, steps)
    model.save(tmp_path / "m.bin")
    assert (tmp_path / "m.bin").stat().st_size == 4 * (P + Q) + rest


def test_a_saved_adam_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    whole, parts = _model(tmp_path), _model(tmp_path)
    _train(whole, 3)
    _train(parts, 3)
    parts.save(tmp_path / "m.bin")
    resumed = _model(tmp_path)
    resumed.load(tmp_path / "m.bin")
    _train(whole, 2)
    _train(resumed, 2)
    assert _bytes(resumed) == _bytes(whole)


@pytest.mark.parametrize("writer", ["sgd", "adam"])
def test_what_was_before_loading_does_not_matter(tmp_path: Path, writer: str) -> None:
    source, fresh, used = _model(tmp_path, writer), _model(tmp_path), _model(tmp_path)
    _train(source, 3)
    source.save(tmp_path / "m.bin")
    _train(used, 5)
    for model in (fresh, used):
        model.load(tmp_path / "m.bin")
        _train(model, 2)
    assert _bytes(used) == _bytes(fresh)


@pytest.mark.parametrize(("writer", "reader"), [("adam", "sgd"), ("sgd", "adam"), ("adam", "adamw"), ("adamw", "adam")])
@pytest.mark.parametrize("steps", [0, 3])
def test_files_of_another_optimizer(tmp_path: Path, writer: str, reader: str, steps: int) -> None:
    source, target = _model(tmp_path, writer), _model(tmp_path, reader)
    _train(source, steps)
    source.save(tmp_path / "m.bin")
    target.load(tmp_path / "m.bin")
    assert _bytes(target) == _bytes(source)
    target.save(tmp_path / "again.bin")
    assert np.frombuffer((tmp_path / "again.bin").read_bytes()[-8:], "<u4").tolist() == [0, steps]
    _train(target, 1)


def test_moments_of_other_frozen_layers_are_left_out(tmp_path: Path) -> None:
    """A body that was trained is read where it is frozen, and the reverse; the size is still looked at."""
    frozen, free = _model(tmp_path), _model(tmp_path, text=TEXT.replace("trainable = false\n", ""))
    free.compile(threads=1, seed=3)
    for source, target in ((frozen, free), (free, frozen)):
        _train(source, 2)
        source.save(tmp_path / "m.bin")
        target.load(tmp_path / "m.bin")
        assert _bytes(target) == _bytes(source)
        data = (tmp_path / "m.bin").read_bytes()
        (tmp_path / "cut.bin").write_bytes(data[:-4])
        with pytest.raises(WeightFileError, match="bytes of weights"):
            target.load(tmp_path / "cut.bin")
    _train(frozen, 1)


@pytest.mark.parametrize("change", [-4, -1, 1, 4, 400])
def test_a_file_of_another_size_is_refused_and_changes_nothing(tmp_path: Path, change: int) -> None:
    model = _model(tmp_path, "sgd")
    model.save(tmp_path / "m.bin")
    data = (tmp_path / "m.bin").read_bytes()
    (tmp_path / "wrong.bin").write_bytes(data[:change] if change < 0 else data + bytes(change))
    before = _bytes(model)
    with pytest.raises(WeightFileError) as caught:
        model.load(tmp_path / "wrong.bin")
    text = str(caught.value)
    assert "wrong.bin" in text
    assert f"{len(data) + change} bytes" in text
    assert f"{4 * (P + Q)} bytes of weights (10 tensors)" in text
    assert _bytes(model) == before


@pytest.mark.parametrize("case", NAMES)
def test_u061_names_of_every_script(tmp_path: Path, case: str) -> None:
    folder = tmp_path / NAMES[case].removesuffix(".bin")
    folder.mkdir()
    model, other = _model(tmp_path), _model(tmp_path, "sgd")
    for name in (NAMES[case], NAMES[case].replace(".bin", ".safetensors")):
        if len(name.encode()) > 255:
            continue
        _train(model, 1)
        model.save(folder / name)
        other.load(folder / name)
        assert _bytes(other) == _bytes(model)
        assert name in [path.name for path in folder.iterdir()]
    (folder / NAMES[case]).write_bytes(b"short")
    with pytest.raises(WeightFileError) as caught:
        other.load(folder / NAMES[case])
    assert NAMES[case] in str(caught.value)


def test_a_full_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(WeightFileError):
        _model(tmp_path).save(tmp_path / ("é" * 130 + ".bin"))
    assert [path.name for path in tmp_path.iterdir()] == ["adam.ini"]
