"""What the compiler hands back: a plan, how it came about, or the refusal of a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nntrainer_py.errors import PlanError, counted
from nntrainer_py.memory.moves import Step, Taken
from nntrainer_py.memory.plan import MemoryPlan
from nntrainer_py.memory.planner import aligned, peak
from nntrainer_py.memory.swap import is_movement
from nntrainer_py.memory.swap_file import Slot
from nntrainer_py.tensor.operations.record import Operation, Role, Value

_POSTS = 6  # that a refusal names
_OF_SAMPLES = (Role.INPUT, Role.LABEL, Role.ACTIVATION, Role.DERIVATIVE)


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


@dataclass(frozen=True, slots=True)
class DataMemory:
    """Bytes that reading the data takes: of the batches and their making, and of data that lies in memory, by name."""

    batches: int = 0
    parsed: Mapping[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Both together."""
        return self.batches + sum(self.parsed.values())

    def plus(self, other: DataMemory) -> DataMemory:
        """Of two that are there at the same time."""
        parsed = dict(self.parsed)
        for name, size in other.parsed.items():
            parsed[name] = parsed.get(name, 0) + size
        return DataMemory(self.batches + other.batches, parsed)

    def posts(self) -> dict[str, int]:
        """What takes how much, for messages."""
        return {"batches of data": self.batches, **{f"data of {name}": size for name, size in self.parsed.items()}}


@dataclass(slots=True)
class PlanReport:
    """What was chosen, and what it is expected to cost. Bytes and nanoseconds."""

    order: str = "canonical"
    orders: dict[str, int] = field(default_factory=dict)  # peak of each order, before anything else was done
    moves: list[Taken] = field(default_factory=list)
    step_cost: float = 0.0  # estimated, without the moves
    resident: int = 0  # persistent bytes in memory, and other buffers that the budget counts
    total: int = 0  # with the largest of the lists planned together
    beside: int = 0  # of the resident bytes, those of data buffers and of what other modes keep
    data: int = 0  # of these, those of the data
    budget: int | None = None

    def taken(self, kind: str) -> list[Taken]:
        """Moves of a kind: recompute, swap, swap weight."""
        return [move for move in self.moves if move.kind == kind]

    @property
    def predicted_slowdown(self) -> float:
        """Estimated time of a step over that without the moves."""
        return 1.0 + sum(move.cost for move in self.moves) / self.step_cost if self.step_cost else 1.0

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
                found.append(
                    f"{what}: {counted(len(taken), 'tensor')}, {freed / mib:.2f} MiB, predicted {share:.1f} % of a step"
                )
        if self.budget is not None:
            found.append(f"budget: {amount(self.budget)}, planned {amount(self.total)}")
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


def refusal(
    made: MemoryPlan, total: int, budget: int, what: str = "", kept: Mapping[str, int] | None = None, threads: int = 1
) -> Refusal:
    """Of a budget: the smallest that would do, and what stands in the way at the peak of ``made``.

    ``kept`` is what takes how much beside it. The largest posts come first, whatever they are.
    """
    moment = min(peak(made.requests)[0], len(made.operations) - 1)
    posts = [(size, name) for name, size in (kept or {}).items() if size]
    posts += [(request.size, request.name) for request in made.alive_at(moment)]
    posts.sort(key=lambda post: -post[0])
    named = ", ".join(f"{name} {amount(size)}" for size, name in posts[:_POSTS])
    rest = sum(size for size, _ in posts[_POSTS:])
    more = f", {len(posts) - _POSTS} more {amount(rest)}" if rest else ""
    where, direct = what, 0
    if made.operations:
        operation = made.operations[moment]
        direct = made.scratch_sizes[moment] - _direct_scratch(operation, threads)
        where = f"{what and what + ' '}at {operation.layer}, {operation.kind.name}"
    samples = sum(
        aligned(buffer.nbytes)
        for buffer in made.buffers
        if buffer.first <= moment <= buffer.last and buffer.values[0].role in _OF_SAMPLES
    )
    return Refusal(budget, total, f" In the way, where most is needed ({where}): {named}{more}", samples, direct)


def _direct_scratch(operation: Operation, threads: int) -> int:
    """Work space of an operation if convolutions were direct."""
    if "algorithm" in operation.attributes:
        operation = replace(operation, attributes={**operation.attributes, "algorithm": "direct"})
    return operation.kind.scratch(operation, threads)


class Refusal(PlanError):
    """Of one planning.

    Of the bytes at the peak a smaller batch would have fewer of ``samples``, direct convolutions ``direct`` fewer.
    """

    def __init__(self, budget: int, smallest: int, posts: str, samples: int, direct: int = 0) -> None:
        self.budget, self.posts, self.samples, self.direct = budget, posts, samples, direct
        super().__init__(self._text(smallest), smallest=smallest)

    def _text(self, smallest: int) -> str:
        return (
            f"nothing fits a memory budget of {amount(self.budget)} ({self.budget} bytes); the smallest that would do "
            f"is {amount(smallest)} ({smallest} bytes).{self.posts}"
        )

    def with_smallest(self, smallest: int) -> Refusal:
        """The same, of what was asked for in several steps that all have to fit."""
        return Refusal(self.budget, smallest, self.posts, self.samples, self.direct).located(self.origin, self.key)

    def advised(self, words: str) -> Refusal:
        """The same, with more words at its end."""
        made = Refusal(self.budget, self.smallest, self.posts + words, self.samples, self.direct)
        return made.located(self.origin, self.key)


def amount(size: int) -> str:
    """Bytes for people."""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.2f} {unit}"
    return f"{size} B"
