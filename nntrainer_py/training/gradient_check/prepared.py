"""One layer by itself, made to run: fed with what reaches it, and with what it gave on the way back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.graph.lower import LayerShape, Node
from nntrainer_py.tensor.operations.record import StepState, Value
from nntrainer_py.training.gradient_check.differences import Scales
from nntrainer_py.training.gradient_check.probe import Probe, alone
from nntrainer_py.training.gradient_check.report import TensorCheck, Verdict

Array = NDArray[Any]

#: of a float32, relative
ROUNDING = 2.0**-24
#: gradients of a loss that does not change at all are compared with this at least: it may be 0
_STILL = 1e-6
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


class Prepared:
    """A layer that runs: fed, with what it gave on the way back."""

    def __init__(self, single: Single, passes: bool, rng: np.random.Generator) -> None:
        self.single = single
        self.rng = rng
        self.passes = passes
        self.inputs = [self._moved(k, array) for k, array in enumerate(single.inputs)]
        self.probe = self.made(hostile=False)
        self.factors = [self._factors(value.shape) for value in self.probe.lowered.labels]
        if single.label is not None:
            self.factors[0] = single.label
        self._feed()
        self.steady = self.probe.repeatable()
        if self.steady:
            self.start()
            self.scales = self._scales()

    def _feed(self) -> None:
        self.probe.feed(self.probe.lowered.inputs, self.inputs)
        self.probe.feed(self.probe.lowered.labels, self.factors)

    def start(self) -> None:
        """Forward and back from where the layer stands; ``base`` is the number that is differentiated."""
        self._feed()
        self.base = self.probe.value()
        self.probe.back()

    def made(self, *, hostile: bool) -> Probe:
        single, row = self.single, self.single.row
        return Probe(
            alone(single.node, row.inputs, len(row.outputs), computed=hostile),
            row.inputs[0].batch if row.inputs else row.outputs[0].batch,
            single.weights,
            single.state,
            derivatives=self.passes,
            hostile=hostile,
            **single.options,
        )

    def numbers(self, probe: Probe) -> list[Array]:
        """All that the way back gave."""
        derivatives = probe.lowered.derivatives.get(self.single.node.name, [])
        made = [*derivatives, *probe.lowered.gradients.values()]
        return [probe.array(value) for value in made if value is not None and probe.written(value)]

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
            return loss_scales(self.base)
        terms = [
            factor.reshape(-1) * self.probe.array(value).reshape(-1).astype(np.float64)
            for factor, value in zip(self.factors[-len(self.probe.lowered.losses) :], self.outputs(), strict=True)
        ]
        natural = float(sum(np.sum(np.square(term)) for term in terms)) ** 0.5
        largest = max((float(np.max(np.abs(term), initial=0.0)) for term in terms), default=0.0)
        still = float(sum(np.sum(np.square(factor, dtype=np.float64)) for factor in self.factors)) ** 0.5
        return Scales(natural, ROUNDING * largest, still)

    def outputs(self) -> list[Value]:
        return self.probe.lowered.node_outputs[self.single.node.name]


def loss_scales(loss: float) -> Scales:
    """Of a loss, whose value tells all."""
    return Scales(abs(loss), ROUNDING * abs(loss), max(abs(loss), _STILL))
