"""The whole model: gradients of its loss, through everything that stands between, against differences of the loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import NNTrainerError
from nntrainer_py.graph.lower import Node
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.training.gradient_check.differences import Comparison, Effort, compare
from nntrainer_py.training.gradient_check.prepared import ROUNDING, loss_scales
from nntrainer_py.training.gradient_check.probe import Probe
from nntrainer_py.training.gradient_check.report import TensorCheck, Verdict
from nntrainer_py.training.gradient_check.samples import Samples

Array = NDArray[Any]

WHOLE = "whole model"
#: multiples of a rounding error that an error must exceed
_SURE = 4.0
_REASON = "every layer is right by itself: does one keep in an attribute what another use of it overwrites?"


def check_together(
    nodes: Sequence[Node],
    batch: Samples,
    weights: Mapping[str, Array],
    state: StepState,
    effort: Effort,
    rng: np.random.Generator,
    options: Mapping[str, Any],
    doubtful: Sequence[str] = (),
) -> list[TensorCheck]:
    """A row for each trained weight: what is wrong here and in no layer lies between them, as with shared attributes.

    Nothing is called wrong where it may come from a layer of which nothing could be told, one of ``doubtful``: beside a
    singularity derivatives may be so large that what should cancel out in their sum does not. Nor where that could be
    seen: the largest derivative of all has a rounding error of the size of those at the layer itself. The regularizers
    of weights, which the update adds, are no part of it.
    """
    probe = Probe(nodes, batch.count, weights, state, hostile=True, **options)
    lowered = probe.lowered
    probe.feed(lowered.inputs, batch.inputs)
    probe.feed(lowered.labels, batch.labels)
    if not probe.repeatable():
        return [_row("", Verdict.SKIPPED, "the forward pass gives something else each time")]
    base = probe.value()
    if not np.isfinite(base):
        return [_row("", Verdict.UNCLEAR, f"the loss is {base}")]
    try:
        probe.back()
    except NNTrainerError as error:
        return [_row("", Verdict.FAILED, f"{_REASON} It ends with an error: {error.message}")]
    values = {weight.key: weight.value for weight in lowered.weights}
    gradients = {key: probe.array(value) for key, value in lowered.gradients.items() if probe.written(value)}
    rounding = _Rounding(probe)
    owners = {weight.key: weight.owner for weight in lowered.weights}
    less = replace(effort, directions=max(2, effort.directions // 2), elements=0)
    rows = []
    for key, gradient in gradients.items():
        value = values[key]
        assert value is not None
        compared = compare(probe.function(value), probe.fed(value), gradient, loss_scales(base), less, rng)
        rows.append(_judged(key, compared, compared.error < _SURE * rounding.at(owners[key]), doubtful))
    return rows


class _Rounding:
    """How well derivatives can be known in float32, where large ones cancel out on the way."""

    def __init__(self, probe: Probe) -> None:
        self._places = {node.name: position for position, node in enumerate(probe.nodes)}
        self._by_producer: dict[int, list[Array]] = {}
        self._largest = 0.0
        for node in probe.nodes:
            for (producer, _), value in zip(node.inputs, probe.lowered.derivatives.get(node.name, []), strict=False):
                if value is not None:
                    made = probe.array(value)
                    self._by_producer.setdefault(producer, []).append(made)
                    self._largest = max(self._largest, float(np.max(np.abs(made), initial=0.0)))

    def at(self, name: str) -> float:
        """The rounding error of the largest derivative, relative to those by the outputs of a layer."""
        made = self._by_producer.get(self._places.get(name, -1), [])
        size = max((float(np.sqrt(np.mean(np.square(array, dtype=np.float64)))) for array in made), default=0.0)
        return ROUNDING * self._largest / size if size > 0.0 else 0.0


def _judged(key: str, compared: Comparison, vague: bool, doubtful: Sequence[str]) -> TensorCheck:
    verdict, reason = compared.verdict, compared.reason
    if verdict is Verdict.FAILED and vague:
        verdict, reason = (
            Verdict.UNCLEAR,
            "off by no more than rounding errors: derivatives on the way here are so large that only their sum is not",
        )
    elif verdict is Verdict.FAILED and doubtful:
        verdict, reason = Verdict.UNCLEAR, f"off, but what passes back may be as well at {', '.join(doubtful)}"
    elif verdict is Verdict.FAILED:
        reason = reason or _REASON
    return _row(
        key,
        verdict,
        reason,
        error=compared.error,
        uncertainty=compared.uncertainty,
        element=None if verdict is Verdict.PASSED else compared.element,
    )


def _row(tensor: str, verdict: Verdict, reason: str, **more: Any) -> TensorCheck:
    return TensorCheck(WHOLE, "", tensor, verdict, reason=reason, **more)
