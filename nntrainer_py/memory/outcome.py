"""What the compiler hands back: a plan, how it came about, or the refusal of a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nntrainer_py.errors import PlanError
from nntrainer_py.memory.moves import Step, Taken
from nntrainer_py.memory.plan import MemoryPlan
from nntrainer_py.memory.planner import peak
from nntrainer_py.memory.swap import is_movement
from nntrainer_py.memory.swap_file import Slot
from nntrainer_py.tensor.operations.record import Operation, Value


@dataclass(frozen=True, slots=True)
class Task:
    """One list of operations to be planned.

    ``external`` values exist before the first operation, ``pinned`` ones live on to a position of the list;
    ``persistent`` are the weights and state that it may use. ``what`` is for messages: "predicting".
    """

    operations: Sequence[Operation]
    external: Sequence[Value] = ()
    pinned: Mapping[Value, int] = field(default_factory=dict)
    persistent: Sequence[Value] = ()
    what: str = ""


@dataclass(slots=True)
class PlanReport:
    """What was chosen, and what it is expected to cost. Bytes and nanoseconds."""

    order: str = "canonical"
    orders: dict[str, int] = field(default_factory=dict)  # peak of each order, before anything else was done
    moves: list[Taken] = field(default_factory=list)
    step_cost: float = 0.0  # estimated, without the moves
    resident: int = 0  # persistent bytes in memory, and other buffers that the budget counts
    total: int = 0
    budget: int | None = None

    def taken(self, kind: str) -> list[Taken]:
        """Moves of a kind: recompute, swap, swap weight."""
        return [move for move in self.moves if move.kind == kind]

    @property
    def predicted_slowdown(self) -> float:
        """Estimated time of a step over that without the moves."""
        return 1.0 + sum(move.cost for move in self.moves) / self.step_cost if self.step_cost else 1.0

    @property
    def swapped_bytes(self) -> int:
        """Bytes that swapping frees at the peaks it was chosen for."""
        return sum(move.freed for move in self.moves if move.kind.startswith("swap"))

    def lines(self) -> list[str]:
        """For people."""
        mib = 1 << 20
        found = [f"order: {self.order} ({', '.join(f'{n} {p / mib:.2f} MiB' for n, p in self.orders.items())})"]
        for kind, what in (
            ("recompute", "recomputed"),
            ("swap", "swapped"),
            ("swap weight", "weights and state on file"),
        ):
            taken = self.taken(kind)
            if taken:
                freed, cost = sum(move.freed for move in taken), sum(move.cost for move in taken)
                share = 100 * cost / self.step_cost if self.step_cost else 0.0
                found.append(f"{what}: {len(taken)} tensors, {freed / mib:.2f} MiB, predicted {share:.1f} % of a step")
        if self.budget is not None:
            found.append(f"budget: {self.budget / mib:.2f} MiB, planned {self.total / mib:.2f} MiB")
        return found


@dataclass(slots=True)
class CompiledMemory:
    """The plan, how it came about, and which weights live on file.

    ``sequence`` (places of the canonical list in the order of execution) and ``steps`` lead from the list of ``task``
    to that of the plan; they do the same for a smaller batch.
    """

    plan: MemoryPlan
    report: PlanReport
    on_file: dict[Value, Slot]
    task: Task
    sequence: tuple[int, ...]
    steps: tuple[Step, ...] = ()
    file_bytes: int = 0  # that the swap file needs for this plan

    @property
    def swaps(self) -> bool:
        """Whether anything moves to and from the file."""
        return any(is_movement(operation) for operation in self.plan.operations)


def refusal(made: MemoryPlan, total: int, budget: int, what: str = "") -> PlanError:
    """Of a budget: the smallest that would do, and what stands in the way at the peak of ``made``."""
    resident = total - made.arena
    moment = min(peak(made.requests)[0], len(made.operations) - 1)
    largest = ", ".join(f"{request.name} {_amount(request.size)}" for request in made.alive_at(moment)[:5])
    kept = f"; weights, state, tables and data buffers take {_amount(resident)}" if resident else ""
    when = f"{what}, " if what else ""
    where = ""
    if made.operations:
        operation = made.operations[moment]
        where = f"at {operation.layer}, {operation.kind.name}, "
    return PlanError(
        f"nothing fits a memory budget of {_amount(budget)} ({budget} bytes); the smallest that would do is "
        f"{_amount(total)} ({total} bytes). In the way: {when}{where}{largest}{kept}",
        smallest=total,
    )


def _amount(size: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.2f} {unit}"
    return f"{size} B"
