"""Batches to updates: one update a batch, or one after several batches whose gradients are averaged."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nntrainer_py.data.loader import Batch
from nntrainer_py.errors import DataError, NumericalError
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.training.compiled import Compiled
from nntrainer_py.training.diagnosis import data_fault
from nntrainer_py.training.engine import Program
from nntrainer_py.training.micro_batches import piece_sizes, pieces
from nntrainer_py.training.tally import Tally


class Stepper:
    """Feeds batches to the engine. A logical batch is what one update sees.

    Args:
        compiled: compiled with ``accumulate_gradients`` when ``accumulation`` is more than 1.
        rate: iteration to learning rate.
        batch_size: samples of a full batch.
        accumulation: batches in a logical batch. The mean is over the samples of the logical batch, also where the
            last one of an epoch is short; random draws are those of one large batch.
        where: number of a sample to what messages call it.
    """

    def __init__(
        self,
        compiled: Compiled,
        rate: Callable[[int], float],
        batch_size: int,
        accumulation: int = 1,
        where: Callable[[int], str] = "sample {}".format,
    ) -> None:
        if accumulation > 1 and not compiled.options.accumulate_gradients:
            raise ValueError("the model was compiled without gradient accumulation")
        self.compiled = compiled
        self._rate = rate
        self._batch_size = batch_size
        self._accumulation = accumulation
        self._where = where
        self._delayed = compiled.options.accumulate_gradients
        self._left: int | None = None  # samples of the epoch to come, where known
        self._held = 0  # batches of the logical batch so far
        self._seen = 0  # and their samples
        self._program: Program | None = None
        lowered = compiled.lowered("train", batch_size)
        self.tally = Tally(lowered)
        compiled.weights(lowered)  # they exist from here on
        # gradients that wait for a later update
        arrays = compiled.engine.store.arrays
        self._waiting = [arrays[value.name] for value in lowered.gradients.values() if value.persistent]
        self.learning_rate = 0.0

    def prepare(self, sizes: list[int]) -> None:
        """Plan, bind and compile what batches of these sizes need, so that memory does not grow later."""
        for size in sorted(set(piece_sizes(sizes, self.compiled.options.micro_batch)), reverse=True):
            self.compiled.program("train", size)

    @property
    def step_count(self) -> int:
        """Updates done since the beginning of training."""
        return int(self.compiled.state.counters[StepState.STEP])

    @property
    def between_updates(self) -> bool:
        """No gradient is waiting for its update."""
        return self._held == 0

    def begin_epoch(self, samples: int | None) -> None:
        """``samples`` are still to come in this epoch, None where nobody knows."""
        self._left = samples
        self._begin_logical()

    def step(self, batch: Batch) -> float:
        """One batch, and the update when it completes a logical batch; the mean loss of the batch, before the update.

        Raises:
            NumericalError: the loss is not finite; this batch changed neither weights nor running statistics.
        """
        with self.compiled.lock:
            return self._step(batch)

    def _step(self, batch: Batch) -> float:
        state, count = self.compiled.state, batch.count
        if self._held == 0:
            self.learning_rate = self._rate(int(state.counters[StepState.ITERATION]))
            state.numbers[StepState.LEARNING_RATE] = self.learning_rate
            state.numbers[StepState.SAMPLES] = self._logical_samples(count)
        divisor = float(state.numbers[StepState.SAMPLES])
        loss = 0.0
        for piece in pieces(batch, self.compiled.options.micro_batch):
            loss += self._piece(piece, divisor) * (piece.count / count)
        self._held += 1
        if self._left is not None:
            self._left -= count
        if self._held == self._accumulation or self._left == 0:
            self._update(divisor)
        return loss

    def _piece(self, piece: Batch, divisor: float) -> float:
        """Forward and backward of what is computed at once; the mean loss of its samples."""
        compiled, engine = self.compiled, self.compiled.engine
        program = self._program = compiled.program("train", piece.count)
        compiled.feed("train", program, piece.inputs, piece.labels)
        compiled.state.counters[StepState.OFFSET] = self._seen
        try:
            loss = engine.forward(program)
            if not np.isfinite(loss):
                raise NumericalError(f"the loss is {loss}")
        except (DataError, NumericalError) as error:
            self._begin_logical()
            if isinstance(error, DataError):
                raise data_fault(compiled, error, piece, self._where) from None
            raise
        loss = self.tally.add(program, piece.count, divisor)
        engine.backward(program)
        self._seen += piece.count
        return loss

    def finish_epoch(self) -> None:
        """Do the update of a logical batch that the end of the epoch left incomplete."""
        if self._held:
            self._update(float(self.compiled.state.numbers[StepState.SAMPLES]))

    def _logical_samples(self, count: int) -> int:
        if self._accumulation == 1:
            return count
        full = self._accumulation * self._batch_size
        return full if self._left is None else min(full, self._left)

    def _update(self, divisor: float) -> None:
        compiled, program = self.compiled, self._program
        assert program is not None
        if self._delayed:
            if self._seen != divisor:
                # fewer samples came than a data set of unknown length let us expect
                for gradient in self._waiting:
                    np.multiply(gradient, np.float32(divisor / self._seen), out=gradient)
            compiled.engine.update(program)
        compiled.state.counters[StepState.ITERATION] += 1
        compiled.state.counters[StepState.STEP] += 1
        compiled.state.counters[StepState.OFFSET] = 0
        self._begin_logical()

    def _begin_logical(self) -> None:
        for gradient in self._waiting:
            gradient.fill(0.0)
        self._held = self._seen = 0
