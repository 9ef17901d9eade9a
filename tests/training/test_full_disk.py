"""A disk that fills up while a run goes on: a small file system of its own, in a mount namespace of its own (U044)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOTS = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]

# In the namespace: the file system is mounted, and goes away with the process.
PROGRAM = """
import os, pathlib, subprocess, sys
from nntrainer_py import Model, NNTrainerError
from nntrainer_py.formats.safetensors import SafetensorsFile
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.training import checkpoint
from nntrainer_py.training.callbacks import Callback, HistoryFiles
from small_models import CLASSES, FEATURES, data

disk, files = pathlib.Path(sys.argv[1]), sys.argv[2].split(",")
mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", disk], capture_output=True)
if mounted.returncode:
    sys.exit("no mount")

class Fill(Callback):
    def __init__(self, pages):
        self.pages = pages
    def epoch_begin(self, run, epoch):
        with (disk / "filler").open("wb", buffering=0) as filler:
            free = os.statvfs(disk).f_bavail
            for _ in range(max(0, free - self.pages)):
                filler.write(bytes(4096))

def model():
    out = FullyConnected(unit=CLASSES, activation="softmax")
    layers = [Input(input_shape=f"1:1:{FEATURES}"), FullyConnected(unit=1500), out]
    return Model.build(layers, model={"loss": "cross", "batch_size": 8}, optimizer="adam").compile(threads=1)

def settings():
    found = {"checkpoint": disk / "c.safetensors"}
    if "weights" in files:
        found |= {"save_path": disk / "w.bin", "save_best_path": disk / "best.bin"}
    return found

def state():
    with SafetensorsFile(disk / "c.safetensors") as file:
        file.verify()
    return checkpoint.summary(disk / "c.safetensors").epoch

size = None
pages, done = 0, False
while not done:
    for file in disk.iterdir():
        file.unlink()
    model().train(*data(16), valid=data(9, 1), epochs=1, **settings())
    kept = {file.name: file.read_bytes() for file in disk.iterdir()}
    try:
        followers = [Fill(pages)] + ([HistoryFiles(disk / "h.csv")] if "history" in files else [])
        model().train(*data(16), valid=data(9, 1), epochs=2, resume=True, callbacks=followers, **settings())
        done, end = True, "done"
    except NNTrainerError as error:
        end = f"{error.exit_code} {error}"
    (disk / "filler").unlink()
    for name, content in kept.items():
        now = (disk / name).read_bytes()
        assert now == content or len(now) == len(content) or name == "c.safetensors", name
    print(pages, state(), sorted(f.name for f in disk.iterdir() if f.name not in kept), end, sep="|", flush=True)
    pages += 7
"""


@pytest.mark.parametrize("files", ["checkpoint", "weights", "history"])
def test_u044_a_disk_that_fills(tmp_path, files):
    """U044: filled at every 28th KB: the run ends with the cause and exit code 3, and a whole checkpoint is there."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("needs unshare (util-linux)")
    words = [unshare, "--map-root-user", "--mount", sys.executable, "-c", PROGRAM, str(tmp_path), files]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(ROOTS)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if "no mount" in done.stderr or "unshare failed" in done.stderr:
        pytest.skip("may not mount a file system here")
    assert done.returncode == 0, done.stderr
    *full, last = (line.split("|") for line in done.stdout.splitlines())
    assert len(full) >= 5
    for _, epoch, left, end in full:
        assert end.startswith("3 "), end
        assert "cannot be written: No space left on device" in end
        assert epoch == ("2" if "h.csv" in end else "1")  # the history is written after the epoch's checkpoint
        assert left in ("[]", "['h.csv']")
    assert last[1] == "2"
    assert last[3] == "done"
