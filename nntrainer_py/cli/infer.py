"""``nntrainer-infer``: predictions of a trained model as CSV or JSON, and its figures where the data has labels."""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from nntrainer_py.cli.command import (
    Parser,
    SeveralErrors,
    add_model_arguments,
    add_output_arguments,
    notify,
    run,
    say,
)
from nntrainer_py.cli.opening import open_model
from nntrainer_py.cli.quantities import figures, table
from nntrainer_py.errors import DataError, NNTrainerError, Origin, UsageError, counted, printable

if TYPE_CHECKING:
    from nntrainer_py.data.dataset import Dataset
    from nntrainer_py.data.loader import BatchLoader
    from nntrainer_py.memory.outcome import DataMemory
    from nntrainer_py.model import Model

_SIGNIFICANT = 7  # digits of a float32
_UNFIT = ("wrong stride", "a sample has", "was no input", "were not among the inputs")


def parser(prog: str = "nntrainer-infer") -> Parser:
    """The options of the command."""
    made = Parser(
        prog,
        "Predict with a trained model. Writes one line a sample: its number, the class (with its name where the "
        "training data had names) and the probabilities, or the outputs. Inputs are scaled as in training. With labels "
        "in the data, loss and accuracy (or MAE and R2) are shown as well.",
        f"{prog} model.ini --weights runs/model-1/model.safetensors --data new.csv --output predictions.csv",
    )
    add_model_arguments(made)
    made.add_argument("--weights", required=True, metavar="FILE", help=".bin or .safetensors, or the folder of a run")
    made.add_argument("--data", required=True, metavar="FILE", help="raw .dat, csv, npz, npy, idx or image folder")
    made.add_argument("--no-labels", action="store_true", help="the data has inputs only")
    made.add_argument("--output", metavar="FILE", help="write predictions here instead of to the output stream")
    made.add_argument("--evaluate", action="store_true", help="only the figures, no predictions; needs labels")
    add_output_arguments(made)
    return made


def main(argv: Sequence[str] | None = None, prog: str = "nntrainer-infer") -> int:
    """Run the command; returns its exit code."""
    return run(parser(prog), infer, argv)


def infer(arguments: argparse.Namespace) -> int:
    """The command itself."""
    if arguments.evaluate and arguments.no_labels:
        raise UsageError("--evaluate needs labels, --no-labels says that there are none")
    model, dataset, labelled = _opened(arguments)
    try:
        from nntrainer_py.training.feeding import data_memory

        loader = _loader(dataset, model)
        model.hold_data(data_memory([loader]))
        notices = [*dataset.notices, *dataset.remarks, *loader.notices]
        if not arguments.quiet:
            notify(notices)
        if not arguments.evaluate:
            _predict(arguments, model, loader)
        if labelled:
            loader.seek(0)
            _evaluate(arguments, model, loader)
    finally:
        dataset.close()
    return 0


def _opened(arguments: argparse.Namespace) -> tuple[Model, Dataset, bool]:
    """Model, data, and whether that has labels; what is wrong with weights and data is told together."""
    model = open_model(arguments)
    found: tuple[Dataset, bool] | None = None
    if model.compile_options.memory_budget is not None:
        memory, found = _measured(arguments, model)
        model.compile(training=False, data=memory)
    errors: list[NNTrainerError] = []
    try:
        model.require_swap_file("predict")
    except NNTrainerError as error:
        errors.append(error)
    else:
        try:
            _load(model, Path(arguments.weights))
        except NNTrainerError as error:
            errors.append(error.located(Origin("--weights")))
            model.class_names = model.feature_names = model.normalization = None  # of a file that is not the one
    known = not errors
    try:
        if known:
            found = None if found is None else _bound_anew(found, model)
        dataset, labelled = found or _data(arguments, model, known=known)
    except NNTrainerError as error:
        errors.append(error)
    SeveralErrors.raise_if_any(errors)
    return model, dataset, labelled


def _loader(dataset: Dataset, model: Model) -> BatchLoader:
    from nntrainer_py.data.loader import BatchLoader, largest_batch

    return BatchLoader(dataset, largest_batch(dataset, model.batch_size), buffer_size=1)


def _measured(arguments: argparse.Namespace, model: Model) -> tuple[DataMemory | None, tuple[Dataset, bool] | None]:
    """What reading the data will take, before there are weights; None: it cannot be read, which is told later.

    And the data, where it is a table in memory that need not be read again for what the weights say of it.
    """
    from nntrainer_py.training.feeding import data_memory

    try:
        dataset, labelled = _data(arguments, model, known=False)
    except NNTrainerError:
        return None, None
    if not dataset.bound:
        dataset.close()
        return None, None
    kept = dataset.kind == "csv"
    try:
        return data_memory([_loader(dataset, model)]), (dataset, labelled) if kept else None
    except NNTrainerError:
        return None, None
    finally:
        if not kept:
            dataset.close()


def _bound_anew(found: tuple[Dataset, bool], model: Model) -> tuple[Dataset, bool] | None:
    """The same with the scaling and the names of the weights; None where it does not fit these, and is let go."""
    dataset, labelled = found
    dataset.normalization = model.normalization
    try:
        model.bind(dataset, labels=labelled, class_names=model.class_names or ())
    except DataError:
        dataset.close()
        return None
    return found


def _load(model: Model, path: Path) -> None:
    """Weights; scaling and class names from the run's other file where a ``.bin`` cannot hold them."""
    from nntrainer_py.cli import run_folder as files
    from nntrainer_py.formats.safetensors import SafetensorsFile
    from nntrainer_py.training.data_description import DataDescription

    if path.is_dir():
        path /= files.MODEL
    beside = path.with_name(files.MODEL)
    if path.suffix != ".safetensors" and beside.is_file():
        with SafetensorsFile(beside) as file:
            DataDescription.read(file).put_into(model)
    model.load(path)
    section = model.spec.datasets.get("train")
    wanted = section is not None and section.settings.normalization != "none"
    if wanted and model.normalization is None:
        raise UsageError(
            f"{printable(str(path))}: the inputs were normalized in training, and the file does not say how; "
            f"give the {files.MODEL} of the run"
        )


def _data(arguments: argparse.Namespace, model: Model, *, known: bool) -> tuple[Dataset, bool]:
    """The data, and whether it has labels: tried with labels first where nothing was said and the model takes some.

    ``known`` says whether the weights have told what the training data was. Without that, nothing is refused that
    they might explain.
    """
    takes_labels = model.spec.has_loss and not arguments.no_labels
    if takes_labels and not arguments.evaluate and _has_no_room_for_labels(arguments.data, model):
        return _bound(arguments, model, labels=False, known=known), False
    try:
        return _bound(arguments, model, labels=takes_labels, known=known), takes_labels
    except DataError as error:
        if arguments.no_labels and model.spec.has_loss and any(word in error.message for word in _UNFIT):
            message = f"{error.message}; if it has labels, leave out --no-labels"
            raise DataError(message, origin=error.origin, key=error.key) from None
        if not takes_labels or arguments.evaluate:
            raise
        with_labels = DataError(error.message, origin=error.origin, key=error.key)
    # the error itself is gone, and with it all that was read when it was raised
    try:
        dataset = _bound(arguments, model, labels=False, known=known)
    except DataError:
        raise with_labels from None
    if dataset.kind == "file":
        # a raw file of any size can be read as inputs of one size or another
        dataset.close()
        message = f"{with_labels.message}; if it has no labels, say so with --no-labels"
        raise DataError(message, origin=with_labels.origin, key=with_labels.key) from None
    return dataset, False


def _has_no_room_for_labels(data: str, model: Model) -> bool:
    """Whether a CSV file has as many columns as the model has inputs, so that it need not be read to see that."""
    from nntrainer_py.data.csv_table import Table
    from nntrainer_py.data.sources import kind_of_path

    if kind_of_path(data) != "csv":
        return False
    features = sum(value.dim.features for value in model.lowered("predict").inputs)
    try:
        return Table(Path(data), "auto", None, None).count_columns() == features
    except DataError:  # told by who reads it
        return False


def _bound(arguments: argparse.Namespace, model: Model, *, labels: bool, known: bool) -> Dataset:
    from nntrainer_py.data.csv_file import CsvDataset
    from nntrainer_py.data.sources import kind_of_path, open_dataset

    origin = Origin("--data")
    dataset: Dataset
    if kind_of_path(arguments.data) == "csv":
        dataset = CsvDataset(arguments.data, labels=None if labels else [], features=model.feature_names, origin=origin)
    else:
        dataset = open_dataset(arguments.data, role="test", origin=origin)
    dataset.normalization = model.normalization
    if known:
        model.bind(dataset, labels=labels, class_names=model.class_names or ())
    elif not (isinstance(dataset, CsvDataset) and dataset.label_by_name):
        told = list(dataset.notices)
        model.bind(dataset, labels=labels)
        dataset.notices[:] = told  # without the doubts of training data, as which it was bound
    return dataset


def _predict(arguments: argparse.Namespace, model: Model, loader: BatchLoader) -> None:
    """Write a line for each sample as soon as its batch is done."""
    writer: _Writer | None = None
    with _output(arguments.output) as stream:
        first = 0
        for outputs in _passes(model, loader):
            if writer is None:
                writer = (_JsonWriter if arguments.json else _CsvWriter)(stream, model, outputs)
            for row in range(len(outputs[0])):
                writer.write(first + row, [array[row].reshape(-1) for array in outputs])
            first += len(outputs[0])
    if arguments.output and not arguments.quiet:
        say(f"{counted(first, 'prediction')} written to {printable(arguments.output)}")


def _passes(model: Model, loader: BatchLoader) -> Iterator[list[Any]]:
    compiled = model.compiled
    for batch in loader:
        program = compiled.program("predict", batch.count)
        compiled.feed("predict", program, [array[: batch.count] for array in batch.inputs])
        compiled.engine.forward(program)
        yield program.outputs


def _evaluate(arguments: argparse.Namespace, model: Model, loader: BatchLoader) -> None:
    """Loss, figures and per-class scores: on the output stream if it is free, else beside the predictions."""
    from nntrainer_py.cli.confusion import class_report
    from nntrainer_py.training.evaluation import evaluate_batches

    found = evaluate_batches(model.compiled, loader)
    report = class_report(model, loader)
    free = arguments.evaluate or arguments.output is not None
    if arguments.json:
        record: dict[str, Any] = {"samples": loader.samples_per_epoch, **found}
        if report is not None:
            record["report"] = report.as_record()
        text = json.dumps(record)
    else:
        if arguments.quiet and not arguments.evaluate:
            return
        assert loader.samples_per_epoch is not None, "a file knows how many it holds"
        text = f"{counted(loader.samples_per_epoch, 'sample')}: {figures(found)}"
        if report is not None and arguments.evaluate:
            scores = report.figures
            rows = [
                [name, *(f"{100 * values[k]:.2f} %" for values in (scores.precision, scores.recall, scores.f1)),
                 str(scores.support[k])]
                for k, name in enumerate(report.names)
            ]  # fmt: skip
            text += "\n\n" + table(["class", "precision", "recall", "F1", "samples"], rows, right=(1, 2, 3, 4))
    print(text, file=sys.stdout if free else sys.stderr, flush=True)


class _Writer:
    """Writes predictions; ``outputs`` are those of the first batch, which say what there is."""

    def __init__(self, stream: IO[str], model: Model, outputs: Sequence[Any]) -> None:
        from nntrainer_py.cli.confusion import class_names

        self.stream = stream
        self.classes: tuple[str, ...] = ()
        self.single = False
        sizes = [array[0].size for array in outputs]
        if len(outputs) == 1 and _chooses(model, outputs[0]):
            self.single = sizes[0] == 1
            self.classes = class_names(model, 2 if self.single else sizes[0])
        self.sizes = sizes

    def write(self, sample: int, outputs: Sequence[Any]) -> None:
        """One sample, counted from 0."""
        raise NotImplementedError

    def choice(self, row: Any) -> tuple[int, list[float]]:
        """The class and the probability of each."""
        values = [float(value) for value in row]
        if self.single:
            values = [1 - values[0], values[0]]
            return int(values[1] > 0.5), values
        return int(row.argmax()), values


class _CsvWriter(_Writer):
    """``sample,class,name,p_0,...`` or ``sample,y_0,...``."""

    def __init__(self, stream: IO[str], model: Model, outputs: Sequence[Any]) -> None:
        super().__init__(stream, model, outputs)
        self._csv = csv.writer(stream, lineterminator="\n")
        if self.classes:
            self._csv.writerow(["sample", "class", "name", *(f"p_{name}" for name in self.classes)])
        elif len(self.sizes) == 1:
            self._csv.writerow(["sample", *(f"y_{k}" for k in range(self.sizes[0]))])
        else:
            names = [f"y{output}_{k}" for output, size in enumerate(self.sizes) for k in range(size)]
            self._csv.writerow(["sample", *names])

    def write(self, sample: int, outputs: Sequence[Any]) -> None:
        if self.classes:
            choice, values = self.choice(outputs[0])
            self._csv.writerow([sample, choice, self.classes[choice], *map(_text, values)])
        else:
            self._csv.writerow([sample, *(_text(float(value)) for row in outputs for value in row)])


class _JsonWriter(_Writer):
    """One object a line; values that are not finite are null."""

    def write(self, sample: int, outputs: Sequence[Any]) -> None:
        record: dict[str, Any] = {"sample": sample}
        if self.classes:
            choice, values = self.choice(outputs[0])
            record |= {"class": choice, "name": self.classes[choice], "probabilities": list(map(_number, values))}
        else:
            rows = [[_number(float(value)) for value in row] for row in outputs]
            record["outputs"] = rows[0] if len(rows) == 1 else rows
        self.stream.write(json.dumps(record, ensure_ascii=False) + "\n")


def _chooses(model: Model, output: Any) -> bool:
    """Whether an output gives the probabilities of classes: of a loss that chooses, or behind a softmax or sigmoid."""
    from nntrainer_py.cli.confusion import class_count

    if model.spec.has_loss:
        return class_count(model, len(output)) is not None
    last = model.compiled.graph("predict").nodes[-1].layer
    function = getattr(last, "activation", None)
    return function == "softmax" or (function == "sigmoid" and output[0].size == 1)


def _text(value: float) -> str:
    return f"{value:.{_SIGNIFICANT}g}"


def _number(value: float) -> float | None:
    return float(_text(value)) if math.isfinite(value) else None


@contextmanager
def _output(path: str | None) -> Iterator[IO[str]]:
    """The output stream, or a file that takes its name only when it is whole."""
    if path is None:
        yield sys.stdout
        return
    import os
    import tempfile

    target = Path(path)
    if target.is_dir():
        raise UsageError(f"--output: {printable(path)} is a folder, a file was expected")
    try:
        handle, made = tempfile.mkstemp(prefix=".nntrainer-partial-", dir=target.parent)
    except OSError as error:
        raise UsageError(f"--output: {printable(path)} cannot be written: {error.strerror or error}") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as stream:
            yield stream
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(made, 0o666 & ~mask)
        os.replace(made, target)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
