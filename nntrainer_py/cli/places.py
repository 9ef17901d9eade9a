"""Where a training run writes: that it can, and takes the place of nothing that is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nntrainer_py.cli.weights import weights_file
from nntrainer_py.errors import NNTrainerError, UsageError, printable

if TYPE_CHECKING:
    from nntrainer_py.cli.run_folder import RunFolder
    from nntrainer_py.model import Model


def require_writable(
    model: Model, given: dict[str, str | None], weights: str | None, errors: list[NNTrainerError]
) -> None:
    """The weight files that the description asks for can be written, and take the place of nothing that is read."""
    import os

    told = len(errors)
    taken = _files_read(model, given, weights)
    for key in ("save_path", "save_best_path"):
        text = getattr(model.spec.model, key)
        if text is None:
            continue
        path = model.spec.folder / text
        parent = path.parent
        while not os.path.lexists(parent) and parent != parent.parent:
            parent = parent.parent
        problem = ""
        if path.is_dir():
            problem = "is a folder, a file was expected"
        elif path.exists() and not path.is_file():
            problem = "is not a regular file"
        elif os.path.realpath(path) in taken:
            problem = f"would overwrite {taken[os.path.realpath(path)]}"
        elif not parent.is_dir():
            problem = f"cannot be written, {printable(str(parent))} is no folder"
        elif not os.access(parent, os.W_OK | os.X_OK):
            problem = f"cannot be written, {printable(str(parent))} is not writable"
        if problem:
            errors.append(UsageError(f"{printable(str(path))}: {problem}", origin=model.spec.at(key), key=key))
        taken.setdefault(os.path.realpath(path), f"what {key} writes")
    if len(errors) == told:
        require_weight_names(model, errors)


def require_weight_names(model: Model, errors: list[NNTrainerError]) -> None:
    """The weight files that the description asks for have names of such."""
    from nntrainer_py.formats.names import save_fault

    for key in ("save_path", "save_best_path"):
        text = getattr(model.spec.model, key)
        problem = "" if text is None else save_fault(text)
        if problem:
            path = printable(str(model.spec.folder / text))
            errors.append(UsageError(f"{path}: {problem}", origin=model.spec.at(key), key=key))


def _files_read(model: Model, given: dict[str, str | None], weights: str | None) -> dict[str, str]:
    """Real path of every file that the run reads -> what it is."""
    import os

    layers = (layer.origin.file for layer in model.spec.layers if layer.origin is not None)
    found = {os.path.realpath(file): "a backbone" for file in layers if os.path.isfile(file)}
    if model.spec.path:
        found[os.path.realpath(model.spec.path)] = "the model file"
    if weights is not None:
        found[os.path.realpath(weights_file(weights))] = "the weights of --weights"
    for use, section in model.spec.datasets.items():
        paths = [str(path) for path in section.paths.values()] if given.get(use) is None else []
        found |= {os.path.realpath(path): f"the data of [{use}_set]" for path in paths}
    return found | {os.path.realpath(path): f"the data of --{use}" for use, path in given.items() if path is not None}


def require_kept(model: Model, folder: RunFolder, given: dict[str, str | None], errors: list[NNTrainerError]) -> None:
    """The files of the run take the place of nothing that it reads; `train` looks at the weights itself."""
    for path, what in _files_read(model, given, None).items():
        if folder.written_over(path):
            message = f"the run would overwrite {what}, {printable(path)}; choose another folder, or move that file"
            errors.append(UsageError(message, key="--out"))


def require_folder(text: str, errors: list[NNTrainerError]) -> None:
    """Event files can be written into a folder of that name."""
    from nntrainer_py.cli.run_folder import require_place

    try:
        require_place(Path(text))
    except UsageError as error:
        errors.append(UsageError(error.message, key="--tensorboard"))


def bytes_written(model: Model) -> int:
    """What a run may leave on the disk: weights and best weights, and two checkpoints while one replaces the other."""
    lowered = model.lowered()
    weights = sum(weight.dim.size * 4 for weight in lowered.weights)
    state = sum(value.nbytes for value in lowered.optimizer_state)
    return 2 * (weights + state) + 2 * (2 * weights + state) + (1 << 20)
