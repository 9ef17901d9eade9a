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
from nntrainer_py.training.gradient_check.differences import Effort, Scales, compare
from nntrainer_py.training.gradient_check.prepared import ROUNDING
from nntrainer_py.training.gradient_check.probe import Probe
from nntrainer_py.training.gradient_check.report import TensorCheck, Verdict
from nntrainer_py.training.gradient_check.samples import Samples

Array = NDArray[Any]

WHOLE = "whole model"
_REASON = "every layer is right by itself: does one keep in an attribute what another use of it overwrites?"


def check_together(
    nodes: Sequence[Node],
    batch: Samples,
    weights: Mapping[str, Array],
    state: StepState,
    effort: Effort,
    rng: np.random.Generator,
    options: Mapping[str, Any],
) -> list[TensorCheck]:
    """A row for each trained weight: what is wrong here and in no layer lies between them, as with shared attributes.

    The regularizers of weights, which the update adds, are no part of it.
    """
    probe = Probe(nodes, batch.count, weights, state, hostile=True, **options)
    probe.feed(probe.lowered.inputs, batch.inputs)
    probe.feed(probe.lowered.labels, batch.labels)
    if not probe.repeatable():
        return [_row("", Verdict.SKIPPED, "the forward pass gives something else each time")]
    base = probe.value()
    if not np.isfinite(base):
        return [_row("", Verdict.UNCLEAR, f"the loss is {base}")]
    try:
        probe.back()
    except NNTrainerError as error:
        return [_row("", Verdict.FAILED, f"{_REASON} It ends with an error: {error.message}")]
    made = {
        weight.key: (weight.value, probe.array(probe.lowered.gradients[weight.key]))
        for weight in probe.lowered.weights
        if weight.key in probe.lowered.gradients
        and weight.value is not None
        and probe.written(probe.lowered.gradients[weight.key])
    }
    less = replace(effort, directions=max(2, effort.directions // 2), elements=0)
    scales = Scales(abs(base), ROUNDING * abs(base))
    rows = []
    for key, (value, gradient) in made.items():
        compared = compare(probe.function(value), probe.fed(value), gradient, scales, less, rng)
        failed = compared.verdict is Verdict.FAILED
        rows.append(
            _row(
                key,
                compared.verdict,
                compared.reason or (_REASON if failed else ""),
                error=compared.error,
                uncertainty=compared.uncertainty,
                element=compared.element if failed else None,
            )
        )
    return rows


def _row(tensor: str, verdict: Verdict, reason: str, **more: Any) -> TensorCheck:
    return TensorCheck(WHOLE, "", tensor, verdict, reason=reason, **more)
