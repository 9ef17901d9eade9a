"""The base class of optimizers: a record per weight, state as persistent values.

An optimizer declares its properties and its state, and emits one update operation per weight. The operation does, in
NNTrainer's order: gradient, times the clip scale, plus ``(regularizer + decay) * weight``, then its own rule.
"""

from __future__ import annotations

from typing import Any, ClassVar

from nntrainer_py.layers.context import Weight
from nntrainer_py.properties import Configurable, number
from nntrainer_py.tensor.operations.emitter import Emitter
from nntrainer_py.tensor.operations.record import Role, Value


class Optimizer(Configurable):
    """Base of every optimizer."""

    keyword: ClassVar[str] = ""
    #: names of the per-weight state tensors, each of the weight's shape, zeros at first
    state_names: ClassVar[tuple[str, ...]] = ()
    #: kind of the update operation
    kind: ClassVar[str] = ""
    #: decoupled decay: the layer's weight_decay and bias_decay are not added to the gradient
    decoupled: ClassVar[bool] = False

    learning_rate = number(default=0.001, minimum=0.0, doc="Step size; a schedule replaces it.")

    def attributes(self) -> dict[str, Any]:
        """Attributes of the update operation, from the properties."""
        return {}

    def update_kind(self) -> str:
        """Kind of the update operation, for an optimizer where it depends on the properties."""
        return self.kind

    def states(self) -> tuple[str, ...]:
        """Names of the state tensors, for an optimizer where they depend on the properties."""
        return self.state_names

    def emit_update(self, emitter: Emitter, weight: Weight, gradient: Value, scale: Value | None) -> list[Value]:
        """Emit the update of one weight; returns the values of its state."""
        assert weight.value is not None
        state: dict[str, Any] = {
            name: Value(f"{weight.key}:{name}", weight.dim.shape, Role.OPTIMIZER) for name in self.states()
        }
        decay = weight.regularizer + (0.0 if self.decoupled or weight.decay <= 1e-8 else weight.decay)
        operands: dict[str, Any] = {"weight": weight.value, "gradient": gradient, "scale": scale, "decay": decay}
        emitter.run(self.update_kind(), **operands, **state, **self.attributes())
        return list(state.values())
