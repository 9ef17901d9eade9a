"""``nntrainer-train``: train the model of an INI file and leave a run folder."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nntrainer_py.cli.command import (
    Parser,
    SeveralErrors,
    add_model_arguments,
    add_output_arguments,
    notify,
    number,
    run,
    tell_of_compiling,
    tell_of_signal,
)
from nntrainer_py.cli.opening import USES, open_data, open_model, require_trainable, require_training_data
from nntrainer_py.cli.places import bytes_written, require_folder, require_kept, require_weight_names, require_writable
from nntrainer_py.cli.weights import GivenWeights
from nntrainer_py.errors import InterruptedRun, NNTrainerError, UsageError, printable

if TYPE_CHECKING:
    from nntrainer_py.cli.ending import Ending
    from nntrainer_py.cli.layout import Layout
    from nntrainer_py.cli.run_folder import RunFolder
    from nntrainer_py.data.dataset import Dataset
    from nntrainer_py.model import Model
    from nntrainer_py.training.feeding import Loaders
    from nntrainer_py.training.settings import TrainSettings


def parser(prog: str = "nntrainer-train") -> Parser:
    """The options of the command."""
    made = Parser(
        prog,
        "Train the model of an INI file. Leaves a run folder (runs/<name>-<number> beside the file) with weights, "
        "history.csv, result.json, curves.png and a checkpoint.",
        f"{prog} examples/digits/model.ini --epochs 5 --out my-run",
    )
    add_model_arguments(made)
    made.add_argument("--check", action="store_true", help="do everything but train; needs no data")
    data = made.add_argument_group("data (instead of the sections of the file)")
    for use, what in (("train", "to train on"), ("valid", "to validate on after each epoch"), ("test", "for the end")):
        data.add_argument(f"--{use}", metavar="FILE", help=f"data {what}: raw .dat, csv, npz, npy, idx, image folder")
    made.add_argument(
        "--weights", metavar="FILE",
        help="start from these weights: .bin or .safetensors, or the folder of a run; all counters start anew",
    )  # fmt: skip
    length = made.add_argument_group("length of the run")
    length.add_argument("--epochs", type=number(1, 2**31 - 1), metavar="N", help="epochs in total")
    length.add_argument(
        "--patience", type=number(1, 2**31 - 1), metavar="N", help="stop after N epochs without a better one"
    )
    length.add_argument("--monitor", metavar="FIGURE", help="which figure says what is better, such as valid_loss")
    length.add_argument("--restore-best", action="store_true", help="end with the weights of the best epoch")
    folder = made.add_argument_group("run folder")
    folder.add_argument("--out", metavar="DIR", help="use this folder; it must not exist yet")
    folder.add_argument(
        "--overwrite", action="store_true", help="replace the run in the folder of --out, if there is one"
    )
    folder.add_argument("--resume", action="store_true", help="go on with the run in --out, or with the last one")
    folder.add_argument(
        "--checkpoint-steps", type=number(1, 2**31 - 1), metavar="N", help="a checkpoint every N updates too"
    )
    folder.add_argument(
        "--checkpoint-seconds", type=number(1, 2**31 - 1), metavar="N", help="a checkpoint every N seconds too"
    )
    folder.add_argument(
        "--tensorboard", nargs="?", const="", type=_event_folder, metavar="DIR",
        help="write event files for TensorBoard too, into DIR or the folder 'tensorboard' of the run",
    )  # fmt: skip
    add_output_arguments(made)
    return made


def main(argv: Sequence[str] | None = None, prog: str = "nntrainer-train") -> int:
    """Run the command; returns its exit code."""
    return run(parser(prog), train, argv)


def train(arguments: argparse.Namespace) -> int:
    """The command itself."""
    if arguments.resume and arguments.overwrite:
        raise UsageError("--resume and --overwrite exclude each other")
    if arguments.overwrite and arguments.out is None:
        raise UsageError(
            "--overwrite needs --out DIR, the run to be replaced; without --out every run gets a folder of its own"
        )
    if arguments.resume and arguments.weights is not None:
        raise UsageError("--resume and --weights exclude each other: a resumed run goes on with its own weights")
    if arguments.check:
        return _check(arguments)
    prepared = Preparation(arguments)
    folder = prepared.open_folder()
    try:
        ending, failure = _run(arguments, prepared)
        del prepared  # model and data, whose memory is free before there are pictures
        if ending is not None:
            with _told_after(failure):
                ending.show(as_json=arguments.json, quiet=arguments.quiet)
    finally:
        folder.close()
    if failure is not None:
        raise failure
    return 0


def _run(arguments: argparse.Namespace, prepared: Preparation) -> tuple[Ending | None, NNTrainerError | None]:
    """Train and keep what is to be kept. What is left to be shown, and what ended the run; neither holds the model."""
    from nntrainer_py.cli.results import Recorder
    from nntrainer_py.training import loop

    loaders, failure = prepared.loaders, None
    tell_of_compiling(arguments.quiet)
    try:
        recorder = Recorder(prepared.model, prepared.folder, arguments, loaders, prepared.layout)
        try:
            result = loop.train(
                prepared.model, loaders.train, loaders.valid, loaders.test,
                settings=prepared.settings, callbacks=recorder.callbacks,
                on_signal=None if arguments.quiet else tell_of_signal,
            )  # fmt: skip
        except NNTrainerError as error:
            failure = error if arguments.debug else _without_frames(error)
        with _told_after(failure):
            if failure is not None or recorder.began:
                ending = recorder.finish(failure)
            else:
                ending = recorder.nothing_to_do(result)
    finally:
        loaders.close()
    if isinstance(failure, InterruptedRun) and recorder.began:
        failure = _how_to_go_on(failure, arguments, prepared.folder)
    return ending, failure


@contextmanager
def _told_after(failure: NNTrainerError | None) -> Iterator[None]:
    """An error here, a full disk most likely, is told after that which ended the run: the cause comes first."""
    try:
        yield
    except NNTrainerError as another:
        if failure is None:
            raise
        raise SeveralErrors([failure, another]) from None


def _without_frames(error: NNTrainerError) -> NNTrainerError:
    """An error lets go of what the functions held in which it came about."""
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


class Preparation:
    """Everything that a run needs, looked at before anything is written or computed.

    Attributes: ``model``, ``folder`` (not opened), ``loaders``, ``settings`` and ``layout`` of the run.
    Raises one error that tells everything that is wrong.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        from nntrainer_py.cli.run_folder import RunFolder

        errors: list[NNTrainerError] = []
        folder: RunFolder | None = None
        try:
            folder = RunFolder.plan(
                Path(arguments.model), arguments.out, overwrite=arguments.overwrite, resume=arguments.resume
            )
        except UsageError as error:
            errors.append(error)
        try:
            self.model = open_model(arguments, uses=USES)
        except NNTrainerError as error:
            raise SeveralErrors([error, *errors]) if errors else error  # noqa: B904  # the same error, not a new one
        given = {use: getattr(arguments, use) for use in USES}
        require_trainable(self.model, errors)
        require_training_data(self.model, given, errors)
        data = open_data(self.model.spec, given, errors)
        require_writable(self.model, given, arguments.weights, errors)
        if folder is not None:
            require_kept(self.model, folder, given, errors)
        if arguments.tensorboard:
            require_folder(arguments.tensorboard, errors)
        settings = _settings(arguments, self.model, folder, errors)
        start = _start(arguments, self.model, folder, errors)
        SeveralErrors.raise_if_any(errors)
        assert folder is not None
        assert settings is not None
        self.folder, self.settings = folder, settings
        self.loaders = _bind(self.model, data)
        if not arguments.quiet:
            notify(self.loaders.notices)
        name, keeps_best = Path(arguments.model).name, settings.keeps_best
        self.layout = planned(self.model, name, self.loaders.buffer_bytes, keeps_best)
        if not arguments.quiet:
            notify(self.layout.notes)
        if arguments.resume and not arguments.quiet:
            from nntrainer_py.cli.resuming import schedule_notices
            from nntrainer_py.cli.run_folder import CHECKPOINT

            notify(schedule_notices(self.model, folder / CHECKPOINT, self.loaders.train))
        self.folder.require_space(bytes_written(self.model))
        if start is not None:
            start.load()
        for path in (settings.save_path, settings.save_best_path):
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)

    def open_folder(self) -> RunFolder:
        """Make and lock the folder; another run may have taken the number that was free before."""
        from nntrainer_py.cli.run_folder import CHECKPOINT

        folder = self.folder.open()
        self.settings = replace(self.settings, checkpoint=folder / CHECKPOINT)
        return folder


def _check(arguments: argparse.Namespace) -> int:
    from nntrainer_py.cli.buffers import count_buffers
    from nntrainer_py.cli.check import check

    model = open_model(arguments)
    given = {use: getattr(arguments, use) for use in USES if getattr(arguments, use) is not None}
    faults: list[NNTrainerError] = []
    start = _start(arguments, model, None, faults)
    require_weight_names(model, faults)
    SeveralErrors.raise_if_any(faults)
    buffers = count_buffers(model, given, strict=True)
    name = Path(arguments.model).name
    keeps_best = arguments.restore_best or arguments.patience is not None
    layout = buffers.noted(planned(model, name, buffers.size, keeps_best))
    if start is not None:
        start.load()
    return check(layout, name, as_json=arguments.json, quiet=arguments.quiet)


def _start(
    arguments: argparse.Namespace, model: Model, folder: RunFolder | None, errors: list[NNTrainerError]
) -> GivenWeights | None:
    """The file of ``--weights``, whose description of the data the model takes; it keeps what it holds."""
    if arguments.weights is None:
        return None
    try:
        start = GivenWeights(model, arguments.weights)
    except NNTrainerError as error:
        errors.append(error)
        return None
    if model.spec.model.continue_train:
        errors.append(
            UsageError(
                "excludes --weights: both say with which weights the run begins",
                origin=model.spec.at("continue_train"), key="continue_train",
            )
        )  # fmt: skip
    if folder is not None and folder.written_over(start.path):
        errors.append(
            UsageError("the run in --out would overwrite these weights; choose another --out", key="--weights")
        )
    return start


def planned(model: Model, name: str, data: int | None, keeps_best: bool) -> Layout:
    """The layout, with every plan that the run needs first; PlanError at the place of the budget.

    UsageError at that of the swap file, where the plans need one that cannot be made.
    """
    from nntrainer_py.cli.layout import layout_of

    model.require_swap_file()
    return layout_of(model, name, data, keeps_best=keeps_best)


def _bind(model: Model, data: dict[str, Dataset]) -> Loaders:
    """Loaders of the data; each that does not fit the model is told."""
    from nntrainer_py.data.loader import largest_batch
    from nntrainer_py.training.feeding import names_of_run, open_loaders

    errors: list[NNTrainerError] = []
    first = data.get("train")
    names: tuple[str, ...] | None = None  # of the classes, not known before the training data is
    for dataset in data.values():
        try:
            model.bind(dataset, class_names=names)
            if dataset is first:
                names = names_of_run(model.class_names, dataset)
                model.bind(dataset, class_names=names)
                model.feature_names = dataset.feature_names or model.feature_names
        except NNTrainerError as error:
            errors.append(error)
    SeveralErrors.raise_if_any(errors)
    sections = model.spec.datasets
    drops = {use: use in sections and sections[use].settings.drop_last for use in data}
    limited = model.limit_batch(max(largest_batch(data[use], model.batch_size, drops[use]) for use in data))
    loaders = open_loaders(model, data.get("train"), data.get("valid"), data.get("test"))
    loaders.notices += filter(None, [limited])
    return loaders


def _settings(
    arguments: argparse.Namespace, model: Model, folder: RunFolder | None, errors: list[NNTrainerError]
) -> TrainSettings | None:
    from nntrainer_py.cli.run_folder import CHECKPOINT

    if folder is None:
        return None
    changes: dict[str, Any] = {
        "patience": arguments.patience,
        "monitor": arguments.monitor,
        "restore_best": True if arguments.restore_best else None,
        "checkpoint": folder / CHECKPOINT,
        "checkpoint_steps": arguments.checkpoint_steps,
        "checkpoint_seconds": arguments.checkpoint_seconds,
        "resume": arguments.resume,
    }
    from nntrainer_py.training.best import Best

    try:
        Best(arguments.monitor, patience=arguments.patience)  # says what is wrong with them
        return model.settings(changes=changes)
    except UsageError as error:
        if error.key not in ("save_path", "save_best_path"):  # these are told with their place
            errors.append(error)
        return None


def _event_folder(text: str) -> str:
    """The value of ``--tensorboard``, which must not swallow the model file that follows it."""
    if Path(text).is_file():
        raise argparse.ArgumentTypeError(
            f"'{printable(text)}' is a file, not a folder; for the folder of the run, write --tensorboard last"
        )
    return text


def _how_to_go_on(interruption: InterruptedRun, arguments: argparse.Namespace, folder: RunFolder) -> InterruptedRun:
    """The same with the command that resumes the run: this one's words, its folder, and --resume."""
    import shlex

    from nntrainer_py.cli.run_folder import CHECKPOINT

    if not (folder / CHECKPOINT).is_file():
        return interruption
    words = [f"--out={folder.path}", "--resume"]
    kept = iter(arguments.words)
    for word in kept:
        if word in ("--out", "--weights"):
            next(kept, None)
        elif word not in ("--overwrite", "--resume") and not word.startswith(("--out=", "--weights=")):
            words.append(word)
    message = interruption.message.partition(";")[0]
    command = f"{arguments.prog} {shlex.join(words)}"
    return InterruptedRun(f"{message}; saved, go on with:\n  {command}", signal=interruption.signal)
