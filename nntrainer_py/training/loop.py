"""The training loop: epochs of steps, validation, and everything that must hold when a run ends early."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable

from nntrainer_py.data.loader import Batch, BatchLoader
from nntrainer_py.errors import InterruptedRun, NumericalError, UsageError, counted
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.training import evaluation
from nntrainer_py.training.best import Best
from nntrainer_py.training.callbacks import BatchReport, Callback, CallbackList, RunFacts, TrainingResult
from nntrainer_py.training.copies import copies_of
from nntrainer_py.training.diagnosis import find_origin
from nntrainer_py.training.history import EpochRow
from nntrainer_py.training.interrupt import InterruptGuard
from nntrainer_py.training.saving import Saving
from nntrainer_py.training.settings import TrainSettings
from nntrainer_py.training.stepper import Stepper
from nntrainer_py.training.trainee import Trainee


def train(
    model: Trainee,
    loader: BatchLoader,
    valid: BatchLoader | None = None,
    test: BatchLoader | None = None,
    *,
    settings: TrainSettings,
    callbacks: Iterable[Callback] = (),
    on_signal: Callable[[int], None] | None = None,
) -> TrainingResult:
    """Train ``model`` on the batches of ``loader``; validate on ``valid`` after each epoch.

    ``test`` is evaluated at the end with the weights that the run ends with, also when it was stopped early.

    Loaders stand at any place; the run puts them where it begins. ``on_signal`` hears of the first Ctrl-C or
    termination request at once, see `InterruptGuard`.

    Raises:
        UsageError, DataError, WeightFileError: before the first step, as far as it can be known then.
        NumericalError: the loss, or a weight at the end of an epoch, is not finite. Says where it began.
        InterruptedRun: Ctrl-C or a termination request; what is done is saved.
    """
    return Training(model, loader, valid, test, settings, callbacks, on_signal).run()


class _Stopped(Exception):
    """Leaves the loop at a place where everything is whole."""


class Training:
    """One run. `run` may be called once."""

    def __init__(
        self,
        model: Trainee,
        loader: BatchLoader,
        valid: BatchLoader | None,
        test: BatchLoader | None,
        settings: TrainSettings,
        callbacks: Iterable[Callback],
        on_signal: Callable[[int], None] | None = None,
    ) -> None:
        if not model.trainable:
            raise UsageError("training needs a loss and an optimizer")
        self._started = time.perf_counter()
        self._model = model
        self._loader, self._valid, self._test = loader, valid, test
        self._settings = settings
        self._callbacks = CallbackList(callbacks)
        self._guard = InterruptGuard(on_signal)
        self._compiled = model.compiled
        accumulation = model.spec.model.gradient_accumulation
        self._stepper = Stepper(
            self._compiled, model.learning_rate, loader.batch_size, accumulation, loader.dataset.where
        )
        self._facts = RunFacts(
            model, settings.epochs, loader.batch_size, loader.batches_per_epoch, loader.samples_per_epoch,
            None if valid is None else valid.batches_per_epoch,
        )  # fmt: skip
        self._saving = Saving(model, settings, self._facts, self._guard, self._callbacks)
        self._best = Best(
            settings.monitor, min_delta=settings.min_delta, patience=settings.patience,
            copies=copies_of(model, model.weights()) if settings.keeps_best else None,
        )  # fmt: skip
        self._early = ""  # the sentence about early stopping
        self._test_figures: dict[str, float] | None = None
        self._left = True  # there is something to do
        self._epoch = 0  # complete training passes
        self._batch = 0  # batches of the next one
        self._validated = True  # the last pass has its row
        self._seconds = 0.0  # spent in the epoch before this process

    def run(self) -> TrainingResult:
        """Train until an end."""
        with self._guard, self._saving.folder():
            with self._guard.at_once("interrupted before the first step; nothing was changed"):
                self._prepare()
            self._left = self._is_anything_left()
            if not self._left:
                return self._finish_nothing()
            failure: BaseException | None = None
            try:
                self._callbacks.train_begin(self._facts)
                self._saving.begin(self._facts.step)
                self._epochs()
                self._try_test_data()
            except BaseException as error:
                failure = error
            finally:
                self._loader.close()
            if failure is None and self._guard.signal:
                failure = self._interruption()
            result = self._finish(failure)
            self._callbacks.train_end(self._facts, result)
        if failure is not None:
            raise failure
        return result

    def _prepare(self) -> None:
        """Everything that can be known to go wrong is tried before the first step."""
        self._stepper.prepare(evaluation.sizes_of(self._loader))
        for loader in (self._valid, self._test):
            if loader is not None:
                evaluation.prepare(self._compiled, evaluation.sizes_of(loader))
        self._check_figures()
        self._saving.check(self._loader)
        if self._settings.resume:
            progress = self._saving.resume(self._best, self._stepper.tally)
            self._batch, self._validated, self._seconds = progress.batch, progress.validated, progress.seconds
        else:
            self._begin()
        self._epoch = self._model.epoch
        facts = self._facts
        facts.step = self._stepper.step_count
        facts.start_epoch, facts.start_batch = self._epoch + 1, self._batch
        facts.best_epoch = self._best.epoch
        self._loader.seek(self._epoch, self._batch)

    def _check_figures(self) -> None:
        """What is to be watched must be among the figures of this run."""
        names = ["loss", *self._stepper.tally.names]
        if self._valid is not None:
            names += [f"valid_{name}" for name in names]
        schedule = self._model.spec.scheduler
        watched = None if schedule is None else schedule.watches()  # type: ignore[attr-defined]
        for what, name in (("monitor", self._settings.monitor), ("the schedule's monitor", watched)):
            if name is not None and name not in names:
                why = "" if self._valid is not None else "; there is no validation data"
                raise UsageError(f"{what}: expected one of {', '.join(names)}, got '{name}'{why}")

    def _begin(self) -> None:
        model, settings = self._model, self._settings
        counters = self._compiled.state.counters
        if not settings.continue_train:
            model.reset_training()
        elif model.epoch == 0 and settings.save_path is not None and settings.save_path.is_file():
            model.load(settings.save_path)
        counters[StepState.STEP] = counters[StepState.ITERATION]

    def _is_anything_left(self) -> bool:
        """Whether a run that goes on with an earlier one has an epoch to do."""
        if not (self._settings.resume or self._settings.continue_train) or not self._validated:
            return True
        return self._epoch < self._settings.epochs and not self._best.exhausted

    def _finish_nothing(self) -> TrainingResult:
        """Only the figures of the test data are still to be had; nobody is told of anything."""
        self._callbacks = CallbackList()
        self._try_test_data()
        if self._guard.signal:
            raise InterruptedRun("interrupted; nothing was left to train", signal=self._guard.signal)
        return self._finish(None)

    def _nothing_left(self) -> str:
        """Why there is nothing to do."""
        epochs = self._settings.epochs
        if self._epoch < epochs:
            waited = counted(self._best.waited, "epoch")
            why = f"stopped early after epoch {self._epoch} of {epochs}: {waited} brought nothing better than epoch"
            return f"nothing to do: {why} {self._best.epoch}; ask for more patience to go on"
        done = f"{counted(self._epoch, 'epoch')} {_are(self._epoch)} done"
        return f"nothing to do: {done}, {epochs} asked for; ask for more to go on"

    def _epochs(self) -> None:
        """The loop itself; a stop leaves it where a checkpoint can say what is left to do."""
        try:
            while not self._validated or self._epoch < self._settings.epochs:
                if self._validated:
                    self._check_stop()
                    epoch, began = self._epoch + 1, time.perf_counter() - self._seconds
                    self._callbacks.epoch_begin(self._facts, epoch)
                    self._train_epoch(epoch, began)
                    self._saving.weights()
                else:  # resumed between a training pass and its validation
                    began = time.perf_counter() - self._seconds
                self._close_epoch(self._row(began))
            self._check_stop()
        except _Stopped:
            return

    def _try_test_data(self) -> None:
        """The figures of the test data, with the weights that the run ends with; not after an interruption."""
        if self._test is None or self._guard.signal:
            return
        self._best.put_back()
        with contextlib.suppress(_Stopped):
            self._test_figures = self._evaluate(self._test, "test", 0)

    def _train_epoch(self, epoch: int, began: float) -> None:
        """The steps of an epoch, or what is left of it."""
        stepper, facts = self._stepper, self._facts
        if not self._batch:
            stepper.tally.clear()
        samples = self._loader.samples_per_epoch
        stepper.begin_epoch(None if samples is None else samples - stepper.tally.samples)
        for number, batch in enumerate(self._loader, self._batch + 1):
            loss = self._step(epoch, batch)
            facts.step = stepper.step_count
            if facts.seconds_to_first_step is None:
                facts.seconds_to_first_step = time.perf_counter() - self._started
            report = BatchReport(
                epoch, number, facts.step, batch.count, stepper.tally.samples, loss, stepper.tally.loss,
                stepper.tally.metrics, stepper.learning_rate, time.perf_counter() - began,
            )  # fmt: skip
            self._callbacks.batch_end(facts, report)
            if stepper.between_updates and number != facts.batches_per_epoch:
                self._inside_epoch(number, began)
        stepper.finish_epoch()
        facts.step = stepper.step_count
        self._seconds = time.perf_counter() - began
        self._epoch = self._model.epoch = epoch
        self._batch, self._validated = 0, False

    def _inside_epoch(self, number: int, began: float) -> None:
        """After an update that is not the last of its epoch: a checkpoint when it is time, and the stop."""
        self._batch, self._seconds = number, time.perf_counter() - began
        if self._saving.due and self._checkpoint():
            self._saving.tell()
        self._check_stop()

    def _check_stop(self) -> None:
        if self._guard.signal or self._facts.stop_reason is not None:
            if self._checkpoint():
                self._saving.tell()
            raise _Stopped

    def _checkpoint(self) -> bool:
        return self._saving.checkpoint(
            self._epoch, self._batch, self._validated, self._best, self._stepper.tally, self._seconds
        )

    def _step(self, epoch: int, batch: Batch) -> float:
        try:
            return self._stepper.step(batch)
        except NumericalError as error:
            origin = find_origin(self._compiled, "train", batch, self._loader.dataset.where)
            step = self._stepper.step_count + 1
            raise NumericalError(f"epoch {epoch}, step {step}: {error.message}: {origin}") from None

    def _row(self, began: float) -> EpochRow:
        """The figures of the epoch with its validation."""
        tally = self._stepper.tally
        valid: dict[str, float] = {}
        if self._valid is not None:
            valid = self._evaluate(self._valid, "valid", self._epoch - 1)
        valid_loss = valid.pop("loss", None)
        iteration = int(self._compiled.state.counters[StepState.ITERATION])
        rate = self._model.learning_rate(max(iteration - 1, 0))
        return EpochRow(
            self._epoch, self._facts.step, tally.loss, tally.metrics, valid_loss, valid, rate,
            time.perf_counter() - began, tally.samples,
        )  # fmt: skip

    def _evaluate(self, loader: BatchLoader, use: str, epoch: int) -> dict[str, float]:
        """Loss and metrics of a pass; an interruption leaves it to the resumed run."""

        def on_batch(number: int) -> None:
            self._callbacks.evaluation_batch(self._facts, use, number)
            if self._guard.signal:
                self._check_stop()

        loader.seek(epoch)
        try:
            return evaluation.evaluate_batches(self._compiled, loader, on_batch)
        except NumericalError as error:
            raise NumericalError(f"epoch {self._epoch}, {use} data: {error.message}") from None
        finally:
            loader.close()

    def _close_epoch(self, row: EpochRow) -> None:
        """Everything that follows from the figures of an epoch; files first, so that what is told is safe."""
        facts, schedule = self._facts, self._model.spec.scheduler
        self._saving.check_weights()
        facts.history.append(row)
        better = self._best.consider(row)
        facts.best_epoch = self._best.epoch
        if schedule is not None:
            figures = {name: float(value) for name, value in row.columns().items() if value is not None}
            schedule.epoch_end(figures)  # type: ignore[attr-defined]
        self._validated, self._seconds = True, 0.0
        if better and self._valid is not None:
            self._saving.best_weights()
        saved = self._checkpoint()
        self._callbacks.epoch_end(facts, row)
        if saved:
            self._saving.tell()
        if self._best.exhausted and facts.stop_reason is None:
            self._early = f"no epoch was better than {self._best.epoch} in the last {self._best.waited}"
            facts.stop(self._early)

    def _interruption(self) -> InterruptedRun:
        where = f"in epoch {self._epoch + 1}" if self._epoch < self._settings.epochs else f"after epoch {self._epoch}"
        path = self._settings.checkpoint
        saved = "" if path is None else f"; saved in {path}, resume to go on"
        return InterruptedRun(f"interrupted {where}, step {self._facts.step} is done{saved}", signal=self._guard.signal)

    def _ended(self, failure: BaseException | None) -> tuple[str, str]:
        if isinstance(failure, InterruptedRun):
            return "interrupted", failure.message
        if isinstance(failure, NumericalError):
            return "not finite", failure.message
        if failure is not None:
            return "error", str(failure)
        if self._early:
            return "early stopping", self._early
        if self._facts.stop_reason is not None:
            return "stopped", self._facts.stop_reason
        if not self._left:
            return "nothing to do", self._nothing_left()
        return "epochs", f"{counted(self._epoch, 'epoch')} {_are(self._epoch)} done"

    def _finish(self, failure: BaseException | None) -> TrainingResult:
        """What holds however the run ended: the best weights are put back where that was asked for."""
        ended, reason = self._ended(failure)
        facts = self._facts
        restored = self._best.put_back()
        return TrainingResult(
            facts.history, ended, reason, self._epoch, facts.step, self._best.epoch, self._best.row, restored,
            self._test_figures, time.perf_counter() - self._started, facts.seconds_to_first_step,
        )  # fmt: skip


def _are(number: int) -> str:
    return "is" if number == 1 else "are"
