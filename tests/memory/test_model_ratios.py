"""The arena is at most 2 % above its lower bound on every model that the project ships or that is public."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import process
from shared import shared_files

from nntrainer_py import Model
from nntrainer_py.errors import DescriptionError
from nntrainer_py.training.lowerings import Mode

ROOT = Path(__file__).resolve().parents[2]
OWN = [
    path
    for pattern in ("benchmarks/models", "examples/digits", "Applications/*")
    for path in ROOT.glob(f"{pattern}/*.ini")
]
PUBLIC = shared_files("ini/*.ini")
BATCHES = (None, 1, 16, 32, 64, 128)  # None: the model's own
FRAGMENTS = ("mnist_inf", "simple_fc", "simple_fc_backbone")  # no models: parts of one, or of one that is not there
LIMIT = 1.02


def ratios(path: Path) -> dict[tuple[int, str], float]:
    """Arena over lower bound, by batch size and mode."""
    model = Model.from_ini(path)
    modes: tuple[Mode, ...] = ("train", "evaluate", "predict") if model.trainable else ("predict",)
    found = {}
    for batch in BATCHES:
        compiled = model.compile(batch, threads=2).compiled
        for mode in modes:
            found[model.batch_size, mode] = compiled.plan(mode, model.batch_size).placement.ratio
    return found


def test_models_are_there() -> None:
    folders = {path.parent.name for path in OWN}
    assert {"models", "digits", "Resnet", "VGG", "MNIST", "KNN", "ProductRatings", "LogisticRegression"} <= folders


@pytest.mark.parametrize("path", sorted(OWN), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_own_models(path: Path) -> None:
    assert {case: ratio for case, ratio in ratios(path).items() if ratio > LIMIT} == {}


@pytest.mark.parametrize("path", PUBLIC, ids=lambda path: path.stem)
def test_public_models(path: Path) -> None:
    if path.stem.removeprefix("test__test_models__models__") in FRAGMENTS:
        with pytest.raises(DescriptionError):
            Model.from_ini(path)
        return
    assert {case: ratio for case, ratio in ratios(path).items() if ratio > LIMIT} == {}


@pytest.mark.parametrize(
    ("name", "parts"), [("model", ("scale",)), ("everything", ("log_cosh", "signed", "sawtooth", "sine"))]
)
def test_models_with_parts_of_their_own(name: str, parts: tuple[str, ...]) -> None:
    custom = ROOT / "examples" / "custom"
    plugins = [word for part in parts for word in ("--plugin", str(custom / f"{part}.py"))]
    for more in ([], ["--inference"], ["--batch-size", "128"]):
        done = process("inspect", custom / f"{name}.ini", "--json", *plugins, *more)
        assert done.code == 0, done.err
        memory = json.loads(done.out)
        placed = memory["picture"]
        assert placed["arena"] <= LIMIT * placed["lower_bound"], more
