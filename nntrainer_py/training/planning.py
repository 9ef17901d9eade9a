"""Memory plans of one model, one for each mode and batch size; a weight that lives on file does so for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nntrainer_py.data.loader import ring_bytes
from nntrainer_py.graph.lower import Lowered
from nntrainer_py.memory.compile import CompiledMemory, MemoryOptions, compile_memory
from nntrainer_py.memory.planner import aligned
from nntrainer_py.memory.swap import settle
from nntrainer_py.memory.swap_file import PAGE, Slot, SwapFile
from nntrainer_py.tensor.operations.record import Value
from nntrainer_py.training.engine import persistent, transient


@dataclass(slots=True)
class Planning:
    """Makes the plans. ``data_buffers`` batches of the data loaders are counted by the budget."""

    options: MemoryOptions
    folder: str = "."
    data_buffers: int = 2
    file: SwapFile | None = None
    _on_file: dict[str, Slot] | None = None  # by name of the weight or state; None: not decided yet
    _base: int = 0  # bytes of the file that belong to these
    _kept: dict[str, int] = field(default_factory=dict)  # bytes of the weights and state that stay in memory

    @property
    def undecided(self) -> bool:
        """Whether weights may go to the swap file and no plan has settled yet which do; the first one does."""
        return self._on_file is None and (self.options.budget is not None or bool(self.options.swap))

    def compile(self, lowered: Lowered) -> CompiledMemory:
        """Plan one lowering; PlanError when it cannot meet the budget. No memory is taken, the file not touched."""
        external, pinned = transient(lowered)
        values = persistent(lowered)
        chosen: dict[Value, Slot] | None = None
        if self._on_file is not None:
            chosen = {value: self._on_file[value.name] for value in values if value.name in self._on_file}
        made = compile_memory(
            lowered.operations,
            external=external,
            pinned=pinned,
            persistent=values,
            other=self._other_bytes(lowered, values) if self.options.budget is not None else 0,
            on_file=chosen,
            options=self.options,
        )
        if self._on_file is None:
            self._on_file = {value.name: slot for value, slot in made.on_file.items()}
            for slot in self._on_file.values():
                slot.offset = self._base
                self._base += -(-slot.nbytes // PAGE) * PAGE
        for value in values:
            if value.name not in self._on_file:
                self._kept[value.name] = aligned(value.nbytes)
        if self.file is None and made.swaps:
            self.file = SwapFile(self.folder)
        if self.file is not None:
            made.file_bytes = settle(made.plan.operations, self.file, self._base)
        return made

    def on_file(self, lowered: Lowered) -> dict[Value, Slot]:
        """Weights and state of a lowering that live in the swap file, which has room for them on return."""
        names = self._on_file or {}
        if names and self.file is not None:
            self.file.reserve(self._base)
        return {value: names[value.name] for value in persistent(lowered) if value.name in names}

    def _other_bytes(self, lowered: Lowered, values: Sequence[Value]) -> int:
        """Batches of the data loaders, and what other plans keep in memory: the optimizer's state during evaluation."""
        here = {value.name for value in values}
        others = sum(size for name, size in self._kept.items() if name not in here)
        if self.data_buffers < 1:
            return others
        return others + ring_bytes(
            [value.shape[1:] for value in lowered.inputs],
            [value.shape[1:] for value in lowered.labels],
            lowered.batch,
            self.data_buffers - 1,
        )
