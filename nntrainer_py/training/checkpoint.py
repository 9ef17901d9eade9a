"""Checkpoints: one file that holds everything a run needs to go on as if it had never stopped.

The file has the safetensors layout. Tensors are called ``weights/<name>``, ``optimizer/<name>`` and ``best/<name>``
(the weights of the best epoch), ``history`` has a row of figures a line, and what prediction needs to know of the data
lies as `data_description` says. The metadata are texts: ``format``, ``training`` (JSON: counters, place in the data,
best epoch, schedule) and ``ini``. A file of weights alone (`save_model`) has the bare names of the weights and neither
``training`` nor ``history``.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import UsageError
from nntrainer_py.formats import json_tensor, safetensors
from nntrainer_py.formats.safetensors import SafetensorsFile
from nntrainer_py.graph.save import to_text
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.training import data_description
from nntrainer_py.training.data_description import PREFIX, DataDescription
from nntrainer_py.training.history import History
from nntrainer_py.training.same_model import require_same_model
from nntrainer_py.training.trainee import Trainee
from nntrainer_py.version import __version__

FORMAT = "nntrainer_py checkpoint 1"
MODEL_FORMAT = "nntrainer_py model 1"
WEIGHTS, OPTIMIZER, BEST, HISTORY = "weights/", "optimizer/", "best/", "history"
_BESIDE = (BEST, HISTORY, PREFIX)

Arrays = Mapping[str, NDArray[Any]]


@dataclass(slots=True)
class Progress:
    """Where a run stands; everything but tensors, in plain values.

    Attributes:
        epoch: complete training passes; batch: batches done of the next one.
        validated: the last complete pass has its row in the history.
        run: what must be the same for the numbers to stay the same: batch size, accumulation, seed, samples ...
        tally: sums of the epoch that is going on; seconds: spent in it.
        best, schedule: as their `state` functions give them.
    """

    epoch: int
    batch: int
    validated: bool
    run: dict[str, Any]
    tally: dict[str, Any]
    seconds: float = 0.0
    history: History = field(default_factory=History)
    best: dict[str, Any] = field(default_factory=dict)
    schedule: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Summary:
    """What a checkpoint says about itself, read without its tensors."""

    version: str
    seed: int
    epoch: int
    batch: int
    step: int
    ini: str


def save(path: str | os.PathLike[str], model: Trainee, progress: Progress, best_weights: Arrays | None) -> None:
    """Write a checkpoint atomically, verified before it takes the place of the one before.

    Raises:
        WeightFileError: it cannot be written; the one before still stands.
    """
    compiled = model.compiled
    lowered = model.lowered("train")
    tensors = {f"{WEIGHTS}{name}": array for name, array in compiled.weights(lowered).items()}
    tensors |= {f"{OPTIMIZER}{name}": array for name, array in compiled.optimizer_state(lowered).items()}
    tensors |= {f"{BEST}{name}": array for name, array in (best_weights or {}).items()}
    training = {
        "version": __version__,
        "epoch": progress.epoch,
        "batch": progress.batch,
        "validated": progress.validated,
        "step": int(compiled.state.counters[StepState.STEP]),
        "counters": [int(value) for value in compiled.state.counters],
        "run": progress.run,
        "tally": progress.tally,
        "seconds": progress.seconds,
        "best": progress.best,
        "schedule": progress.schedule,
    }
    tensors |= {HISTORY: json_tensor.of_lines(progress.history.lines()), **data_description.tensors(model)}
    safetensors.save(path, tensors, {"format": FORMAT, "training": json.dumps(training), **_description(model)})


def save_model(path: str | os.PathLike[str], model: Trainee) -> None:
    """Write the weights with the description of the model, its classes and its normalization."""
    metadata = {"format": MODEL_FORMAT, "version": __version__, "epoch": str(model.epoch), **_description(model)}
    safetensors.save(path, {**model.weights(), **data_description.tensors(model)}, metadata)


def _description(model: Trainee) -> dict[str, str]:
    """Metadata from which the model can be built and used again; without ``ini`` where a layer has no keyword."""
    found = data_description.metadata(model)
    with contextlib.suppress(UsageError):
        found["ini"] = to_text(model.spec)
    return found


def summary(path: str | os.PathLike[str]) -> Summary:
    """What the checkpoint at ``path`` says about itself; WeightFileError when it is none."""
    with SafetensorsFile(path) as file:
        training = _training(file)
        try:
            return Summary(
                str(training["version"]), int(training["run"]["seed"]), int(training["epoch"]),
                int(training["batch"]), int(training["step"]), file.metadata.get("ini", ""),
            )  # fmt: skip
        except (KeyError, TypeError, ValueError):
            raise file.error("its training state cannot be read") from None


def restore(
    path: str | os.PathLike[str], model: Trainee, run: Mapping[str, Any], best_weights: Arrays | None = None
) -> tuple[Progress, bool]:
    """Put weights, optimizer state and counters of a checkpoint into ``model``; its progress.

    Also whether it has the weights of the best epoch; they are put into ``best_weights`` where somebody wants them.
    The file is checked whole, against its hash, the model and ``run``, before anything is changed.

    Raises:
        WeightFileError: damaged, or of another model.
        UsageError: ``run`` or the model's description differs from that of the checkpoint, so that going on would not
            give the same numbers.
    """
    compiled = model.compiled
    lowered = model.lowered("train")
    weights, state = compiled.weights(lowered), compiled.optimizer_state(lowered)
    with SafetensorsFile(path) as file:
        file.verify()
        training = _training(file)
        progress = _progress(file, training)
        _check_run(Path(path), progress.run, run)
        wanted = {f"{WEIGHTS}{name}": array for name, array in weights.items()}
        wanted |= {f"{OPTIMIZER}{name}": array for name, array in state.items()}
        for name, array in wanted.items():
            file.check_fits(name, array)
        extra = [name for name in file.tensors if name not in wanted and not name.startswith(_BESIDE)]
        if extra:
            raise file.error(f"tensor '{extra[0]}' has no place in this model")
        kept = any(name.startswith(BEST) for name in file.tensors)
        if kept:
            for name, array in weights.items():
                file.check_fits(f"{BEST}{name}", array)
            wanted |= {f"{BEST}{name}": array for name, array in (best_weights or {}).items()}
        require_same_model(os.fspath(path), file.metadata.get("ini", ""), model.spec)
        described = DataDescription.read(file)
        for name, array in wanted.items():
            file.read_into(name, array)
        compiled.state.counters[:] = training["counters"]
        model.epoch = progress.epoch
        described.put_into(model)
    return progress, kept


def load_weights(path: str | os.PathLike[str], model: Trainee) -> None:
    """Weights of a model file, a checkpoint, or any safetensors file with the same names, into ``model``.

    The file is checked whole before anything is changed. WeightFileError when a tensor is missing, left over, or of
    another shape or type.
    """
    weights = model.weights()
    with SafetensorsFile(path) as file:
        written = file.metadata.get("format", "")
        if safetensors.HASH in file.metadata or written in (FORMAT, MODEL_FORMAT):
            file.verify()
        prefix = WEIGHTS if written == FORMAT else ""
        for name, array in weights.items():
            file.check_fits(prefix + name, array)
        extra = [
            name
            for name in file.tensors
            if name.startswith(prefix) and name[len(prefix) :] not in weights and not name.startswith(PREFIX)
        ]
        if extra:
            raise file.error(f"tensor '{extra[0]}' has no place in this model")
        described, epoch = DataDescription.read(file), file.metadata.get("epoch", "")
        if prefix:
            epoch = str(_progress(file, _training(file)).epoch)
        for name, array in weights.items():
            file.read_into(prefix + name, array)
        described.put_into(model)
        if epoch.isascii() and epoch.isdigit() and len(epoch) < 10:
            model.epoch = int(epoch)


def _training(file: SafetensorsFile) -> dict[str, Any]:
    if file.metadata.get("format") != FORMAT or "training" not in file.metadata:
        raise file.error("this is no checkpoint to go on from")
    try:
        training = json.loads(file.metadata["training"])
    except (ValueError, RecursionError):
        training = None
    if not isinstance(training, dict):
        raise file.error("its training state cannot be read")
    return training


def _progress(file: SafetensorsFile, training: Mapping[str, Any]) -> Progress:
    try:
        counters = np.array(training["counters"], np.int64)
        if counters.shape != StepState().counters.shape or counters.min() < 0:
            raise ValueError("counters")
        progress = Progress(
            int(training["epoch"]), int(training["batch"]), bool(training["validated"]), dict(training["run"]),
            dict(training["tally"]), float(training["seconds"]),
            History.of_records(json_tensor.values(file, HISTORY)), dict(training["best"]), dict(training["schedule"]),
        )  # fmt: skip
        if min(progress.epoch, progress.batch) < 0:
            raise ValueError("place")
    except (KeyError, TypeError, ValueError, OverflowError):
        raise file.error("its training state cannot be read") from None
    return progress


def _check_run(path: Path, stored: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    for name, value in run.items():
        if stored.get(name) != value:
            raise UsageError(
                f"{path}: the run to go on had {name.replace('_', ' ')} {stored.get(name)}, this one has {value}; "
                "it can only go on as it began"
            )
