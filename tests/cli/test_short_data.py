"""A batch size above the number of samples: planned and read as all samples at once, with the same numbers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from commands import Done, command, points, write_dat, write_problem

ROWS = 37


def _folder(at: Path) -> Path:
    """A problem with 37 samples to train on and 20 to validate."""
    ini = write_problem(at)
    write_dat(at / "train.dat", *points(ROWS, 1))
    write_dat(at / "valid.dat", *points(20, 2))
    return ini


def _train(capsys: pytest.CaptureFixture[str], ini: Path, out: Path, batch: int, *more: str) -> Done:
    return command(capsys, "train", ini, "--batch-size", str(batch), "--out", str(out), *more)


@pytest.mark.parametrize("accumulation", [1, 4])
def test_nothing_but_memory_changes(tmp_path: Path, capsys: pytest.CaptureFixture[str], accumulation: int) -> None:
    ini = _folder(tmp_path)
    more = ("--set", f"model.gradient_accumulation={accumulation}")
    told = f"no data set has more than {ROWS} samples, so batches are planned for that, not for 1000000"
    exact = _train(capsys, ini, tmp_path / "exact", ROWS, *more)
    above = _train(capsys, ini, tmp_path / "above", 1_000_000, *more)
    assert (exact.code, above.code) == (0, 0)
    assert told in above.err
    assert "no data set" not in exact.err
    made = [(tmp_path / run / "model.bin").read_bytes() for run in ("exact", "above")]
    assert made[0] == made[1]
    results = [json.loads((tmp_path / run / "result.json").read_text(encoding="utf-8")) for run in ("exact", "above")]
    assert results[0]["memory"]["planned"] == results[1]["memory"]["planned"]
    assert results[0]["final"] == results[1]["final"]
    with (tmp_path / "above" / "history.csv").open(encoding="utf-8", newline="") as file:
        assert len(list(csv.DictReader(file))) == 3


def test_the_check_plans_what_the_run_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = _folder(tmp_path)
    checks = [command(capsys, "train", "--check", ini, "--json", "--batch-size", str(n)) for n in (ROWS, 1_000_000)]
    exact, above = (json.loads(done.out) for done in checks)
    assert above["memory"] == exact["memory"]
    assert above["batch_size"] == ROWS
    assert any("1000000" in note for note in above["notes"])


def test_the_largest_data_set_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = _folder(tmp_path)
    write_dat(tmp_path / "valid.dat", *points(80, 2))
    done = command(capsys, "train", "--check", ini, "--json", "--batch-size", "500")
    assert json.loads(done.out)["batch_size"] == 80
    done = command(capsys, "train", "--check", ini, "--json", "--batch-size", "60")
    assert json.loads(done.out)["batch_size"] == 60


def test_a_budget_is_kept_for_the_batches_that_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = _folder(tmp_path)
    done = _train(capsys, ini, tmp_path / "run", 1_000_000, "--memory-budget", "200K")
    assert done.code == 0


def test_a_dropped_last_batch_leaves_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = _folder(tmp_path)
    text = ini.read_text(encoding="utf-8").replace("path = train.dat", "path = train.dat\ndrop_last = true")
    ini.write_text(text, encoding="utf-8")
    done = _train(capsys, ini, tmp_path / "run", 100)
    assert done.code != 0
    assert f"{ROWS} samples cannot fill one batch of 100" in done.err


def test_an_interrupted_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = _folder(tmp_path)
    whole = _train(capsys, ini, tmp_path / "whole", 5000, "--epochs", "4")
    first = _train(capsys, ini, tmp_path / "parts", 5000, "--epochs", "2")
    rest = _train(capsys, ini, tmp_path / "parts", 5000, "--epochs", "4", "--resume")
    assert (whole.code, first.code, rest.code) == (0, 0, 0)
    assert (tmp_path / "whole" / "model.bin").read_bytes() == (tmp_path / "parts" / "model.bin").read_bytes()


def test_predictions_take_no_larger_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = _folder(tmp_path)
    assert _train(capsys, ini, tmp_path / "run", ROWS).code == 0
    words = ("infer", ini, "--weights", str(tmp_path / "run"), "--data", str(tmp_path / "valid.dat"))
    one, all_of_them = (command(capsys, *words, "--batch-size", str(n)) for n in (20, 10_000_000))
    assert one.code == all_of_them.code == 0
    assert one.out == all_of_them.out
