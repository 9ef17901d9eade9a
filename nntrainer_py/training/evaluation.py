"""Loss and metrics of a data set with inference behaviour, over its samples whatever the batch size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np

from nntrainer_py.data.loader import Batch, BatchLoader
from nntrainer_py.errors import DataError, NumericalError
from nntrainer_py.graph import figures
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.training.compiled import Compiled
from nntrainer_py.training.diagnosis import data_fault, find_origin
from nntrainer_py.training.engine import Program
from nntrainer_py.training.metrics import ClassReport
from nntrainer_py.training.micro_batches import piece_sizes, pieces
from nntrainer_py.training.tally import Tally

OnBatch = Callable[[int], None]
P = ParamSpec("P")
R = TypeVar("R")


def sizes_of(loader: BatchLoader) -> list[int]:
    """The batch sizes that an epoch of the loader has, the largest first; only the full one where nobody knows."""
    samples, size = loader.samples_per_epoch, loader.batch_size
    if samples is None:
        return [size]
    found = [size] if samples >= size else []
    return found + ([samples % size] if samples % size else [])


def prepare(compiled: Compiled, sizes: list[int]) -> None:
    """Plan and bind what an evaluation with these batch sizes needs."""
    for size in sorted(set(piece_sizes(sizes, compiled.options.micro_batch)), reverse=True):
        compiled.program("evaluate", size)


def _alone(evaluation: Callable[Concatenate[Compiled, P], R]) -> Callable[Concatenate[Compiled, P], R]:
    """Another thread that uses the same model waits until the pass is over."""

    @wraps(evaluation)
    def alone(compiled: Compiled, /, *given: P.args, **named: P.kwargs) -> R:
        with compiled.lock:
            return evaluation(compiled, *given, **named)

    return alone


@_alone
def evaluate_batches(compiled: Compiled, loader: BatchLoader, on_batch: OnBatch | None = None) -> dict[str, float]:
    """One pass over a loader: ``loss`` and the model's metrics (``accuracy``, or ``mae`` and ``r2``).

    Raises:
        NumericalError: the loss of a batch is not finite; names its samples.
    """
    tally: Tally | None = None
    for program, batch in _passes(compiled, loader, on_batch):
        if tally is None:
            tally = Tally(program.lowered)
        loss = tally.add(program, batch.count, batch.count)
        if not np.isfinite(loss):
            raise NumericalError(f"the loss of the validation data is {loss}: {_where(compiled, loader, batch)}")
    if tally is None:
        raise loader.dataset.error("there is no sample to evaluate")
    return {"loss": tally.loss, **tally.metrics}


@_alone
def evaluate_classes(
    compiled: Compiled,
    loader: BatchLoader,
    *,
    names: Sequence[str] | None = None,
    top: Sequence[int] = (1, 5),
    on_batch: OnBatch | None = None,
) -> tuple[dict[str, float], ClassReport]:
    """One pass that also counts the confusions between the classes of the first output; keeps no prediction.

    A single number is the probability of the second of two classes.

    Raises:
        UsageError: the first output is no row of at least two scores, and no such number.
    """
    tally: Tally | None = None
    report: ClassReport | None = None
    for program, batch in _passes(compiled, loader, on_batch):
        if tally is None or report is None:
            tally = Tally(program.lowered)
            classes = program.outputs[0][0].size
            if classes == 1 and figures.CORRECT in program.metrics:
                classes = 2
            report = ClassReport(classes, top, names)
        tally.add(program, batch.count, batch.count)
        report.add(program.outputs[0], batch.labels[0][: batch.count])
    if tally is None or report is None:
        raise loader.dataset.error("there is no sample to evaluate")
    return {"loss": tally.loss, **tally.metrics}, report


def _passes(
    compiled: Compiled, loader: BatchLoader, on_batch: OnBatch | None = None
) -> Iterator[tuple[Program, Batch]]:
    """Every piece of an epoch after its forward pass; ``on_batch`` is called when a batch is whole and used."""
    state = compiled.state
    for number, batch in enumerate(loader, 1):
        for piece in pieces(batch, compiled.options.micro_batch):
            program = compiled.program("evaluate", piece.count)
            compiled.feed("evaluate", program, piece.inputs, piece.labels)
            state.numbers[StepState.SAMPLES] = piece.count
            state.counters[StepState.OFFSET] = 0
            try:
                compiled.engine.forward(program)
            except DataError as error:
                raise data_fault(compiled, error, piece, loader.dataset.where) from None
            yield program, piece
        if on_batch is not None:
            on_batch(number)


def _where(compiled: Compiled, loader: BatchLoader, batch: Batch) -> str:
    return find_origin(compiled, "evaluate", batch, loader.dataset.where)
