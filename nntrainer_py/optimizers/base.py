"""The base class of optimizers: a record per weight, state as persistent values.

An optimizer declares its properties and its state, and emits one update operation per weight. The operation does, in
NNTrainer's order: gradient, times the clip scale, plus ``(regularizer + decay) * weight``, then its own rule.

A user's optimizer writes that rule in NumPy, in ``update``; a built-in one names a ``kind`` of the catalogue instead.
"""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import NDArray

from nntrainer_py.layers.context import Weight
from nntrainer_py.properties import Configurable, number
from nntrainer_py.tensor.operations.emitter import Emitter
from nntrainer_py.tensor.operations.record import Role, Value


class Optimizer(Configurable):
    """Base of every optimizer."""

    keyword: ClassVar[str] = ""
    #: names of the per-weight state tensors, each of the weight's shape, zeros at first
    state_names: ClassVar[tuple[str, ...]] = ()
    #: kind of the update operation; empty for a user's optimizer
    kind: ClassVar[str] = ""
    #: decoupled decay: the layer's weight_decay and bias_decay are not added to the gradient
    decoupled: ClassVar[bool] = False

    learning_rate = number(default=0.001, minimum=0.0, doc="Step size; a schedule replaces it.")

    def attributes(self) -> dict[str, Any]:
        """Attributes of the update operation, from the properties."""
        return {}

    def update(
        self, weight: NDArray[Any], gradient: NDArray[Any], state: dict[str, NDArray[Any]], rate: float, t: int
    ) -> None:
        """A user's rule: change ``weight`` and the tensors of ``state`` in place.

        ``gradient`` is complete: clipped, with regularizer and decay. ``t`` counts the updates done before, from 0.
        """
        raise NotImplementedError(f"{type(self).__name__}.update")

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
        kind = self.update_kind()
        if kind:
            emitter.run(kind, **operands, **state, **self.attributes())
        else:
            numbered = {f"state{i}": value for i, value in enumerate(state.values())}
            emitter.run("user_update", **operands, **numbered, function=self.update, names=self.states())
        return list(state.values())
