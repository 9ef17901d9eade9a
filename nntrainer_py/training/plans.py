"""Memory plans of one model by mode and batch size, and the promise that a budget holds for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import RLock

from nntrainer_py.errors import PlanError
from nntrainer_py.graph.lower import Lowered
from nntrainer_py.memory.outcome import CompiledMemory, DataMemory, Refusal
from nntrainer_py.memory.plan import MemoryPlan
from nntrainer_py.memory.swap_file import SwapFile
from nntrainer_py.training.engine import Store
from nntrainer_py.training.lowerings import Lowerings, Mode
from nntrainer_py.training.options import Options
from nntrainer_py.training.planning import Place, Planning


@dataclass(frozen=True, slots=True)
class Places:
    """Where budget and swap folder are named, in the text and by which word, for messages."""

    budget: Place = (None, "memory_budget")
    folder: Place = (None, "swap_folder")


class Plans:
    """Plans are made for a full batch in all modes together; smaller batches follow them and never need more memory.

    Args:
        lowerings: the lists of operations.
        options: see `Options`.
        batch: samples of a full batch; None: of the first one that is asked for.
        lock: held while plans are made.
        store: the weights and state that exist already, around which is planned.
        places: where the budget and the folder are named.
    """

    def __init__(
        self,
        lowerings: Lowerings,
        options: Options,
        batch: int | None,
        lock: RLock,
        store: Store | None = None,
        places: Places | None = None,
    ) -> None:
        self._lowerings = lowerings
        self._options = options
        self._lock = lock
        self._store = store or Store()
        self._places = places or Places()
        self.batch = batch
        self.planning = self._new_planning()
        self._made: dict[tuple[Mode, int], CompiledMemory] = {}
        self._followed: set[tuple[Mode, int]] = set()  # plans that others follow
        self._held: dict[str, int] = {}  # what was in memory when the first plans were made
        self._first: Mode | None = None  # the mode for which these were asked, None: all
        #: these plans as they would be for another budget, all that was promised planned; None: by the same options
        self.remake: Callable[[int], Plans] | None = None
        #: what the budget counts for data while nobody reads any; None: so many batches as the options say
        self.usual_data: DataMemory | None = None

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._made)

    @property
    def begun(self) -> bool:
        """Whether there are weights, so that planning goes on from what is there."""
        return bool(self._store.arrays)

    def take_over(self, before: Plans) -> None:
        """Go on around the weights of other plans, and count what these counted."""
        self._store, self.usual_data, self.planning.data = before._store, before.usual_data, before.planning.data

    def promise(self) -> None:
        """Plan every mode for a full batch; after that no mode and no smaller batch can be refused. Takes no memory.

        Raises:
            PlanError: they cannot all meet the memory budget.
        """
        with self._lock, self._located():
            if self.planning.undecided and self.batch is not None:
                self._plan_together(self._lowerings.modes(self.batch), self.batch)

    def memory(self, mode: Mode, batch: int) -> CompiledMemory:
        """The memory plan of a mode and how it came about; no memory is taken.

        Raises:
            PlanError: it cannot meet the memory budget.
        """
        key = (mode, batch)
        with self._lock, self._located():
            if key not in self._made and self.planning.undecided:
                self._decide(mode, max(batch, self.batch or 0))
            if key not in self._made:
                self._made[key] = self._planned(mode, batch)
            return self._made[key]

    def decide(self, lowered: Lowered) -> None:
        """Settle which weights live in the swap file before those of a list are created."""
        if self.planning.undecided:
            self.memory(*self._lowerings.key_of(lowered))

    def hold_data(self, data: DataMemory | None, uses: Sequence[tuple[Mode, int]] = ()) -> None:
        """Count ``data`` from now on: what reading takes; None: two batches, as at the beginning.

        Plans stay where the budget holds with it, else all modes are planned anew; before there are weights, from the
        start. ``uses`` are the modes and batch sizes that the data is for, planned as well where they are larger.

        Raises:
            PlanError: nothing fits; all is as it was. It names a budget with which every call up to this one works.
        """
        with self._lock, self._located():
            before, begun = self.planning.data, self.begun
            try:
                self._count(data, begun, uses)
            except Refusal as error:
                self.planning.data = before
                raise self._workable(error, lambda other: other._count(data, begun, uses)) from None

    def new_file(self) -> SwapFile:
        """A file of its own in the swap folder."""
        return SwapFile(self._options.swap_folder, *self._places.folder)

    def file_bytes(self) -> int:
        """Size of the swap file that the plans so far ask for."""
        return max((made.file_bytes for made in self._made.values()), default=0)

    def holds(self, key: tuple[Mode, int], plan: MemoryPlan) -> bool:
        """Whether a plan is still the one of its mode and batch size."""
        made = self._made.get(key)
        return made is not None and made.plan is plan

    def keeps(self, key: tuple[Mode, int]) -> bool:
        """Whether a plan must stay, because others follow it."""
        return key in self._followed

    def forget(self, key: tuple[Mode, int]) -> None:
        """Give back the memory of one of them."""
        self._made.pop(key, None)

    @contextmanager
    def _located(self) -> Iterator[None]:
        """Refusals name the place of the budget, whoever asked for what does not fit."""
        try:
            yield
        except PlanError as error:
            raise error.located(*self._places.budget) from None

    def _new_planning(self, data: DataMemory | None = None) -> Planning:
        options = self._options
        return Planning(
            options.memory(), options.swap_folder, self._places.folder, data_buffers=options.data_buffers, data=data
        )

    def _decide(self, mode: Mode, batch: int) -> None:
        """The first plans: of all modes, or where a budget is too small for training, of the others."""
        modes = self._lowerings.modes(batch)
        self._first = mode
        if mode not in modes:
            modes.insert(0, mode)
        try:
            self._plan_together(modes, batch)
        except PlanError:
            if mode == "train" or "train" not in modes:
                raise
            self._plan_together([other for other in modes if other != "train"], batch)

    def _plan_together(self, modes: Sequence[Mode], batch: int) -> None:
        lowered = self._lowerings.lowered
        keys = [(mode, batch) for mode in modes]
        if batch > 1 and self._options.memory_budget is not None:
            # a single sample may be computed by other operations: an axis of size 1 is one that can be repeated
            keys += [(mode, 1) for mode in modes if not Planning.follows(lowered(mode, 1), lowered(mode, batch))]
        what = {"train": "", "evaluate": "evaluating", "predict": "predicting"}
        held = {name: array.nbytes for name, array in self._store.arrays.items()} or self._held
        if self.planning.undecided:
            self._held = held
        made = self.planning.together([lowered(*key) for key in keys], [what[mode] for mode, _ in keys], held)
        self.batch = batch
        self._made.update(zip(keys, made, strict=True))
        self._followed.update(keys)

    def _planned(self, mode: Mode, batch: int) -> CompiledMemory:
        """A plan beside those that were made first."""
        full, lowered = self.batch, self._lowerings.lowered(mode, batch)
        if full is not None and batch < full:
            self._followed.add((mode, full))
            made = self.planning.smaller(lowered, self.memory(mode, full))
            if made is not None:
                return made
        if full is None or batch <= full:
            return self.planning.together([lowered])[0]
        try:
            return self._alone(mode, batch)
        except Refusal as error:
            data, begun, use = self.planning.data, self.begun, (mode, batch)
            raise self._workable(error, lambda other: other._count(data, begun, [use])) from None

    def _alone(self, mode: Mode, batch: int) -> CompiledMemory:
        """The plan of a batch larger than those for which the budget was promised, from what is left."""
        try:
            return self.planning.together([self._lowerings.lowered(mode, batch)])[0]
        except Refusal as error:
            raise error.advised(
                f". The budget was kept for batches of up to {self.batch}, this one has {batch}"
            ) from None

    def _count(self, data: DataMemory | None, begun: bool, uses: Sequence[tuple[Mode, int]]) -> None:
        options = self._options
        if options.data_buffers == 0:
            return
        self.planning.data = data or self.usual_data
        if data is None or options.memory_budget is None or self.planning.undecided:
            return
        budget = options.memory_budget
        if any(made.report.total - made.report.data + data.total > budget for made in self._made.values()):
            self._plan_anew(begun)
        for mode, batch in uses:
            size = min(batch, options.micro_batch or batch)
            if size > (self.batch or size) and (mode, size) not in self._made:
                self._made[mode, size] = self._alone(mode, size)

    def _plan_anew(self, begun: bool) -> None:
        """All modes planned so far, around the weights that are there."""
        batch = self.batch or 1
        modes = [mode for mode in self._lowerings.modes(batch) if (mode, self.batch) in self._made]
        old, plans = self.planning, self._made
        if not begun:
            self.planning = self._new_planning(old.data)
            self.planning.splits = old.splits
        self._made = {}
        try:
            self._plan_together(modes, batch)
        except PlanError:
            self.planning, self._made = old, plans
            raise

    def _workable(self, error: Refusal, asked: Callable[[Plans], object]) -> Refusal:
        """The refusal with a budget for which all that was planned before is granted, and what was ``asked`` as well.

        More room changes what the first plans put on file, hence what is left for those that come later.
        """
        budget = error.smallest
        while True:
            try:
                asked((self.remake or self._remade)(budget))
            except PlanError as more:
                if more.smallest <= budget:
                    raise
                budget = more.smallest
            else:
                return error.with_smallest(budget)

    def _remade(self, budget: int) -> Plans:
        options, held, first = replace(self._options, memory_budget=budget), self._held, self._first
        made = Plans(self._lowerings, options, self.batch, self._lock, places=self._places)
        made._held, made._first = held, first
        if self.batch is not None:
            if first is None:
                made.promise()
            else:
                made.memory(first, self.batch)
        return made
