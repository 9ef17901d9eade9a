"""Killed and resumed in new processes: every optimizer, every schedule and every kind of data, pairwise (U040).

A few cases in the ordinary run; all of them: ``pytest tests/training/test_kills.py -m crash`` (a few minutes).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.training.test_resume import CASES

ROOTS = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

# One process prepares (imports, compiled kernels are loaded from their cache) and forks each run, which is a process of
# its own from then on; the first process never trains.
PROGRAM = """
import os, pathlib, signal, sys, warnings
warnings.simplefilter("ignore")
from small_models import Recorder, classifier, data
from tests.training.test_resume import model_of, source

class Steps(Recorder):
    def __init__(self, file, kill, when):
        super().__init__()
        self.file, self.kill, self.when = file, kill, when
    def end(self, run, when):
        if (run.step, when) == (self.kill, self.when):
            os.kill(os.getpid(), signal.SIGKILL)
    def batch_end(self, run, batch):
        self.file.write(f"{batch.step} {batch.loss.hex()}\\n")
        self.file.flush()
        self.end(run, "batch")
    def saved(self, run, what, path):
        self.end(run, "saved")

def train(folder, data_folder, case, epochs, kill=-1, when="batch"):
    optimizer, schedule, kind = case
    path = folder / "checkpoint.safetensors"
    with (folder / "losses").open("a") as file:
        model = model_of(optimizer, schedule)
        model.train(source(kind, data_folder), valid=source("arrays", data_folder), epochs=epochs, patience=50,
                    checkpoint=path, checkpoint_steps=4, resume=path.exists(), callbacks=[Steps(file, kill, when)])
        model.save(folder / "final.bin", training_state=True)
        model.save(folder / "final.safetensors")

def forked(*arguments):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            train(*arguments)
            status = 0
        except BaseException:
            import traceback
            traceback.print_exc()
        os._exit(status)
    status = os.waitpid(child, 0)[1]
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)

home = pathlib.Path(sys.argv[1])
for number, words in enumerate(sys.argv[2:]):
    case = words.split(",")
    found = []
    folder = home / str(number)
    for name in ("whole", "parts", "data"):
        (folder / name).mkdir(parents=True)
    found.append(forked(folder / "whole", folder / "data", case, 6))
    # inside the third epoch, or as a checkpoint has just been written; and once more later
    kill, when = (13 + number % 5, "batch") if number % 2 else (16, "saved")
    found.append(forked(folder / "parts", folder / "data", case, 6, kill, when))
    found.append(forked(folder / "parts", folder / "data", case, 6, 26 + number % 4, "batch"))
    found.append(forked(folder / "parts", folder / "data", case, 6))
    print(*found, flush=True)
"""


def losses(folder: Path) -> dict[int, str]:
    """Step to loss; a step that was done again after a kill must have had the same one."""
    found: dict[int, str] = {}
    for line in (folder / "losses").read_text(encoding="ascii").splitlines():
        step, loss = line.split()
        assert found.setdefault(int(step), loss) == loss, f"step {step}"
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("share", ["a few", *[pytest.param(part, marks=pytest.mark.crash) for part in range(8)]])
def test_u040_killed_and_resumed(tmp_path, share):
    """U040: six epochs; killed with SIGKILL in the third and in the fifth, resumed: losses and last bytes are equal."""
    cases = CASES[:: len(CASES) // 3] if share == "a few" else CASES[share::8]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(ROOTS)}
    words = [sys.executable, "-c", PROGRAM, str(tmp_path), *map(",".join, cases)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr
    ends = done.stdout.splitlines()
    assert len(ends) == len(cases)
    for number, (case, end) in enumerate(zip(cases, ends, strict=True)):
        folder = tmp_path / str(number)
        assert end == f"0 {-signal.SIGKILL} {-signal.SIGKILL} 0", (case, done.stderr)
        whole, parts = losses(folder / "whole"), losses(folder / "parts")
        assert parts == whole, case
        assert len(whole) == 36, case
        for name in ("final.bin", "final.safetensors"):
            assert (folder / "parts" / name).read_bytes() == (folder / "whole" / name).read_bytes(), (case, name)
