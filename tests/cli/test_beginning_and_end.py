"""Where a run goes that another one overtakes, when it says that it began, and what it says of its best epoch."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from commands import MODEL, command, write_problem

from nntrainer_py.cli.run_folder import FILES, RunFolder

WITHOUT_VALID = re.sub(r"\[valid_set\]\n.*?\n\n", "", MODEL, flags=re.S)


def test_of_two_runs_that_begin_together_the_second_takes_the_next_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other one takes the number between the look at it and the making of the folder."""
    ini, opened = write_problem(tmp_path), RunFolder.open

    def overtaken(folder: RunFolder) -> RunFolder:
        (tmp_path / "runs" / "model-1").mkdir(parents=True)
        return opened(folder)

    monkeypatch.setattr(RunFolder, "open", overtaken)
    assert command(capsys, "train", ini, "--epochs", 1).code == 0
    assert list((tmp_path / "runs" / "model-1").iterdir()) == []
    assert {path.name for path in (tmp_path / "runs" / "model-2").iterdir()} == set(FILES) - {"report.html"}


def test_started_is_when_the_command_began(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Not when everything was read and compiled; so many seconds later the results are written."""
    ini, slow = write_problem(tmp_path), tmp_path / "slow.py"
    slow.write_text("import time\ntime.sleep(2.5)\n", encoding="utf-8")
    began = time.time()
    assert command(capsys, "train", ini, "--out", tmp_path / "run", "--plugin", slow).code == 0
    written = (tmp_path / "run" / "result.json").stat().st_mtime
    record = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    started = time.mktime(time.strptime(record["started"][:19], "%Y-%m-%dT%H:%M:%S"))
    assert began - 1.1 < started < began + 1.0
    assert abs(started + record["seconds_of_process"] - written) < 1.6
    assert re.fullmatch(r"[0-9T:-]{19}[+-][0-9]{4}", record["started"])


@pytest.mark.parametrize("options", [["--patience", 1], ["--restore-best"]])
def test_the_best_epoch_is_told_without_validation_data(
    options: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = WITHOUT_VALID.replace("learning_rate = 0.02", "learning_rate = 3")
    assert "valid_set" not in text
    ini = write_problem(tmp_path, text)
    done = command(capsys, "train", ini, "--out", tmp_path / "run", *options)
    assert done.code == 0
    record = json.loads((tmp_path / "run" / "result.json").read_text(encoding="utf-8"))
    (line,) = re.findall(r"^best .*$", done.out, re.M)
    epoch, loss, accuracy = re.fullmatch(
        r"best      epoch ([0-9]+): loss ([0-9.e-]+), accuracy ([0-9.]+) % \(restored\)", line
    ).groups()  # type: ignore[union-attr]
    assert int(epoch) == record["best"]["epoch"] == record["weights_of_epoch"]
    assert float(loss) == pytest.approx(record["best"]["loss"], rel=1e-3)
    assert float(accuracy) == pytest.approx(100 * record["best"]["accuracy"], rel=1e-3)
