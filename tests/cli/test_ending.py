"""What comes after a run: pictures, drawn when the memory of model and data was given back."""

from __future__ import annotations

import gc
import json
import weakref
from pathlib import Path
from typing import Any

import pytest
from commands import command, write_problem

from nntrainer_py.cli import pictures
from nntrainer_py.cli.ending import memory_line
from nntrainer_py.data.dataset import Dataset
from nntrainer_py.data.loader import BatchLoader
from nntrainer_py.errors import InterruptedRun, NumericalError
from nntrainer_py.model import Model
from nntrainer_py.training.callbacks import HistoryFiles
from nntrainer_py.training.engine import Engine


@pytest.fixture
def alive(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What there is of a run at the beginning of its first picture; memory is freed without the collector."""
    known: list[weakref.ref[Any]] = []
    found = ["nothing was drawn"]
    for kind in (Model, Engine, BatchLoader, Dataset):
        _watch(kind, known, monkeypatch)
    draw = pictures.draw_curves

    def drawn(*given: Any) -> None:
        assert len(known) >= 6  # a model, its engine, loaders and data of two uses
        found[:] = [type(made).__name__ for one in known if (made := one()) is not None]
        draw(*given)

    monkeypatch.setattr(pictures, "draw_curves", drawn)
    return found


def _watch(kind: type, known: list[weakref.ref[Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    original = kind.__init__

    def watched(self: Any, *given: Any, **named: Any) -> None:
        known.append(weakref.ref(self))
        original(self, *given, **named)

    monkeypatch.setattr(kind, "__init__", watched)


@pytest.mark.parametrize("error", [None, NumericalError("the loss is nan"), InterruptedRun("interrupted", signal=2)])
def test_pictures_come_when_model_and_data_are_gone(
    error: Exception | None,
    alive: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ini = write_problem(tmp_path)
    write = HistoryFiles.epoch_end

    def ended(self: HistoryFiles, run: Any, row: Any) -> None:
        write(self, run, row)
        if error is not None and row.epoch == 2:
            raise error

    monkeypatch.setattr(HistoryFiles, "epoch_end", ended)
    gc.disable()
    try:
        done = command(capsys, "train", ini, "--out", tmp_path / "run")
    finally:
        gc.enable()
    assert done.code == (0 if error is None else error.exit_code), done.err
    assert alive == []
    assert (tmp_path / "run" / "curves.png").is_file()
    assert (tmp_path / "run" / "confusion.png").is_file() == (error is None)


def test_the_figure_of_memory_says_what_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = command(capsys, "train", write_problem(tmp_path), "--out", tmp_path / "run")
    memory = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))["memory"]
    (line,) = [line for line in done.out.splitlines() if line.startswith("memory")]
    assert line.split(maxsplit=1)[1] == memory_line(memory)
    assert 0 < memory["resident_before"] <= memory["peak_resident"]
    words = {"planned": {"total": 3 << 20}, "peak_resident": 104 << 20}
    shown = "planned 3.00 MiB; the process had 104.00 MiB at most, with Python, libraries and kernels"
    assert memory_line(words) == shown
    assert memory_line(words | {"peak_resident": None}) == "planned 3.00 MiB"
