"""What a description is compiled into: threads, batch size, budget, and whether a batch is computed in pieces."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from nntrainer_py.errors import PlanError, UsageError, counted, did_you_mean
from nntrainer_py.graph.lower import Lowered
from nntrainer_py.graph.order import arrange
from nntrainer_py.graph.spec import ModelSpec
from nntrainer_py.memory.outcome import DataMemory
from nntrainer_py.training import micro_batches
from nntrainer_py.training.compiled import Compiled
from nntrainer_py.training.lowerings import Mode
from nntrainer_py.training.options import Options
from nntrainer_py.training.plans import Places
from nntrainer_py.training.settings import whole


class Compilation:
    """A description, and the programs that it is compiled into when somebody asks for them.

    Args:
        spec: the description; `configure` fixes what it leaves open, else the settings of [Model] hold.
    """

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec
        self._compiled: Compiled | None = None
        self._whole: Compiled | None = None  # the same but for a budget that splits batches, which needs planning
        self._places = Places()
        self.batch = spec.model.batch_size
        #: called once when the first weights have been made, see `Compiled`
        self.on_begin: Callable[[], None] | None = None
        #: what the budget counts for data; None: the usual
        self.data: DataMemory | None = None

    def configure(
        self,
        batch_size: int | None = None,
        threads: int | None = None,
        seed: int | None = None,
        convolution: str | None = None,
        memory: Mapping[str, Any] | None = None,
    ) -> None:
        """Compile without planning anything yet."""
        settings = self.spec.model
        self.batch = whole("batch_size", batch_size, settings.batch_size)
        options = Options(
            threads=min(whole("threads", threads, settings.threads or default_threads()), default_threads()),
            seed=settings.seed if seed is None else seed,
            convolution=settings.convolution if convolution is None else convolution,
            in_place=settings.memory_optimization,
            reuse=settings.memory_optimization,
            accumulate_gradients=settings.gradient_accumulation > 1,
            recompute=settings.memory_optimization,
            memory_budget=settings.memory_budget,
            swap=True if settings.fsu else None,
            swap_folder=self._described_folder,
            lookahead=settings.fsu_lookahead if settings.fsu else settings.fsu_lookahead or None,
        )
        for name, value in (memory or {}).items():
            if name not in Options.__dataclass_fields__:
                raise UsageError(f"compile: unknown option {name!r}{did_you_mean(name, Options.__dataclass_fields__)}")
            options = replace(options, **{name: value})
        budget = self.spec.at("memory_budget") if options.memory_budget == settings.memory_budget else None
        described = options.swap_folder == self._described_folder
        folder = (self.spec.at("fsu_path"), "fsu_path") if described else (None, "swap_folder")
        self._places = Places((budget, "memory_budget"), folder)
        self._whole = self._make(options)
        self._compiled = None if self._splits else self._whole
        self.data = None

    @property
    def _splits(self) -> bool:
        """Whether the budget decides the size of the pieces in which a batch is computed."""
        options = self.options
        return (
            self.spec.model.micro_batches and options.memory_budget is not None and options.training and self.trainable
        )

    def _maker(self) -> Callable[[Options], Compiled]:
        """Makes compilations; without the model itself: two that hold each other live on until the collector comes."""
        spec, batch, places, on_begin = self.spec, self.batch, self._places, self.on_begin

        def make(options: Options) -> Compiled:
            made = Compiled(lambda with_loss: arrange(spec, with_loss), spec.optimizer, options, batch, places)
            made.on_begin = on_begin
            return made

        return make

    def _make(self, options: Options) -> Compiled:
        return self._maker()(options)

    def unplanned(self) -> Compiled:
        """Programs of whole batches, to be asked for shapes: a budget is not looked at."""
        if self._whole is None:
            self.configure()
        assert self._whole is not None
        return self._whole

    @property
    def options(self) -> Options:
        """What was asked for; compiles with the settings of [Model] when nobody did."""
        return self.unplanned().options

    @property
    def compiled(self) -> Compiled:
        """The programs; compiles with the settings of [Model] when nobody did."""
        if self._compiled is None:
            options = self.options
            if self._splits:
                try:
                    self._compiled = micro_batches.fit(self._maker(), options, self.batch, self.data)
                except PlanError as error:
                    raise error.located(*self._places.budget) from None
            else:
                self._compiled = self._whole
        assert self._compiled is not None
        return self._compiled

    def hold_data(self, data: DataMemory | None, uses: Sequence[tuple[Mode, int]] = ()) -> None:
        """Count ``data`` against a memory budget from now on, until this is called again: what reading takes.

        None: two batches, as while nobody reads. ``uses`` are the modes and batch sizes that it is for. PlanError when
        nothing fits; all is as it was then.
        """
        if self.options.memory_budget is None:
            return
        before, self.data = self.data, data
        if self._compiled is None:
            return  # looked at when it is planned
        try:
            self._compiled.plans.hold_data(data, uses)
        except PlanError:
            if self._splits and not self._compiled.plans.begun:
                whole, self._compiled = self._compiled, None  # smaller pieces, perhaps
                try:
                    self.compiled.plans.promise()
                except PlanError:
                    self._compiled, self.data = whole, before
                    raise
                return
            self.data = before
            raise

    def require_swap_file(self, mode: Mode | None = None, copies: int = 0) -> None:
        """See that the swap file can be made, where the plans of a mode (default: training) need one and it is not yet.

        ``copies`` are bytes of copies of weights that will be kept in a file where memory is limited.

        Raises:
            UsageError: it cannot, at the place of ``fsu_path``.
            PlanError: the plans cannot meet the memory budget.
        """
        compiled = self.compiled
        if compiled.plans.begun and not copies:
            return
        if compiled.plans.planning.undecided:
            trains = self.trainable and compiled.options.training
            compiled.memory(mode or ("train" if trains else "predict"), compiled.plans.batch or self.batch)
        compiled.require_swap_file(copies)

    @property
    def _described_folder(self) -> str:
        """Where [Model] puts the swap file."""
        return str(self.spec.folder / (self.spec.model.fsu_path or "."))

    def limit_batch(self, samples: int) -> str:
        """No batch will have more than ``samples``: plan for that, unless something is planned already.

        Returns:
            A sentence that says so; empty where nothing changes.
        """
        described = self.batch
        if samples >= described or (self._compiled is not None and self._compiled.planned):
            return ""
        options = self.options
        self.batch = samples
        self._whole = self._make(options)
        self._compiled = None if self._splits else self._whole
        return (
            f"no data set has more than {counted(samples, 'sample')}, "
            f"so batches are planned for that, not for {described}"
        )

    @property
    def trainable(self) -> bool:
        """Has a loss and an optimizer, or layers that learn from labels alone."""
        return self.spec.has_loss and (self.spec.optimizer is not None or not self.spec.needs_optimizer)

    def lowered(self, mode: Mode | None = None, batch: int | None = None) -> Lowered:
        """The operation list of a mode (default: training where possible); takes no memory."""
        compiled = self._compiled or self.unplanned()
        trains = self.trainable and compiled.options.training
        return compiled.lowered(mode or ("train" if trains else "predict"), batch or self.batch)

    def refresh(self) -> None:
        """Compile anew after layers were frozen or freed; weights, state and counters stay."""
        before = self._compiled
        if self._whole is not None:
            self._whole = self._make(self._whole.options)
        if before is not None:
            self._compiled = self._make(before.options)
            self._compiled.take_over(before)

    def require_no_file(self) -> None:
        """UsageError where weights live in a swap file, which no other plan can take over."""
        if self._compiled is not None and self._compiled.plans.planning.file is not None:
            raise UsageError("layers cannot be frozen or freed while weights live in a swap file; save, and load anew")


def default_threads() -> int:
    """One for each processor that this process may use, or as many as Numba's own variable allows."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    allowed = os.environ.get("NUMBA_NUM_THREADS", "")
    return min(processors, int(allowed)) if allowed.isdecimal() and int(allowed) else processors
