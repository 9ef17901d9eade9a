"""``nntrainer warm``: compile kernels ahead of the first run, for images and installs that cannot be written to."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nntrainer_py.cli.command import (
    Parser,
    add_model_arguments,
    add_output_arguments,
    run,
    say,
    tell_of_compiling,
)
from nntrainer_py.cli.quantities import amount
from nntrainer_py.errors import UsageError, counted, printable

if TYPE_CHECKING:
    from nntrainer_py.model import Model
    from nntrainer_py.tensor.kernels.precompile import Job

_IMAGES = """
[Model]
type = NeuralNetwork
loss = cross
batch_size = 32
[Optimizer]
type = {optimizer}
[in]
type = input
input_shape = {channels}:28:28
[conv1]
type = conv2d
filters = 32
kernel_size = 3,3
padding = same
[norm1]
type = batch_normalization
activation = relu
[conv2]
type = conv2d
filters = 32
kernel_size = 3,3
padding = same
activation = relu
[pool1]
type = pooling2d
pooling = max
pool_size = 2,2
[conv3]
type = conv2d
filters = 12
kernel_size = 5,5
activation = sigmoid
[pool2]
type = pooling2d
pooling = average
pool_size = 2,2
[flat]
type = flatten
[hidden]
type = fully_connected
unit = 256
activation = relu
[drop]
type = dropout
dropout_rate = 0.5
[out]
type = fully_connected
unit = 10
activation = softmax
"""

_SEQUENCES = """
[Model]
type = NeuralNetwork
loss = mse
batch_size = 32
[Optimizer]
type = {optimizer}
[in]
type = input
input_shape = 1:32:64
[norm]
type = layer_normalization
axis = 3
[recurrent]
type = lstm
unit = 64
return_sequences = false
[hidden]
type = fully_connected
unit = 64
activation = tanh
[out]
type = fully_connected
unit = 1
"""

#: what is compiled when no model is named: the layers that most models are made of
COMMON: dict[str, str] = {
    f"{name} with {optimizer}": text.format(optimizer=optimizer, channels=channels)
    for optimizer in ("sgd", "adam")
    for name, text, channels in (("images", _IMAGES, 3), ("grey images", _IMAGES, 1), ("sequences", _SEQUENCES, 0))
}


def parser(prog: str = "nntrainer warm") -> Parser:
    """The options of the command."""
    made = Parser(
        prog,
        "Compile the kernels that a model needs (or, without one, those that most models need), so that the first run "
        "on this kind of processor starts at once. Nothing is trained.",
        f"{prog} examples/digits/model.ini --to /opt/nntrainer-kernels",
    )
    add_model_arguments(made)
    for action in made._actions:
        if action.dest == "model":
            action.nargs = "?"
            action.required = False
    made.add_argument(
        "--to", metavar="DIR", help="keep them in this folder; runs find them with NNTRAINER_CACHE_DIR=DIR"
    )
    old = made.add_argument_group("kernels of other versions (nothing is compiled then)")
    old.add_argument(
        "--prune", action="store_true",
        help="remove the folders of kernels that other versions of the package, Python, Numba or the processor left; "
        "those that a running process may use stay",
    )  # fmt: skip
    old.add_argument("--dry-run", action="store_true", help="with --prune: only list them")
    add_output_arguments(made)
    return made


def main(argv: Sequence[str] | None = None, prog: str = "nntrainer warm") -> int:
    """Run the command; returns its exit code."""
    return run(parser(prog), warm, argv)


def warm(arguments: argparse.Namespace) -> int:
    """The command itself."""
    if arguments.prune:
        return _prune(arguments)
    if arguments.dry_run:
        raise UsageError("--dry-run needs --prune")
    tell_of_compiling(arguments.quiet or arguments.json)
    from nntrainer_py.tensor.kernels.cache_location import cache_folders, use_only
    from nntrainer_py.tensor.kernels.precompile import missing, precompile

    folder = _folder(arguments.to)
    if folder is not None:
        use_only(folder)
    target = cache_folders()[1]
    if target is None:
        raise UsageError("no folder for compiled kernels can be written; name one with --to")
    jobs: dict[str, Job] = {}
    for model in _models(arguments):
        for job in missing(_calls(model)):
            jobs[f"{job[0].module}.{job[0].name}{job[1]}"] = job
    precompile(list(jobs.values()), folder)
    left = [job for job in jobs.values() if not job[0].is_ready(job[1])]
    if left:
        raise UsageError(f"{counted(len(left), 'kernel')} could not be compiled, the first is {left[0][0].name}")
    if arguments.json:
        print(json.dumps({"compiled": len(jobs), "folder": str(target)}))
    elif not arguments.quiet:
        say(
            f"{counted(len(jobs), 'kernel')} compiled into {target}"
            if jobs
            else f"nothing to compile; kernels are in {target}"
        )
    return 0


def _prune(arguments: argparse.Namespace) -> int:
    """Remove, or list, the folders of other versions: of ``--to``, or of every place where runs look for kernels."""
    from nntrainer_py.cli.prune import old_folders, remove
    from nntrainer_py.tensor.kernels.cache_location import cache_bases, fingerprint

    if arguments.model is not None:
        raise UsageError("--prune compiles nothing: give no model with it")
    bases = cache_bases() if arguments.to is None else [Path(arguments.to).absolute()]
    removed, kept = [], []
    for folder in old_folders(bases, f"kernels-{fingerprint()}"):
        reason = folder.reason or ("" if arguments.dry_run else remove(folder))
        if reason:
            kept.append((folder, reason))
        else:
            removed.append(folder)
    freed = sum(folder.size for folder in removed)
    if arguments.json:
        record = {
            "removed": [{"folder": str(folder.path), "bytes": folder.size} for folder in removed],
            "kept": [{"folder": str(f.path), "bytes": f.size, "reason": reason} for f, reason in kept],
            "bytes": freed, "dry_run": arguments.dry_run,
        }  # fmt: skip
        print(json.dumps(record))
    elif not arguments.quiet:
        word = "would remove" if arguments.dry_run else "removed"
        for folder in removed:
            print(f"{word} {printable(str(folder.path))} ({amount(folder.size)})")
        for folder, reason in kept:
            print(f"kept {printable(str(folder.path))} ({amount(folder.size)}): {printable(reason)}")
        print(f"{word} {counted(len(removed), 'folder')}, {amount(freed)}; kept {len(kept)}")
    return 0


def _folder(given: str | None) -> Path | None:
    if given is None:
        return None
    folder = Path(given).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--to: cannot make the folder '{given}': {error.strerror}") from None
    return folder


def _models(arguments: argparse.Namespace) -> Iterator[Model]:
    threads = arguments.threads
    if arguments.model is not None:
        from nntrainer_py.cli.opening import open_model

        yield open_model(arguments).compile(arguments.batch_size, threads=threads)
        return
    from nntrainer_py.graph.description import load_text
    from nntrainer_py.model import Model

    for name, text in COMMON.items():
        for count in (threads,) if threads else (None, 1):
            yield Model(load_text(text, folder=Path(), name=name)).compile(arguments.batch_size, threads=count)


def _calls(model: Model) -> list[Any]:
    """The calls of every mode that the model has, bound to memory that is never touched."""
    from nntrainer_py.training.engine import Engine, persistent

    compiled, batch = model.compiled, model.batch_size
    modes = ("train", "evaluate", "predict") if model.trainable else ("predict",)
    found: list[Any] = []
    for mode in modes:
        lowered = compiled.lowered(mode, batch)  # type: ignore[arg-type]
        made = compiled.plan(mode, batch)  # type: ignore[arg-type]
        engine = Engine(compiled.options.threads)
        engine.store.ensure(persistent(lowered))
        found += engine.program(lowered, made).calls
    return found


if __name__ == "__main__":
    import sys

    sys.exit(main())
