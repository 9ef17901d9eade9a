"""Lower the peak of a list, one move at a time, each the best bargain at the moment of the peak."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from nntrainer_py.memory.listing import Listing
from nntrainer_py.memory.moves import Allowed, Move, Taken, moves
from nntrainer_py.memory.planner import aligned
from nntrainer_py.memory.swap_file import Slot
from nntrainer_py.tensor.operations.record import Value

_TRIED = 12  # moves tried at one peak before it counts as the floor
_MOST = 600  # moves of one search
_REPEATS = 4  # times that one value may be made again in a step
_PATIENCE = 40  # moves in a row without a lower total: several moments may share a peak, but two moves can also chase
# each other for ever, each making the peak that the other then lowers


@dataclass(slots=True)
class State:
    """A list and the persistent bytes beside it."""

    listing: Listing
    resident: int = 0
    on_file: dict[Value, Slot] = field(default_factory=dict)  # weights and state that live in the swap file
    taken: list[Taken] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Bytes that no placement can go below."""
        return self.resident + self.listing.peak

    def cost(self, *kinds: str) -> float:
        """Estimated nanoseconds that the moves taken (of these kinds) add to a step."""
        return sum(move.cost for move in self.taken if not kinds or move.kind in kinds)


def reduce(state: State, allowed: Allowed, target: int, *, most: float = float("inf")) -> State:
    """Take moves until the total is at most ``target``; the state with the lowest total when no move helps any more.

    ``most`` limits the nanoseconds that all moves may add. The search is deterministic and bounded by counts.
    """
    spent, best, idle = 0.0, state, 0
    refused: set[tuple[object, ...]] = set()
    for _ in range(_MOST):
        if state.total <= target:
            break
        after = _step(state, allowed, refused, most - spent)
        if after is None:
            break
        spent += after.taken[-1].cost
        state, idle = after, idle + 1
        if state.total < best.total:
            best, idle = state, 0
        if idle >= _PATIENCE:
            break
    return best


def _step(state: State, allowed: Allowed, refused: set[tuple[object, ...]], left: float) -> State | None:
    """The state after the first move that lowers the load at the peak and raises none above it."""
    listing = state.listing
    moment, peak = listing.moment, listing.peak
    at_peak = listing.operations[moment]
    persistent = tuple(value for value in allowed.persistent if value not in state.on_file)
    again = Counter(_origin(taken) for taken in state.taken if taken.kind == "recompute")
    tried = 0
    for move in moves(listing, replace(allowed, persistent=persistent), moment):
        if move.key in refused or move.cost > left:
            continue
        if move.kind == "recompute" and again.get(_origin(move), 0) >= _REPEATS:
            continue
        made = listing.with_operations(move.apply())
        resident, on_file = state.resident, state.on_file
        if move.slot is not None:
            resident -= aligned(move.value.nbytes)
            on_file = {**on_file, move.value: move.slot}
        load = next(
            (made.loads[i] for i, op in enumerate(made.operations) if op is at_peak), made.peak
        )  # rewritten operations are other objects: then the peak itself must fall
        if resident + made.peak <= state.total and (resident + load < state.resident + peak):
            taken = Taken(move.kind, move.value, move.freed, move.cost)
            return State(made, resident, on_file, [*state.taken, taken])
        refused.add(move.key)
        tried += 1
        if tried >= _TRIED:
            return None
    return None


def _origin(move: Move | Taken) -> str:
    """The name of the value that was made first, whichever copy of it the move is about."""
    return move.value.name.removesuffix("/in").removesuffix("/again")
