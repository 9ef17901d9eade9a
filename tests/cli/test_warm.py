"""``nntrainer warm``: a folder of compiled kernels that a read-only install can use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nntrainer_py.cli import warm
from nntrainer_py.graph.description import load_text
from nntrainer_py.tensor.kernels import cache_location, precompile
from nntrainer_py.tensor.kernels.compile import Kernel
from nntrainer_py.training import compiled  # noqa: F401  # takes its names before a test replaces them

MODEL = """
[Model]
type = NeuralNetwork
loss = mse
batch_size = 2
[Optimizer]
type = sgd
[in]
type = input
input_shape = 1:1:3
[out]
type = fully_connected
unit = 2
"""


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo ``use_only`` after the test."""
    monkeypatch.setattr(cache_location, "_only", None)
    yield
    cache_location._only = None
    cache_location.cache_folders.cache_clear()
    precompile.announce_to(None)


def test_warm_to_a_folder_says_what_it_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, elsewhere: None
) -> None:
    model = tmp_path / "model.ini"
    model.write_text(MODEL)
    given: list[object] = []
    monkeypatch.setattr(precompile, "precompile", lambda jobs, only: given.extend([len(jobs), only]))
    monkeypatch.setattr(Kernel, "is_ready", lambda self, signature: bool(given))
    assert warm.main([str(model), "--to", str(tmp_path / "kernels"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["compiled"] == given[0] > 0
    assert given[1] == tmp_path / "kernels"
    assert Path(told["folder"]).parent == tmp_path / "kernels"


def test_what_could_not_be_compiled_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, elsewhere: None
) -> None:
    model = tmp_path / "model.ini"
    model.write_text(MODEL)
    monkeypatch.setattr(precompile, "precompile", lambda jobs, only: None)
    monkeypatch.setattr(Kernel, "is_ready", lambda self, signature: False)
    assert warm.main([str(model)]) == 2
    assert "could not be compiled" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert warm.main(["--to", str(tmp_path / "file" / "inside")]) == 2
    assert "--to: cannot make the folder" in capsys.readouterr().err


@pytest.mark.parametrize("name", warm.COMMON)
def test_the_descriptions_of_common_models_are_sound(name: str) -> None:
    assert load_text(warm.COMMON[name], folder=Path(), name=name).has_loss
