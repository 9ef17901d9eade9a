"""What a user's layer promises, in words of its class or by being one, and what shows that it does not hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import NNTrainerError
from nntrainer_py.training.gradient_check.places import innermost, place_of
from nntrainer_py.training.gradient_check.prepared import Prepared
from nntrainer_py.training.gradient_check.report import TensorCheck, Verdict

Array = NDArray[Any]

KEEPS_VIEWS = (
    "what it gives depends on memory that is used for other things by then: it keeps arrays of ctx, as attributes or "
    "in ctx.saved, instead of copies"
)
NOT_PURE = "its outputs are not the same when forward is run again, but its class says pure = True"
OTHER_SAMPLES = "{what} depend on other samples of the batch, but its class says sample_by_sample = True"
#: relative: sums over fewer samples may be rounded otherwise
_ALIKE = 1e-4


def broken(prepared: Prepared) -> Iterator[TensorCheck]:
    """A row for each promise that does not hold; nothing for a built-in layer."""
    single, layer = prepared.single, innermost(prepared.single.node.layer)
    if layer.emits:
        return
    place = place_of(layer, "forward")
    if layer.pure and prepared.probe.restarts:
        yield single.told("pure", Verdict.FAILED, NOT_PURE, place=place)
    elif keeps_views(prepared):
        yield single.told("memory", Verdict.FAILED, KEEPS_VIEWS, place=place)
    finite = all(np.isfinite(numbers).all() for numbers in prepared.numbers(prepared.probe))
    if layer.sample_by_sample and finite:
        what = mixed(prepared)
        if what:
            yield single.told("sample_by_sample", Verdict.FAILED, OTHER_SAMPLES.format(what=what), place=place)


def keeps_views(prepared: Prepared) -> bool:
    """Whether the way back depends on memory that the layer may not count on.

    It runs once more where its inputs are computed again for the way back, and freed memory is overwritten.
    """
    prepared.probe.begin_again()  # the generators; the layers are others
    other = prepared.made(hostile=True)
    other.feed(other.lowered.inputs, prepared.inputs)
    other.feed(other.lowered.labels, prepared.factors)
    try:
        other.repeatable()
        other.value()
        other.back()
    except NNTrainerError:  # it went well before
        return True
    here, there = prepared.numbers(prepared.probe), prepared.numbers(other)
    return any(a.tobytes() != b.tobytes() for a, b in zip(here, there, strict=True))


def mixed(prepared: Prepared) -> str:
    """What of a sample depends on the others of its batch: outputs, derivatives, gradients or the loss; or nothing.

    Sample i is computed again in a batch that consists of it alone, as often as there were samples. Its own row must be
    as it was, and the mean of the gradients of all these batches must be the gradient of the first one.
    """
    first = _Run(prepared, None)
    runs = [_Run(prepared, place) for place in range(first.count)]
    prepared.start()
    for what, rows in first.rows.items():
        for place, run in enumerate(runs):
            if any(not _alike(a[place], b[place]) for a, b in zip(rows, run.rows[what], strict=True)):
                return what
    if prepared.probe.restarts:  # it draws: each row has its own numbers, also where it is a copy
        return ""
    for what, sums in first.sums.items():
        means = [np.mean(parts, axis=0) for parts in zip(*(run.sums[what] for run in runs), strict=True)]
        if any(not _alike(a, b) for a, b in zip(sums, means, strict=True)):
            return what
    return ""


class _Run:
    """The numbers of a batch: the layer's own, or copies of one of its samples."""

    def __init__(self, prepared: Prepared, place: int | None) -> None:
        probe, lowered = prepared.probe, prepared.probe.lowered
        self.count = lowered.batch

        def batch(arrays: list[Array]) -> list[Array]:
            return [array if place is None else np.repeat(array[place : place + 1], len(array), 0) for array in arrays]

        probe.feed(lowered.inputs, batch(prepared.inputs))
        probe.feed(lowered.labels, batch(prepared.factors))
        value = probe.value()
        probe.back()
        derivatives = lowered.derivatives.get(prepared.single.node.name, [])
        self.rows = {
            "its outputs": [probe.array(one) for one in prepared.outputs()],
            "its derivatives": [probe.array(one) for one in derivatives if one is not None],
        }
        self.sums = {
            "its gradients": [probe.array(one) for one in lowered.gradients.values() if probe.written(one)],
            "its loss": [np.array(value)] if prepared.single.node.layer.is_loss else [],
        }


def _alike(one: Array, other: Array) -> bool:
    size = float(np.max(np.abs(one), initial=0.0))
    return bool(np.max(np.abs(one.astype(np.float64) - other), initial=0.0) <= _ALIKE * max(size, 1e-6))
