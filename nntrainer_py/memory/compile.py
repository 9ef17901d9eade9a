"""From a list of operations to its memory plan: order, recomputation, swapping, in-place, offsets.

One default for everybody: the order with the lowest peak, and as much recomputation as costs next to nothing. With a
budget the search goes on until the plan fits, or says how far it came. Nothing here changes a bit of any result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from nntrainer_py.errors import PlanError
from nntrainer_py.memory import order
from nntrainer_py.memory.listing import Borders, Listing
from nntrainer_py.memory.moves import Allowed, Taken
from nntrainer_py.memory.nntrainer_planners import PLANNERS
from nntrainer_py.memory.plan import MemoryPlan, plan
from nntrainer_py.memory.planner import aligned, peak
from nntrainer_py.memory.search import State, reduce
from nntrainer_py.memory.swap import is_movement, swap_persistent
from nntrainer_py.memory.swap_file import Slot
from nntrainer_py.tensor.operations.record import Operation, Value

FREE_SHARE = 0.02
"""Share of the estimated time of a step that recomputation may add without being asked."""

ORDERS = ("canonical", "derivative first", "frugal")
"""Orders of execution that can be asked for by name."""

_LOOKAHEAD = 4  # operations by which movements are ahead when nobody says otherwise
_ROUNDS = 4  # attempts to make up for what the placement needs above the lower bound
_SMALL = 4096  # bytes from which a value is worth a move


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """What the compiler may do. ``budget`` counts everything: ``resident`` bytes beside this list's arena too.

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
    """The plan, how it came about, and which weights live on file."""

    plan: MemoryPlan
    report: PlanReport
    on_file: dict[Value, Slot]
    file_bytes: int = 0  # that the swap file needs for this plan

    @property
    def swaps(self) -> bool:
        """Whether anything moves to and from the file."""
        return any(is_movement(operation) for operation in self.plan.operations)


def compile_memory(
    operations: Sequence[Operation],
    *,
    external: Sequence[Value] = (),
    pinned: Mapping[Value, int] | None = None,
    persistent: Sequence[Value] = (),
    other: int = 0,
    on_file: Mapping[Value, Slot] | None = None,
    options: MemoryOptions | None = None,
) -> CompiledMemory:
    """Plan a list of operations.

    Args:
        external: values that exist before the first operation.
        pinned: values that live on, to a position of ``operations``.
        persistent: weights and state, in memory all the time unless swapped.
        other: bytes of ours elsewhere (data buffers), counted by the budget.
        on_file: weights and state that another plan has put into the swap file already; None: free to choose.
        options: see `MemoryOptions`.

    Raises:
        PlanError: nothing fits the budget; with the smallest budget found and what stands in the way.
    """
    options = options or MemoryOptions()
    borders = Borders.of(operations, external, pinned or {})
    start = Listing(operations, borders, threads=options.threads, in_place=options.in_place)
    resident = sum(aligned(value.nbytes) for value in dict.fromkeys(persistent)) + other
    report = PlanReport(step_cost=start.cost(), budget=options.budget)
    if not options.reuse:
        made = _placed(start, options)
        report.resident, report.total = resident, resident + made.arena
        if options.budget is not None and report.total > options.budget:
            raise _refusal(made, report.total, options.budget)
        return CompiledMemory(made, report, {})
    states = [_fixed(State(listing, resident), on_file, options) for listing in _orders(start, options, report)]
    free = [_free(state, options, report.step_cost) for state in states]
    best = min(range(len(free)), key=lambda i: (free[i].total, i))
    report.order = list(report.orders)[best] if len(report.orders) > 1 else next(iter(report.orders))
    settled, made = _fitted(free[best], persistent if on_file is None else (), options)
    report.moves, report.resident = settled.taken, settled.resident
    report.total = settled.resident + made.arena
    return CompiledMemory(made, report, settled.on_file)


def _orders(start: Listing, options: MemoryOptions, report: PlanReport) -> list[Listing]:
    """Listings in the orders that deserve a try, canonical first; notes every peak."""
    makers = dict(zip(ORDERS, (None, order.derivative_first, order.frugal), strict=True))
    if options.order != "auto" and options.order not in makers:
        raise ValueError(f"unknown order {options.order!r}, expected auto, {', '.join(makers)}")
    found: dict[str, Listing] = {}
    for name, maker in makers.items():
        if options.order in ("auto", name):
            found[name] = (
                start
                if maker is None
                else start.with_operations(order.apply(start.operations, maker(start.operations)))
            )
    report.orders = {name: listing.peak for name, listing in found.items()}
    return list(found.values())


def _fixed(state: State, on_file: Mapping[Value, Slot] | None, options: MemoryOptions) -> State:
    """With the weights that are on file already."""
    for value, slot in (on_file or {}).items():
        made = swap_persistent(state.listing, value, slot, _lookahead(options))
        state = replace(
            state,
            listing=state.listing.with_operations(made),
            resident=state.resident - aligned(value.nbytes),
            on_file={**state.on_file, value: slot},
        )
    return state


def _free(state: State, options: MemoryOptions, step_cost: float) -> State:
    """With the recomputation that costs next to nothing, as far as it lowers the peak."""
    if not options.recompute or not any(operation.phase.backward for operation in state.listing.operations):
        return state
    return reduce(state, Allowed(extend=False, smallest=_SMALL), 0, most=FREE_SHARE * step_cost)


def _fitted(state: State, persistent: Sequence[Value], options: MemoryOptions) -> tuple[State, MemoryPlan]:
    """The state and its plan, brought under the budget."""
    made = _placed(state.listing, options)
    if options.swap and options.budget is None:
        return _swapped(state, persistent, options)
    if options.budget is None or state.resident + made.arena <= options.budget:
        return state, made
    least, least_made = state, made
    for strategy in _strategies(persistent, options):
        found, made = _approached(state, strategy, options, options.budget)
        if found.resident + made.arena <= options.budget:
            return found, made
        if found.resident + made.arena < least.resident + least_made.arena:
            least, least_made = found, made
    raise _refusal(least_made, least.resident + least_made.arena, options.budget)


def _strategies(persistent: Sequence[Value], options: MemoryOptions) -> list[list[Allowed]]:
    """Stages of a search, the cheapest for the user first: swapping only where recomputation is not enough.

    Unless swapping was asked for: then both are bargained for alike from the start.
    """
    again = Allowed(
        remake=_always if options.recompute else _never, smallest=_SMALL, lookahead=_lookahead(options)
    )  # fmt: skip
    both = replace(again, swap=True, persistent=tuple(dict.fromkeys(persistent)))
    if options.swap is False:
        return [[again]]
    mixed = [[both], [replace(both, remake=_never), both]]
    return mixed if options.swap else [[again], [again, both], *mixed]


def _approached(
    state: State, strategy: Sequence[Allowed], options: MemoryOptions, target: int
) -> tuple[State, MemoryPlan]:
    """Search with one strategy; again with a lower target where the placement needs more than the bound."""
    aim = target
    for _ in range(_ROUNDS):
        found = state
        for allowed in strategy:
            found = reduce(found, allowed, aim)
        made = _placed(found.listing, options)
        excess = found.resident + made.arena - target
        if excess <= 0 or found.total > aim:
            break
        aim -= excess
    return found, made


def _swapped(state: State, persistent: Sequence[Value], options: MemoryOptions) -> tuple[State, MemoryPlan]:
    """Swapping for its own sake: as far down as it goes without any recomputation beyond the default."""
    allowed = Allowed(
        remake=_never, swap=True, persistent=tuple(dict.fromkeys(persistent)), smallest=_SMALL,
        lookahead=_lookahead(options),
    )  # fmt: skip
    found = reduce(state, allowed, 0)
    return found, _placed(found.listing, options)


def _always(operation: Operation) -> bool:
    return True


def _never(operation: Operation) -> bool:
    return False


def _lookahead(options: MemoryOptions) -> int:
    return _LOOKAHEAD if options.lookahead is None else options.lookahead


def _placed(listing: Listing, options: MemoryOptions) -> MemoryPlan:
    return plan(
        listing.operations,
        external=listing.borders.external,
        pinned=listing.borders.positions(listing.operations),
        threads=options.threads,
        in_place=options.in_place,
        reuse=options.reuse,
        planner=PLANNERS[options.planner],
    )


def _refusal(made: MemoryPlan, total: int, budget: int) -> PlanError:
    """What is missing, and what is alive where it is."""
    resident = total - made.arena
    moment = min(peak(made.requests)[0], len(made.operations) - 1)
    operation = made.operations[moment]
    largest = ", ".join(f"{request.name} {_amount(request.size)}" for request in made.alive_at(moment)[:5])
    kept = f"; weights, state and data buffers take {_amount(resident)}" if resident else ""
    return PlanError(
        f"nothing fits a memory budget of {_amount(budget)} ({budget} bytes); the smallest that would do is "
        f"{_amount(total)} ({total} bytes). In the way: at {operation.layer}, {operation.kind.name}, "
        f"{largest}{kept}",
        smallest=total,
    )


def _amount(size: int) -> str:
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.2f} {unit}"
    return f"{size} B"
