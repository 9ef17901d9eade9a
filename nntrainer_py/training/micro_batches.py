"""Micro-batches: a batch computed in pieces whose gradients add up, where a memory budget cannot be met otherwise.

The sums come in another order than those of the whole batch, so the numbers differ by rounding. A layer that looks at
the whole batch (batch normalization in training, normalization of the input) would compute something else: refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from nntrainer_py.data.loader import Batch
from nntrainer_py.errors import PlanError
from nntrainer_py.training.compiled import Compiled, Options

#: kinds of operations whose result for one sample depends on the others
_WHOLE_BATCH = ("batch_statistics", "normalize_batch")


def fit(make: Callable[[Options], Compiled], options: Options, batch: int) -> Compiled:
    """A compilation whose training meets the budget of ``options``, with pieces no smaller than they must be.

    Pieces are the batch halved, rounded up, as often as it takes.

    Raises:
        PlanError: not even single samples meet the budget, or a layer looks at the whole batch.
    """
    whole = make(options)
    try:
        whole.memory("train", batch)
    except PlanError as error:
        refusal = error
    else:
        return whole
    for operation in whole.lowered("train", batch).operations:
        if operation.kind.name in _WHOLE_BATCH:
            raise PlanError(f"{refusal.message}; micro_batches cannot help: {operation.layer} looks at the whole batch")
    size = batch
    while size > 1:
        size = -(-size // 2)
        buffers = options.data_buffers * -(-batch // size)  # the data comes in whole batches all the same
        tried = make(replace(options, accumulate_gradients=True, micro_batch=size, data_buffers=buffers))
        try:
            tried.memory("train", size)
        except PlanError as error:
            refusal = error
        else:
            return tried
    raise refusal


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
