"""One layer by itself: its two backward methods against differences of its forward pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import NNTrainerError
from nntrainer_py.layers.base import Layer
from nntrainer_py.tensor.operations.record import Value
from nntrainer_py.training.gradient_check.differences import Comparison, Effort, compare
from nntrainer_py.training.gradient_check.places import place_of, writes
from nntrainer_py.training.gradient_check.prepared import Prepared, Single
from nntrainer_py.training.gradient_check.promises import broken
from nntrainer_py.training.gradient_check.report import TensorCheck, Verdict

Array = NDArray[Any]
#: a tensor's name, the method that makes its numbers, its value, and the numbers; None: there are none
_Found = tuple[str, str, Value, Array | None]

NOT_REPEATABLE = (
    "its forward pass gives something else each time, though it begins with the same attributes and generators; "
    "it cannot be differentiated by running it again"
)
UNCLEAR = "the differences do not agree with each other: a kink or a jump in every step, or too much rounding"
#: by keyword: what goes back is something else than the derivative, as its documentation says
BY_DEFINITION = {
    "constant_derivative": "its loss is a constant and what it passes back is 1, by definition",
    "cast": "it rounds, and passes the derivative straight through, by definition",
}


def check_layer(single: Single, effort: Effort, rng: np.random.Generator) -> list[TensorCheck]:
    """A row for each input and each weight."""
    layer = single.node.layer
    if not single.node.inputs and not single.row.weights and layer.keyword == "input":
        return [single.told("", Verdict.SKIPPED, "an input of the model")]
    if layer.keyword == "constant_derivative" or _rounds(layer):
        return [single.told("", Verdict.SKIPPED, BY_DEFINITION[layer.keyword])]
    rows, passes = _without_derivative(single)
    if rows and rows[0].verdict is Verdict.FAILED:
        return rows
    trained = [weight for weight in single.row.weights if weight.trainable and single.row.trainable]
    if not trained and not passes:
        return rows or [single.told("", Verdict.SKIPPED, "there is nothing to differentiate by")]
    try:
        prepared = Prepared(single, passes, rng)
        if not prepared.steady:
            return [*rows, single.told("", Verdict.SKIPPED, NOT_REPEATABLE)]
        return [*rows, *broken(prepared), *_tensors(prepared, effort, rng)]
    except NNTrainerError as error:
        return [*rows, single.told("", Verdict.FAILED, f"it ends with an error: {error.message}")]


def _rounds(layer: Layer) -> bool:
    return layer.keyword == "cast" and getattr(layer, "tensor_dtype", "FP32") != "FP32"


def _without_derivative(single: Single) -> tuple[list[TensorCheck], bool]:
    """What is to be told where no derivative passes, and whether one does."""
    layer = single.node.layer
    if not single.inputs:
        return [], False
    if not layer.supports_derivative:
        return [single.told("inputs", Verdict.SKIPPED, "it passes no derivative back, as it says")], False
    if not writes(layer, "calc_derivative"):
        if any(single.wanted):
            place = place_of(layer, "calc_derivative")
            return [
                single.told("inputs", Verdict.FAILED, "it has no calc_derivative, which is needed", place=place)
            ], False
        return [
            single.told("inputs", Verdict.SKIPPED, "it has no calc_derivative: nothing before it can be trained")
        ], False
    return [], True


def _tensors(prepared: Prepared, effort: Effort, rng: np.random.Generator) -> list[TensorCheck]:
    """Every tensor against differences."""
    single, probe = prepared.single, prepared.probe
    if not np.isfinite(prepared.base):
        return [single.told("", Verdict.UNCLEAR, "its forward pass is not finite with these inputs")]
    rows = []
    for tensor, method, value, made in [*_derivatives(prepared), *_gradients(prepared)]:
        if made is None:
            rows.append(single.told(tensor, Verdict.SKIPPED, "no derivative passes to this input"))
            continue
        try:
            compared = compare(probe.function(value), probe.fed(value), made, prepared.scales, effort, rng)
        except NNTrainerError as error:
            reason = f"the forward pass ends with an error beside this point: {error.message}"
            rows.append(single.told(tensor, Verdict.UNCLEAR, reason))
            continue
        rows.append(_row_of(single, tensor, method, compared))
    if not single.row.trainable and any(weight.trainable for weight in single.row.weights):
        rows.append(single.told("weights", Verdict.SKIPPED, "frozen: there are no gradients"))
    return rows


def _derivatives(prepared: Prepared) -> Iterator[_Found]:
    probe = prepared.probe
    for k, derivative in enumerate(probe.lowered.derivatives.get(prepared.single.node.name, [])):
        made = None if derivative is None else probe.array(derivative)
        yield f"input {k}", "calc_derivative", probe.lowered.inputs[k], made


def _gradients(prepared: Prepared) -> Iterator[_Found]:
    probe = prepared.probe
    values = {weight.key: weight.value for weight in probe.lowered.weights}
    for weight in prepared.single.row.weights:
        gradient, value = probe.lowered.gradients.get(weight.key), values.get(weight.key)
        if gradient is None or value is None:
            continue
        made = probe.array(gradient) if probe.written(gradient) else np.zeros(gradient.shape, np.float32)
        yield f"weight {weight.name}", "calc_gradient", value, made


def _row_of(single: Single, tensor: str, method: str, compared: Comparison) -> TensorCheck:
    """The row of a comparison; where its numbers are made is told of those that are in doubt."""
    doubtful = compared.verdict in (Verdict.FAILED, Verdict.UNCLEAR)
    reason = compared.reason or (UNCLEAR if compared.verdict is Verdict.UNCLEAR else "")
    return single.told(
        tensor,
        compared.verdict,
        reason,
        error=compared.error,
        uncertainty=compared.uncertainty,
        element=compared.element if doubtful else None,
        place=place_of(single.node.layer, method) if doubtful else "",
    )
