"""What a person sees: a bar on a terminal, plain lines elsewhere; Ctrl-C and termination end in their codes."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commands import MODEL, command, process, program, write_problem

from nntrainer_py.cli.console import LogFile
from nntrainer_py.errors import WeightFileError

pytest.importorskip("termios", reason="needs pseudo-terminals")
from terminal import on_terminal  # after the check: it needs them


def test_a_terminal_shows_a_bar(tmp_path: Path) -> None:
    ini = write_problem(tmp_path)
    screen = on_terminal([*program("train"), str(ini)])
    assert screen.code == 0, screen.text
    pieces = screen.text.split("\r")
    bars = [piece for piece in pieces if re.search(r"epoch \d/3 +\d+%\|", piece)]
    assert bars
    assert any("samples/s" in bar and "left" in bar and "iB" in bar for bar in bars)
    lines = [line for line in screen.text.replace("\r", "\n").splitlines() if re.match(r"epoch \d/3: loss ", line)]
    assert len(lines) == 3
    assert "done" in screen.text


def test_a_narrow_terminal_is_not_overrun(tmp_path: Path) -> None:
    screen = on_terminal([*program("train"), str(write_problem(tmp_path))], columns=60)
    assert screen.code == 0, screen.text
    bars = [piece for piece in re.split(r"[\r\n]", screen.text) if re.search(r"epoch \d/3 +\d+%", piece)]
    assert bars
    assert max(map(len, bars)) <= 60


def test_quiet_shows_nothing_on_a_terminal(tmp_path: Path) -> None:
    screen = on_terminal([*program("train"), str(write_problem(tmp_path)), "--quiet"])
    assert (screen.code, screen.text) == (0, "")


def test_elsewhere_lines_are_plain(tmp_path: Path) -> None:
    done = process("train", write_problem(tmp_path))
    assert done.code == 0, done.err
    assert done.out.isascii()
    assert "\r" not in done.out + done.err
    assert "\x1b" not in done.out + done.err
    assert "%|" not in done.out + done.err
    assert len(re.findall(r"^epoch \d/3: loss .* s( \(best\))?$", done.out, flags=re.M)) == 3


def _stop_after_one_epoch(ini: Path, number: int) -> tuple[int, str]:
    words = [*program("train"), str(ini), "--epochs", "100000"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        for line in running.stdout:
            if line.startswith("epoch"):
                break
        running.send_signal(number)
        running.stdout.read()
        return running.wait(timeout=60), running.stderr.read()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_in_their_code_and_say_how_to_go_on(
    number: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini = write_problem(tmp_path, name="my model.ini")
    code, err = _stop_after_one_epoch(ini, number)
    assert code == 128 + number, err
    assert err.startswith("interrupted: finishing the step, then saving")
    assert ("Ctrl-C" in err.splitlines()[0]) == (number == signal.SIGINT)
    assert "Traceback" not in err
    words = shlex.split(err.splitlines()[-1])
    assert "--resume" in words
    folder = tmp_path / "runs" / "my model-1"
    assert (folder / "result.json").is_file()
    done = int(re.findall(r"^\d+,", (folder / "history.csv").read_text(encoding="utf-8"), flags=re.M)[-1][:-1])
    again = [word for word in words[1:] if word not in ("--epochs", "100000")]
    finished = command(capsys, "train", *again, "--epochs", done + 1)
    assert finished.code == 0, finished.err
    assert f"resumed at epoch {done + 1}" in finished.out


def test_ctrl_c_on_a_terminal(tmp_path: Path) -> None:
    sent: list[float] = []

    def press(text: str, running: subprocess.Popen[bytes]) -> None:
        if "epoch     1/" in text and not sent:
            sent.append(time.monotonic())
            os.killpg(running.pid, signal.SIGINT)

    words = [*program("train"), str(write_problem(tmp_path)), "--epochs", "10000"]
    screen = on_terminal(words, watch=press)
    assert sent, screen.text
    assert screen.code == 130
    assert "Traceback" not in screen.text
    assert "--resume" in screen.text


def test_the_second_of_two_runs_in_one_folder_is_refused(tmp_path: Path) -> None:
    ini = write_problem(tmp_path)
    out = tmp_path / "run"
    words = [*program("train"), str(ini), "--epochs", "100000", "--out", str(out)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            if line.startswith("epoch"):
                break
        try:
            for option in ("--overwrite", "--resume"):
                done = process("train", ini, "--out", out, option)
                assert done.code == 2, done.err
                assert "another run" in done.err
        finally:
            running.send_signal(signal.SIGINT)
            running.stdout.read()
    assert (out / "checkpoint.safetensors").is_file()


def test_starting_does_not_import_what_is_not_needed() -> None:
    code = (
        "import sys; from nntrainer_py.cli.main import main; main(['train', '--help']); "
        "print(sorted({'numpy', 'numba', 'scipy', 'matplotlib', 'tqdm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_log_that_cannot_be_written_ends_the_run_with_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a disk that is full: the first cause is told, the last checkpoint is whole, the run goes on later."""

    def full(self: LogFile, *_: object) -> None:
        assert self._file is not None
        self._file.close()
        self._file = Path("/dev/full").open("a", encoding="utf-8")  # noqa: SIM115
        self.note("the disk is full")

    ini, run = write_problem(tmp_path), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(LogFile, "epoch_end", full)
        done = command(capsys, "train", ini, "--out", run)
    assert done.code == 3
    assert done.err == f"{run / 'run.log'}: cannot be written: No space left on device\n"
    done = command(capsys, "train", ini, "--out", run, "--resume")
    assert "resumed at epoch 2" in done.out


def test_the_first_cause_is_told_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C, and then the weights cannot be written: both are told, the first decides."""

    def refuse(*_: object, **__: object) -> None:
        raise WeightFileError("model.bin: cannot be written: No space left on device")

    def interrupt(self: LogFile, *_: object) -> None:
        monkeypatch.setattr("nntrainer_py.model.Model.save", refuse)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(LogFile, "epoch_end", interrupt)
    text = MODEL.replace("[valid_set]\ntype = file\npath = valid.dat\n", "")
    done = command(capsys, "train", write_problem(tmp_path, text))
    assert done.code == 130
    first, second = done.err.splitlines()
    assert "interrupted" in first
    assert "model.bin: cannot be written" in second
