"""One layer by itself: its two backward methods against differences of its forward pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.errors import NNTrainerError
from nntrainer_py.graph.lower import LayerShape, Node
from nntrainer_py.tensor.operations.record import StepState, Value
from nntrainer_py.training.gradient_check.differences import Comparison, Effort, Scales, compare
from nntrainer_py.training.gradient_check.places import place_of, writes
from nntrainer_py.training.gradient_check.probe import Probe, alone
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
#: of a float32, relative
ROUNDING = 2.0**-24
#: how far inputs are moved, relative to themselves, and zeros to the root mean square: from kinks such as equal maxima
_MOVED, _LIFTED = 0.02, 0.3
#: the range of the factors of the outputs, whose signs are drawn
_FACTORS = 0.5, 1.5


@dataclass(frozen=True, slots=True)
class Single:
    """A layer and what reaches it. ``wanted`` says which derivatives by inputs the model makes use of."""

    node: Node
    row: LayerShape
    inputs: list[Array]
    label: Array | None
    weights: Mapping[str, Array]
    state: StepState | None
    wanted: tuple[bool, ...]
    options: dict[str, Any] = field(default_factory=dict)

    def told(self, tensor: str, verdict: Verdict, reason: str = "", **more: Any) -> TensorCheck:
        """A row of this layer."""
        return TensorCheck(self.node.name, self.node.layer.keyword, tensor, verdict, reason=reason, **more)


def check_layer(single: Single, effort: Effort, rng: np.random.Generator) -> list[TensorCheck]:
    """A row for each input and each weight."""
    layer = single.node.layer
    if not single.node.inputs and not single.row.weights and layer.keyword == "input":
        return [single.told("", Verdict.SKIPPED, "an input of the model")]
    if layer.keyword == "constant_derivative" or (layer.keyword == "cast" and layer.texts().get("tensor_dtype")):
        return [single.told("", Verdict.SKIPPED, BY_DEFINITION[layer.keyword])]
    rows, passes = _without_derivative(single)
    if rows and rows[0].verdict is Verdict.FAILED:
        return rows
    trained = [weight for weight in single.row.weights if weight.trainable and single.row.trainable]
    if not trained and not passes:
        return rows or [single.told("", Verdict.SKIPPED, "there is nothing to differentiate by")]
    try:
        prepared = _Prepared(single, passes, rng)
        if not prepared.steady:
            return [*rows, single.told("", Verdict.SKIPPED, NOT_REPEATABLE)]
        return [*rows, *prepared.check(effort, rng)]
    except NNTrainerError as error:
        return [*rows, single.told("", Verdict.FAILED, f"it ends with an error: {error.message}")]


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


class _Prepared:
    """A layer that runs: fed, with what it gave on the way back."""

    def __init__(self, single: Single, passes: bool, rng: np.random.Generator) -> None:
        self.single = single
        self.rng = rng
        row = single.row
        self.probe = Probe(
            alone(single.node, row.inputs, len(row.outputs)),
            row.inputs[0].batch if row.inputs else row.outputs[0].batch,
            single.weights,
            single.state,
            derivatives=passes,
            **single.options,
        )
        lowered = self.probe.lowered
        self.probe.feed(lowered.inputs, [self._moved(k, array) for k, array in enumerate(single.inputs)])
        self.factors = [self._factors(value.shape) for value in lowered.labels]
        if single.label is not None:
            self.factors[0] = single.label
        self.probe.feed(lowered.labels, self.factors)
        self.steady = self.probe.repeatable()
        if self.steady:
            self.base = self.probe.value()
            self.scales = self._scales()
            self.probe.back()

    def _moved(self, index: int, array: Array) -> Array:
        """Off the kinks that real values stand on; where no derivative is asked for, values may be indices and stay."""
        if not (index < len(self.single.wanted) and self.single.wanted[index]):
            return array
        size = float(np.sqrt(np.mean(np.square(array, dtype=np.float64)))) if array.size else 0.0
        moved = array * (1.0 + _MOVED * self.rng.uniform(-1.0, 1.0, array.shape))
        moved[array == 0.0] = self.rng.uniform(0.0, _LIFTED * size, int((array == 0.0).sum()))
        return moved.astype(np.float32)

    def _factors(self, shape: tuple[int, ...]) -> Array:
        signs = self.rng.integers(0, 2, shape) * 2.0 - 1.0
        return (signs * self.rng.uniform(*_FACTORS, shape)).astype(np.float32)

    def _scales(self) -> Scales:
        """Of the sum of the outputs, as if each changed by itself, with chance signs; of a loss its value."""
        if self.single.node.layer.is_loss:
            return Scales(abs(self.base), ROUNDING * abs(self.base))
        terms = [
            factor.reshape(-1) * self.probe.array(value).reshape(-1).astype(np.float64)
            for factor, value in zip(self.factors[-len(self.probe.lowered.losses) :], self.outputs(), strict=True)
        ]
        natural = float(sum(np.sum(np.square(term)) for term in terms)) ** 0.5
        return Scales(
            natural, ROUNDING * max((float(np.max(np.abs(term), initial=0.0)) for term in terms), default=0.0)
        )

    def outputs(self) -> list[Value]:
        return self.probe.lowered.node_outputs[self.single.node.name]

    def check(self, effort: Effort, rng: np.random.Generator) -> list[TensorCheck]:
        """Every tensor against differences."""
        single = self.single
        if not np.isfinite(self.base):
            return [single.told("", Verdict.UNCLEAR, "its forward pass is not finite with these inputs")]
        rows = []
        for tensor, method, value, made in (*self._derivatives(), *self._gradients()):
            if made is None:
                rows.append(single.told(tensor, Verdict.SKIPPED, "no derivative passes to this input"))
                continue
            try:
                compared = compare(self._function(value), self.probe.fed(value), made, self.scales, effort, rng)
            except NNTrainerError as error:
                reason = f"the forward pass ends with an error beside this point: {error.message}"
                rows.append(single.told(tensor, Verdict.UNCLEAR, reason))
                continue
            rows.append(_row_of(single, tensor, method, compared))
        if not single.row.trainable and any(weight.trainable for weight in single.row.weights):
            rows.append(single.told("weights", Verdict.SKIPPED, "frozen: there are no gradients"))
        return rows

    def _derivatives(self) -> Iterator[_Found]:
        lowered = self.probe.lowered
        for k, derivative in enumerate(lowered.derivatives.get(self.single.node.name, [])):
            made = None if derivative is None else self.probe.array(derivative)
            yield f"input {k}", "calc_derivative", lowered.inputs[k], made

    def _gradients(self) -> Iterator[_Found]:
        lowered = self.probe.lowered
        values = {weight.key: weight.value for weight in lowered.weights}
        for weight in self.single.row.weights:
            gradient, value = lowered.gradients.get(weight.key), values.get(weight.key)
            if gradient is None or value is None:
                continue
            made: Array = np.zeros(gradient.shape)
            if self.probe.written(gradient):
                made = self.probe.array(gradient)
            yield f"weight {weight.name}", "calc_gradient", value, made

    def _function(self, value: Value) -> Any:
        return lambda array: self.probe.value(value, array)


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
