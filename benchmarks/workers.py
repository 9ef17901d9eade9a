"""The measured processes: one a model, engine and thread count, kept alive so that runs of several can alternate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MODELS = ("mlp", "lenet", "lstm", "transformer", "resnet18", "vgg16")
BATCH = {"mlp": 64, "transformer": 16}  # the others 32
LOSSES = 5
#: sections and keys that make a model wider, with their values at width 1
WIDTH = {
    "mlp": {"fc1.unit": 256, "fc2.unit": 128},
    "lenet": {"conv1.filters": 6, "conv2.filters": 12},
    "lstm": {"lstm.unit": 128},
    "transformer": {"hidden.unit": 256},
}


class WorkerError(RuntimeError):
    """A measured process ended or said something else than expected."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is run: a model of a batch size and width, on so many threads, training or inference."""

    model: str
    threads: int
    predict: bool = False
    batch: int = 0
    width: int = 1

    @property
    def samples(self) -> int:
        return self.batch or BATCH.get(self.model, 32)

    @property
    def overrides(self) -> list[str]:
        if self.width == 1:
            return []
        return [f"{key}={value * self.width}" for key, value in WIDTH[self.model].items()]


@dataclass(slots=True)
class Setup:
    """Interpreters, where to find the package, and the folder for the data of this run."""

    pythons: dict[str, str]
    folder: Path
    package: Path = HERE.parent
    data: dict[tuple[str, int, int], Path] = field(default_factory=dict)

    def python(self, peer: str) -> str:
        """The interpreter for a peer; WorkerError when nobody named one that has it."""
        family = peer.partition("-")[0]
        for name in (peer, family):
            if name in self.pythons:
                return self.pythons[name]
        if peer == "product" or peer == "ort-inference":
            return sys.executable
        raise WorkerError(f"no interpreter for {peer}: give --python {family}=PATH")

    def described(self, case: Case) -> Path:
        """Random data and the product's initial weights for a case."""
        key = (case.model, case.samples, case.width)
        if key not in self.data:
            path = self.folder / f"{case.model}-{case.samples}-{case.width}.npz"
            command = [*_product(self, case), "--describe", str(path)]
            done = subprocess.run(command, check=False, env=self.environment(), capture_output=True, text=True)
            if done.returncode:
                raise WorkerError(" / ".join(done.stderr.strip().splitlines()[-2:]))
            self.data[key] = path
        return self.data[key]

    def environment(self, **changes: str) -> dict[str, str]:
        found = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "MKL_"))}
        return found | {"PYTHONPATH": str(self.package)} | changes


def _product(setup: Setup, case: Case) -> list[str]:
    ini = HERE / "models" / f"{case.model}.ini"
    command = [setup.python("product"), str(HERE / "peers" / "product.py"), "--model", str(ini)]
    command += ["--batch", str(case.samples), "--threads", str(case.threads), "--data", "none"]
    for override in case.overrides:
        command += ["--set", override]
    return command


def command_of(setup: Setup, engine: str, case: Case, *, double: bool = False) -> list[str]:
    """How an engine is started for a case. ``engine``: product, torch, torch-channels-last, torch-compile, ort."""
    data = str(setup.described(case))
    predict = ["--predict"] if case.predict else []
    losses = [] if case.predict else ["--losses", str(LOSSES)]
    if engine == "product":
        return [*_product(setup, case), "--data", data, *predict, *losses]
    common = ["--model", case.model, "--threads", str(case.threads), "--data", data, *predict]
    if engine == "ort":
        python = setup.python("ort-inference" if case.predict else "ort")
        return [python, str(HERE / "peers" / "ort_peer.py"), *common]
    options = {"torch": [], "torch-channels-last": ["--channels-last"], "torch-compile": ["--compile"]}[engine]
    double_option = ["--double"] if double else []
    width = ["--width", str(case.width)]
    return [
        setup.python(engine),
        str(HERE / "peers" / "torch_peer.py"),
        *common,
        *losses,
        *width,
        *options,
        *double_option,
    ]


class Worker:
    """A process that has done its first step. Use as a context; ``facts`` is what it told about its start."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self.noise = tempfile.TemporaryFile("w+")  # noqa: SIM115  # what it says beside the protocol, for the error message
        self.process = subprocess.Popen(
            [*command, "--born", repr(time.time())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.noise, text=True, env=environment,
        )  # fmt: skip
        self.peak_mb = 0.0
        try:
            self.facts = self._answer()
        except BaseException:
            self.close()
            raise

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.noise.seek(0)
            last = self.noise.read().strip().splitlines()[-3:]
            raise WorkerError(" / ".join(last) or f"ended with {self.process.returncode}")
        found: dict[str, Any] = json.loads(line)
        return found

    def _ask(self, **request: Any) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def time(self, seconds: float, least: int = 3) -> tuple[float, float]:
        """Median and smallest milliseconds of a step."""
        found = self._ask(do="time", seconds=seconds, least=least)
        return float(found["median"]), float(found["least"])

    def close(self) -> None:
        """End the process; its peak memory is known afterwards."""
        try:
            if self.process.poll() is None and hasattr(self, "facts"):
                self.peak_mb = float(self._ask(do="quit")["peak_mb"])
        finally:
            self.process.kill()
            self.process.wait()
            self.noise.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
