"""Lower the peak of the lists of a model, one move at a time, each the best bargain at the moment of the peak.

The lists (a training step, an evaluation, a prediction) never run at the same time, so the largest counts; the weights
beside them are the same for all. The way down knows no target: what a budget may choose from is the same for all
budgets, hence whoever fits a smaller one fits a larger one, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from nntrainer_py.memory.listing import Listing
from nntrainer_py.memory.moves import Allowed, Move, Step, Taken, moves, swap_of
from nntrainer_py.memory.planner import aligned
from nntrainer_py.memory.swap_file import Slot
from nntrainer_py.tensor.operations.record import Value

_TRIED = 12  # moves tried at one peak before it counts as the floor
_MOST = 600  # moves of one search
_REPEATS = 4  # times that one value may be made again in a step
_PATIENCE = 40  # moves in a row without a lower total: several moments may share a peak, but two moves can also chase
# each other for ever, each making the peak that the other then lowers


@dataclass(frozen=True, slots=True)
class Course:
    """One list, what was done to it, and by which steps; ``persistent`` are its weights and state by name."""

    listing: Listing
    persistent: Mapping[str, Value] = field(default_factory=dict)
    taken: tuple[Taken, ...] = ()
    steps: tuple[Step, ...] = ()

    def after(self, move: Move) -> Course:
        """With a move made; itself where the move is about a weight that this list does not use."""
        if move.value not in self.listing.uses:
            return self
        return replace(
            self,
            listing=self.listing.with_operations(move.applied(self.listing)),
            taken=(*self.taken, Taken(move.kind, move.value, move.freed, move.cost)),
            steps=(*self.steps, move.step(self.listing)),
        )


@dataclass(frozen=True, slots=True)
class State:
    """The lists of a model and the bytes that are taken beside each of them."""

    courses: tuple[Course, ...]
    resident: int = 0
    on_file: Mapping[str, Slot] = field(default_factory=dict)  # weights and state that live in the swap file

    @property
    def total(self) -> int:
        """Bytes that no placement can go below."""
        return self.resident + max((course.listing.peak for course in self.courses), default=0)

    @property
    def highest(self) -> int:
        """Which list has the highest peak."""
        return max(range(len(self.courses)), key=lambda k: self.courses[k].listing.peak)

    def forget(self, but: State) -> None:
        """Give back what the lists know about themselves, those aside that another state has too."""
        kept = {id(course.listing) for course in but.courses}
        for course in self.courses:
            if id(course.listing) not in kept:
                course.listing.forget()

    def with_weight_on_file(self, name: str, slot: Slot, lookahead: int) -> State:
        """With a weight or state in the file, for all lists."""
        courses, nbytes = [], 0
        for course in self.courses:
            value = course.persistent.get(name)
            if value is not None:
                nbytes = aligned(value.nbytes)
                course = course.after(swap_of(course.listing, value, slot, lookahead))
            courses.append(course)
        return State(tuple(courses), self.resident - nbytes, {**self.on_file, name: slot})


def descent(
    state: State, allowed: Allowed, movable: frozenset[str] = frozenset(), *, most: float = float("inf")
) -> Iterator[State]:
    """Take moves as long as they help; yields each state with a lower total than all before it.

    ``movable`` are the names of the weights and state that may go to the file, ``most`` limits the nanoseconds that all
    moves may add. The search is deterministic and bounded by counts.
    """
    spent, least, idle = 0.0, state.total, 0
    refused: set[tuple[object, ...]] = set()
    for _ in range(_MOST):
        found = _step(state, allowed, movable, refused, most - spent)
        if found is None:
            return
        state, cost = found
        spent, idle = spent + cost, idle + 1
        if state.total < least:
            least, idle = state.total, 0
            yield state
        if idle >= _PATIENCE:
            return


def lowest(
    state: State, allowed: Allowed, movable: frozenset[str] = frozenset(), *, most: float = float("inf")
) -> State:
    """The end of a `descent`; the state itself where nothing helps."""
    for found in descent(state, allowed, movable, most=most):
        state = found
    return state


def _step(
    state: State, allowed: Allowed, movable: frozenset[str], refused: set[tuple[object, ...]], left: float
) -> tuple[State, float] | None:
    """The state after the first move that lowers the load at the peak and raises none above it; what it costs."""
    which = state.highest
    course = state.courses[which]
    listing, moment = course.listing, course.listing.moment
    persistent = [v for name, v in course.persistent.items() if name in movable and name not in state.on_file]
    again = Counter(_origin(taken) for taken in course.taken if taken.kind == "recompute")
    tried = 0
    for move in moves(listing, allowed, moment, persistent):
        if move.key in refused or move.cost > left:
            continue
        if move.kind == "recompute" and again.get(_origin(move), 0) >= _REPEATS:
            continue
        made = _made(state, which, move)
        if made.total <= state.total and made.resident + _load(made, which, listing) < state.total:
            return made, move.cost
        refused.add(move.key)
        tried += 1
        if tried >= _TRIED:
            return None
    return None


def _made(state: State, which: int, move: Move) -> State:
    """The state after a move of one of the lists."""
    if move.slot is not None:
        return state.with_weight_on_file(move.value.name, move.slot, move.lookahead)
    courses = list(state.courses)
    courses[which] = courses[which].after(move)
    return replace(state, courses=tuple(courses))


def _load(made: State, which: int, before: Listing) -> int:
    """What is alive now where the peak was; operations that were rewritten are other objects: then the peak now."""
    listing, at_peak = made.courses[which].listing, before.operations[before.moment]
    return next((listing.loads[i] for i, op in enumerate(listing.operations) if op is at_peak), listing.peak)


def _origin(move: Move | Taken) -> str:
    """The name of the value that was made first, whichever copy of it the move is about."""
    return move.value.name.removesuffix("/in").removesuffix("/again")
