"""Memory plans of one model, one for each mode and batch size; a weight that lives on file does so for all of them.

The plans of all modes are made together for one batch size: the budget holds for them or is refused. A smaller batch
follows the plan of that one and so never needs more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nntrainer_py.data.loader import ring_bytes
from nntrainer_py.errors import Origin
from nntrainer_py.graph.lower import Lowered
from nntrainer_py.memory.alike import counterparts
from nntrainer_py.memory.compile import MemoryOptions, compile_smaller, compile_together
from nntrainer_py.memory.outcome import CompiledMemory, DataMemory, Refusal, Task
from nntrainer_py.memory.planner import aligned
from nntrainer_py.memory.swap import settle
from nntrainer_py.memory.swap_file import PAGE, Slot, SwapFile
from nntrainer_py.tensor.operations.record import Value
from nntrainer_py.training.engine import persistent, transient
from nntrainer_py.training.whole_batch import why_whole

Place = tuple[Origin | None, str]


@dataclass(slots=True)
class Planning:
    """Makes the plans. The budget counts ``data``, or as long as that is not known ``data_buffers`` batches.

    ``splits``: batches are computed in pieces where the budget asks for it, so nobody needs to be told of that.
    """

    options: MemoryOptions
    folder: str = "."
    place: Place = (None, "swap_folder")  # where that is named, for messages
    data_buffers: int = 2
    data: DataMemory | None = None
    splits: bool = False
    file: SwapFile | None = None
    _on_file: dict[str, Slot] | None = None  # by name of the weight or state; None: not decided yet
    _base: int = 0  # bytes of the file that belong to these
    _kept: dict[str, int] = field(default_factory=dict)  # bytes of the weights and state that stay in memory
    _ring: int = 0  # bytes of the data loaders, for the largest batch that was planned

    @property
    def undecided(self) -> bool:
        """Whether weights may go to the swap file and no plan has settled yet which do; the first ones do."""
        return self._on_file is None and (self.options.budget is not None or bool(self.options.swap))

    def together(
        self, lowered: Sequence[Lowered], what: Sequence[str] = (), held: Mapping[str, int] | None = None
    ) -> list[CompiledMemory]:
        """Plan what never runs at the same time, the modes of a model; no memory is taken, the file not touched.

        Later plans are bound to what these put into the swap file. ``what`` the lists do is for messages; ``held``
        are the bytes of weights and state that are in memory already, by name.

        Raises:
            PlanError: they cannot all meet the budget.
        """
        for name, nbytes in (held or {}).items():
            if name not in (self._on_file or {}):
                self._kept.setdefault(name, aligned(nbytes))
        names = what or [""] * len(lowered)
        tasks = [_task(one, name) for one, name in zip(lowered, names, strict=True)]
        ring = max(self._ring, *(self.ring_bytes(one) for one in lowered))
        data = self.data or DataMemory(ring)
        counted = self.options.budget is not None
        try:
            made = compile_together(
                tasks,
                beside={**data.posts(), "what other modes keep": self._kept_beside(tasks)} if counted else {},
                on_file=self._on_file,
                fixed=(held or {}).keys(),
                options=self.options,
            )
        except Refusal as error:
            raise error.advised(self._advice(error, lowered, data)) from None
        self._ring = ring
        for one in made:
            one.report.data = data.total if counted else 0
        if self._on_file is None:
            self._on_file = {value.name: slot for one in made for value, slot in one.on_file.items()}
            for slot in self._on_file.values():
                slot.offset = self._base
                self._base += -(-slot.nbytes // PAGE) * PAGE
        for task in tasks:
            for value in task.persistent:
                if value.name not in self._on_file:
                    self._kept[value.name] = aligned(value.nbytes)
        return [self._settled(one) for one in made]

    def smaller(self, lowered: Lowered, like: CompiledMemory) -> CompiledMemory | None:
        """Plan a smaller batch after the plan of a larger one of the same mode; None where their lists differ."""
        made = compile_smaller(_task(lowered), like, self.options)
        return None if made is None else self._settled(made)

    @staticmethod
    def follows(smaller: Lowered, larger: Lowered) -> bool:
        """Whether the list of a smaller batch can follow the plan of a larger one."""
        return counterparts(_task(larger), _task(smaller)) is not None

    def _settled(self, made: CompiledMemory) -> CompiledMemory:
        if self.file is None and made.swaps:
            self.file = SwapFile(self.folder, *self.place)
        if self.file is not None:
            made.file_bytes = settle(made.plan.operations, self.file, self._base)
        return made

    def on_file(self, lowered: Lowered) -> dict[Value, Slot]:
        """Weights and state of a lowering that live in the swap file, which has room for them on return."""
        names = self._on_file or {}
        if names and self.file is not None:
            self.file.reserve(self._base)
        return {value: names[value.name] for value in persistent(lowered) if value.name in names}

    def _kept_beside(self, tasks: Sequence[Task]) -> int:
        """What other plans keep in memory: the optimizer's state during an evaluation planned by itself."""
        here = {value.name for task in tasks for value in task.persistent}
        return sum(size for name, size in self._kept.items() if name not in here)

    def _advice(self, error: Refusal, lowered: Sequence[Lowered], data: DataMemory) -> str:
        """What would lower the smallest budget by a tenth or more, as words to put behind a refusal."""
        least = error.smallest / 10
        batch, training = max(one.batch for one in lowered), any(one.gradients for one in lowered)
        found = []
        if data.parsed and sum(data.parsed.values()) > least:
            found.append("data that stays on disk (a raw file, npy or numpy.savez instead of csv or savez_compressed)")
        if batch > 1 and error.samples + data.batches > least:
            found.append("a smaller batch_size")
        if error.direct > least:
            found.append("convolution = direct in [Model]")
        splittable = training and not self.splits and not any(why_whole(one) for one in lowered)
        if batch > 1 and error.samples > least and splittable:
            found.append("micro_batches = true")
        return f". What helps: {', '.join(found)}" if found else ""

    def ring_bytes(self, lowered: Lowered) -> int:
        """Batches of the data loaders, which take what the largest takes, also while a smaller one is computed."""
        inputs, labels = ([value.shape[1:] for value in values] for values in (lowered.inputs, lowered.labels))
        return ring_bytes(inputs, labels, lowered.batch, self.data_buffers - 1) if self.data_buffers > 0 else 0


def _task(lowered: Lowered, what: str = "") -> Task:
    external, pinned = transient(lowered)
    return Task(lowered.operations, external, pinned, persistent(lowered), what)
