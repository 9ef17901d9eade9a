"""A user's loss, optimizer, schedule and activation from examples/custom: short, right, and usable from an INI."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from harness import Case, check

from nntrainer_py.errors import UsageError
from nntrainer_py.plugins import load_plugin
from nntrainer_py.registry import LOSSES, OPTIMIZERS, SCHEDULERS

CUSTOM = Path(__file__).resolve().parent.parent / "examples" / "custom"
PARTS = ("log_cosh", "signed", "sawtooth", "sine")
_TRAIN = "import sys; from nntrainer_py.cli.train import main; sys.exit(main())"


def test_each_is_short() -> None:
    for file in CUSTOM.glob("*.py"):
        assert len(file.read_text(encoding="utf-8").splitlines()) < 25, file.name


def test_all_of_them_train_from_an_ini(tmp_path: Path) -> None:
    plugins = [option for part in PARTS for option in ("--plugin", str(CUSTOM / f"{part}.py"))]
    out = tmp_path / "run"
    command = [sys.executable, "-c", _TRAIN, str(CUSTOM / "everything.ini"), "--out", str(out), *plugins]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    with (out / "history.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[-1]["valid_loss"]) < 0.005 < float(rows[0]["valid_loss"])
    rates = [float(row["learning_rate"]) for row in rows]
    assert rates[0] == pytest.approx(0.002, rel=0.15)
    assert min(rates) < 0.0003


def test_without_the_plugins_every_word_is_told(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _TRAIN, "--check", str(CUSTOM / "everything.ini")]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 2
    for word in ("signed", "sawtooth", "sine_wave", "log_cosh"):
        assert f"'{word}'" in done.stderr


def test_the_loss_through_the_harness() -> None:
    module = load_plugin(CUSTOM / "log_cosh.py")  # it runs once a process, and then may be registered no more
    try:
        check(Case(module.LogCosh, [(3, 1, 2, 4)]))
    finally:
        if "log_cosh" in LOSSES:
            LOSSES.unregister("log_cosh")


def test_keywords_cannot_be_taken_twice() -> None:
    for registry, word in ((LOSSES, "mse"), (OPTIMIZERS, "adam"), (SCHEDULERS, "step")):
        with pytest.raises(UsageError, match="exists already"):
            registry.register(word, type("Mine", (), {}))
