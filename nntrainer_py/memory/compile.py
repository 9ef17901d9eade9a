"""From lists of operations to their memory plans: order, recomputation, swapping, in-place, offsets.

One default for everybody: the order with the lowest peak, and as much recomputation as costs next to nothing. With a
budget the search goes on until the plans fit. What it comes by on the way down does not depend on the budget, so a
budget is met if and only if it is at least the smallest that a refusal tells. Nothing here changes a bit of any result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from nntrainer_py.memory import order
from nntrainer_py.memory.alike import counterparts, mirrored
from nntrainer_py.memory.listing import Borders, Listing
from nntrainer_py.memory.moves import Allowed, Taken
from nntrainer_py.memory.nntrainer_planners import PLANNERS
from nntrainer_py.memory.outcome import CompiledMemory, PlanReport, Task, refusal
from nntrainer_py.memory.plan import MemoryPlan, plan
from nntrainer_py.memory.planner import aligned
from nntrainer_py.memory.search import Course, State, descent, lowest
from nntrainer_py.memory.swap_file import Slot
from nntrainer_py.tensor.operations.record import Operation, Role, Value

FREE_SHARE = 0.02
"""Share of the estimated time of a step that recomputation may add without being asked."""

ORDERS = ("canonical", "derivative first", "frugal")
"""Orders of execution that can be asked for by name."""

_LOOKAHEAD = 4  # operations by which movements are ahead when nobody says otherwise
_SMALL = 4096  # bytes from which a value is worth a move


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """What the compiler may do. ``budget`` counts everything: weights, state and other bytes beside the arena, too.

    ``swap`` None: only under a budget that recomputation alone does not meet. ``order`` and ``planner``
    name one choice.
    """

    threads: int = 1
    in_place: bool = True
    reuse: bool = True
    recompute: bool = True
    order: str = "auto"
    planner: str = "search"
    budget: int | None = None
    swap: bool | None = None
    lookahead: int | None = None

    @property
    def ahead(self) -> int:
        """Operations by which movements are ahead."""
        return _LOOKAHEAD if self.lookahead is None else self.lookahead


def compile_memory(
    operations: Sequence[Operation],
    *,
    external: Sequence[Value] = (),
    pinned: Mapping[Value, int] | None = None,
    persistent: Sequence[Value] = (),
    beside: Mapping[str, int] | None = None,
    on_file: Mapping[str, Slot] | None = None,
    options: MemoryOptions | None = None,
) -> CompiledMemory:
    """Plan one list of operations; for the arguments see `Task` and `compile_together`."""
    task = Task(operations, external, pinned or {}, persistent)
    return compile_together([task], beside=beside, on_file=on_file, options=options)[0]


def compile_together(
    tasks: Sequence[Task],
    *,
    beside: Mapping[str, int] | None = None,
    on_file: Mapping[str, Slot] | None = None,
    fixed: Collection[str] = (),
    options: MemoryOptions | None = None,
) -> list[CompiledMemory]:
    """Plan lists that never run at the same time and use the same weights and state, by name.

    Args:
        tasks: the lists.
        beside: bytes of ours elsewhere (data buffers), counted by the budget, and what they are for.
        on_file: weights and state that other plans have put into the swap file already; None: free to choose.
        fixed: names of weights and state that must stay in memory.
        options: see `MemoryOptions`.

    Raises:
        PlanError: nothing fits the budget; with the smallest that does and what stands in the way.
    """
    options = options or MemoryOptions()
    sizes: dict[str, int] = {}
    for value in (value for task in tasks for value in task.persistent):
        sizes[value.name] = max(aligned(value.nbytes), sizes.get(value.name, 0))
    constants: dict[str, int] = {}
    for operation in (operation for task in tasks for operation in task.operations):
        for root in (value.root for value in operation.reads.values()):
            if root.role is Role.CONSTANT:
                constants[root.name] = max(aligned(root.nbytes), constants.get(root.name, 0))
    other = sum((beside or {}).values())
    resident = sum(sizes.values()) + sum(constants.values()) + other
    movable = frozenset(sizes).difference(fixed) if on_file is None else frozenset[str]()
    starts = [_start(task, {} if on_file is None else on_file, options) for task in tasks]
    state = State(
        tuple(start.course for start in starts),
        resident - sum(size for name, size in sizes.items() if name in (on_file or {})),
        dict(on_file or {}),
    )
    placing = _Placing(options)
    if options.budget is not None:
        kept = {**(beside or {}), "tables": sum(constants.values())}
        state = _within(state, options.budget, tasks, movable, options, placing, kept)
    elif options.swap and options.reuse:
        state = lowest(state, _allowed(options, remake=False, swap=True), movable)
    report = PlanReport(resident=state.resident, total=placing.total(state), beside=other, budget=options.budget)
    return [
        _outcome(task, start, course, state, placing.plan(course.listing), report)
        for task, start, course in zip(tasks, starts, state.courses, strict=True)
    ]


def compile_smaller(task: Task, like: CompiledMemory, options: MemoryOptions) -> CompiledMemory | None:
    """Plan the list of a smaller batch by doing to it what was done to a larger one; None where they are not alike.

    It needs at most as much: if no layout of its own is better, it lies where the values of the larger batch lie.
    """
    if counterparts(like.task, task) is None:
        return None
    slots = {value.name: slot for value, slot in like.on_file.items()}
    borders = Borders.of(task.operations, task.external, task.pinned)
    start = Listing(task.operations, borders, threads=options.threads, in_place=options.in_place)
    listing = start.with_operations(order.apply(start.operations, like.sequence))
    orders, moves = {like.report.order: listing.peak}, []
    for step, taken in zip(like.steps, like.report.moves, strict=True):
        root = step.root(listing)
        share = root.nbytes / taken.value.nbytes
        moves.append(Taken(taken.kind, root, round(taken.freed * share), taken.cost * share))
        listing = listing.with_operations(step.applied(listing, slots.get(root.name)))
    made = _Placing(options).plan(listing)
    if made.arena > like.plan.arena:
        ends = _ended(like.task, like.plan.operations), _ended(task, listing.operations)
        twin = mirrored(like.plan, *ends, options.threads)
        if twin is None:
            return None
        made = twin
    report = replace(like.report, orders=orders, moves=moves, step_cost=start.cost())
    report.total = report.resident + made.arena
    on_file = {value: slots[value.name] for value in task.persistent if value.name in slots}
    return CompiledMemory(made, report, on_file, task, like.sequence, like.steps)


def _ended(task: Task, operations: Sequence[Operation]) -> Task:
    """The task with what its list has become."""
    pinned = Borders.of(task.operations, task.external, task.pinned).positions(operations)
    return Task(operations, task.external, pinned)


@dataclass(frozen=True, slots=True)
class _Start:
    """A list in the best order with what costs next to nothing, before the budget is looked at."""

    course: Course
    order: str
    orders: dict[str, int]
    sequence: tuple[int, ...]
    step_cost: float


def _start(task: Task, on_file: Mapping[str, Slot], options: MemoryOptions) -> _Start:
    borders = Borders.of(task.operations, task.external, task.pinned)
    canonical = Listing(task.operations, borders, threads=options.threads, in_place=options.in_place)
    persistent = {value.name: value for value in task.persistent}
    sequences = _sequences(canonical, options)
    best: tuple[int, str, Course] | None = None
    peaks = {}
    for name, sequence in sequences.items():
        listing = canonical.with_operations(order.apply(canonical.operations, sequence))
        peaks[name] = listing.peak
        state = State((Course(listing, persistent),))
        for weight, slot in on_file.items():
            state = state.with_weight_on_file(weight, slot, options.ahead)
        state = _free(state, options, canonical.cost())
        if best is None or state.courses[0].listing.peak < best[0]:
            best = state.courses[0].listing.peak, name, state.courses[0]
    assert best is not None
    _, name, course = best
    return _Start(course, name, peaks, sequences[name], canonical.cost())


def _sequences(canonical: Listing, options: MemoryOptions) -> dict[str, tuple[int, ...]]:
    """The orders that deserve a try, as places of the canonical list, which comes first."""
    if options.order != "auto" and options.order not in ORDERS:
        raise ValueError(f"unknown order {options.order!r}, expected auto, {', '.join(ORDERS)}")
    if not options.reuse:
        return {"canonical": tuple(range(len(canonical.operations)))}
    operations = canonical.operations
    makers: tuple[Callable[[], Iterable[int]], ...] = (
        lambda: range(len(operations)),
        lambda: order.derivative_first(operations),
        lambda: order.frugal(operations),
    )
    return {
        name: tuple(maker())
        for name, maker in zip(ORDERS, makers, strict=True)
        if options.order in ("auto", name)
    }  # fmt: skip


def _free(state: State, options: MemoryOptions, step_cost: float) -> State:
    """With the recomputation that costs next to nothing, as far as it lowers the peak."""
    operations = state.courses[0].listing.operations
    if not (options.recompute and options.reuse) or not any(operation.phase.backward for operation in operations):
        return state
    return lowest(state, Allowed(extend=False, smallest=_SMALL), most=FREE_SHARE * step_cost)


def _within(
    state: State, budget: int, tasks: Sequence[Task], movable: frozenset[str], options: MemoryOptions,
    placing: _Placing, kept: Mapping[str, int],
) -> State:  # fmt: skip
    """The first state on the way down whose plans keep the budget; PlanError with the smallest total when none does."""
    seen: list[State] = []
    for found in _way_down(state, movable, options):
        if seen:
            seen[-1].forget(found)
        seen.append(found)
        if found.total <= budget and placing.total(found) <= budget:
            return found
    least: State | None = None
    for found in sorted(seen, key=lambda found: found.total):
        if least is not None and found.total >= placing.total(least):
            break  # no placement beats its bound
        if least is None or placing.total(found) < placing.total(least):
            least = found
    assert least is not None
    plans = [placing.plan(course.listing) for course in least.courses]
    which = max(range(len(plans)), key=lambda k: plans[k].arena)
    kept = {**kept, **_persistent(tasks, least)}
    raise refusal(plans[which], placing.total(least), budget, tasks[which].what, kept, options.threads)


def _persistent(tasks: Sequence[Task], state: State) -> dict[str, int]:
    """Bytes in memory of weights, state and the like, by what they are."""
    words = {Role.WEIGHT: "weights", Role.STATE: "state of layers", Role.OPTIMIZER: "optimizer state"}
    values = {value.name: value for task in tasks for value in task.persistent if value.name not in state.on_file}
    found: dict[str, int] = {}
    for value in values.values():
        word = words.get(value.role, "kept gradients")
        found[word] = found.get(word, 0) + aligned(value.nbytes)
    return found


def _way_down(state: State, movable: frozenset[str], options: MemoryOptions) -> Iterator[State]:
    """States with ever lower totals, the cheapest for the user first, whatever the budget.

    Swapping comes only where recomputation is not enough, unless it was asked for: then both are bargained for alike.
    At the end other mixtures are tried from the start, for what they come by below the first.
    """
    yield state
    if not options.reuse:
        return
    again = _allowed(options, remake=True, swap=False)
    both = _allowed(options, remake=True, swap=True)
    moving = _allowed(options, remake=False, swap=True)
    if options.swap is False:
        ways = [[again]]
    elif options.swap:
        ways = [[both], [moving, both]]
    else:
        ways = [[again, both], [both], [moving, both]]
    for way in ways:
        end = state
        for allowed in way:
            for found in descent(end, allowed, movable):
                yield found
                end = found


def _allowed(options: MemoryOptions, *, remake: bool, swap: bool) -> Allowed:
    may = _always if remake and options.recompute else _never
    return Allowed(remake=may, swap=swap, smallest=_SMALL, lookahead=options.ahead)


def _always(operation: Operation) -> bool:
    return True


def _never(operation: Operation) -> bool:
    return False


class _Placing:
    """The plans of lists, each made once."""

    def __init__(self, options: MemoryOptions) -> None:
        self._options = options
        self._made: dict[int, tuple[Listing, MemoryPlan]] = {}

    def plan(self, listing: Listing) -> MemoryPlan:
        """Offsets for a list as it stands."""
        if id(listing) not in self._made:
            options = self._options
            made = plan(
                listing.operations,
                external=listing.borders.external,
                pinned=listing.borders.positions(listing.operations),
                threads=options.threads,
                in_place=options.in_place,
                reuse=options.reuse,
                planner=PLANNERS[options.planner],
            )
            self._made[id(listing)] = listing, made  # the list is kept: another must not get its identity
        return self._made[id(listing)][1]

    def total(self, state: State) -> int:
        """Bytes that the state takes."""
        return state.resident + max((self.plan(course.listing).arena for course in state.courses), default=0)


def _outcome(
    task: Task, start: _Start, course: Course, state: State, made: MemoryPlan, report: PlanReport
) -> CompiledMemory:
    report = replace(
        report, order=start.order, orders=start.orders, moves=list(course.taken), step_cost=start.step_cost
    )
    on_file = {value: state.on_file[value.name] for value in task.persistent if value.name in state.on_file}
    return CompiledMemory(made, report, on_file, task, start.sequence, course.steps)
