"""Micro-batches: a batch computed in pieces whose gradients add up, where a memory budget cannot be met otherwise.

The sums come in another order than those of the whole batch, so the numbers differ by rounding. A layer that looks at
the whole batch (batch normalization in training, normalization of the input) would compute something else: refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from nntrainer_py.data.loader import Batch
from nntrainer_py.memory.outcome import DataMemory, Refusal
from nntrainer_py.training.compiled import Compiled
from nntrainer_py.training.options import Options
from nntrainer_py.training.plans import Plans
from nntrainer_py.training.whole_batch import why_whole


def fit(make: Callable[[Options], Compiled], options: Options, batch: int, data: DataMemory | None = None) -> Compiled:
    """A compilation whose training meets the budget of ``options``, with pieces no smaller than they must be.

    Pieces are the batch halved, rounded up, as often as it takes. ``data`` is what reading takes, in whole batches
    whatever the pieces; None: the usual batches.

    Raises:
        Refusal: no pieces meet the budget, or a layer looks at the whole batch; with the smallest that one would meet.
    """
    whole = make(options)
    usual = DataMemory(whole.plans.planning.ring_bytes(whole.lowered("train", batch)))
    _count(whole, usual, data)
    try:
        whole.memory("train", batch)
    except Refusal as error:
        refusal = error
    else:
        whole.plans.remake = partial(_again, make, options, batch)
        return whole
    reason = why_whole(whole.lowered("train", batch))
    if reason:
        raise refusal.advised(f"; micro_batches cannot help: {reason}")
    size = batch
    while size > 1:
        size = -(-size // 2)
        tried = make(replace(options, accumulate_gradients=True, micro_batch=size))
        _count(tried, usual, data)
        try:
            tried.memory("train", size)
        except Refusal as error:
            refusal = min(refusal, error, key=lambda one: one.smallest)
        else:
            tried.plans.remake = partial(_again, make, options, batch)
            return tried
    raise refusal


def _count(compiled: Compiled, usual: DataMemory, data: DataMemory | None) -> None:
    plans = compiled.plans
    plans.usual_data, plans.planning.data, plans.planning.splits = usual, data or usual, True


def _again(make: Callable[[Options], Compiled], options: Options, batch: int, budget: int) -> Plans:
    """What would have been made for another budget."""
    return fit(make, replace(options, memory_budget=budget), batch).plans


def pieces(batch: Batch, size: int | None) -> Iterator[Batch]:
    """A batch without its leftovers, in pieces of at most ``size`` samples (None: whole); views, no copies."""
    step = batch.count if size is None else size
    for start in range(0, batch.count, step):
        stop = min(start + step, batch.count)
        yield Batch(
            [array[start:stop] for array in batch.inputs],
            [array[start:stop] for array in batch.labels],
            stop - start,
            batch.indices[start:stop],
        )


def piece_sizes(sizes: list[int], size: int | None) -> list[int]:
    """The sizes of the pieces of batches of these sizes."""
    if size is None:
        return sizes
    found: list[int] = []
    for whole in sizes:
        found += ([size] if whole >= size else []) + ([whole % size] if whole % size else [])
    return found
