"""What a layer sees: shapes while it is finalized, values while it is lowered, arrays while a user's layer runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.initializers import require_initializer
from nntrainer_py.tensor.operations.emitter import Emitter, Target
from nntrainer_py.tensor.operations.record import Fill, Phase, Role, Value

if TYPE_CHECKING:
    from nntrainer_py.layers.base import Layer


@dataclass(eq=False, slots=True)
class Weight:
    """A tensor that is saved with the model: trainable, or state such as running statistics."""

    name: str
    dim: TensorDim
    initializer: str
    trainable: bool = True  # has a gradient; state has none
    decay: float = 0.0
    regularizer: float = 0.0  # constant of the l2 regularizer
    clip: float = 0.0  # limit of the global norm, 0: off
    dtype: str = "float32"
    owner: str = ""  # name of the layer that first requested it
    value: Value | None = None

    @property
    def key(self) -> str:
        return f"{self.owner}:{self.name}"


@dataclass(slots=True)
class FinalizeContext:
    """Given to ``Layer.finalize``: input shapes in, output shapes and weights out."""

    layer: Layer
    inputs: tuple[TensorDim, ...]
    training: bool = True
    outputs_wanted: int = 1  # how many outputs have consumers, from the connections
    outputs: list[TensorDim] = field(default_factory=list)
    weights: list[Weight] = field(default_factory=list)
    shared: list[Weight] | None = None  # the weights of the layer that this one shares with

    def output(self, dim: TensorDim) -> None:
        """Declare the next output."""
        self.outputs.append(dim)

    def weight(
        self,
        name: str,
        dim: TensorDim,
        initializer: str | None = None,
        *,
        decay: float | None = None,
        regularizer: float | None = None,
        trainable: bool = True,
        dtype: str = "float32",
    ) -> Weight:
        """Request a trainable weight; what is not given comes from the layer's properties."""
        layer = self.layer
        if initializer is None:
            initializer = str(getattr(layer, "weight_initializer", "xavier_uniform"))
        require_initializer(initializer)
        if decay is None:
            decay = float(getattr(layer, "weight_decay", 0.0))
        if regularizer is None:
            l2 = str(getattr(layer, "weight_regularizer", "none")) == "l2norm"
            regularizer = float(getattr(layer, "weight_regularizer_constant", 1.0)) if l2 else 0.0
        clip = layer.clip_grad_by_norm or 0.0
        made = Weight(name, dim, initializer, trainable, decay, regularizer, float(clip), dtype)
        if self.shared is not None:
            position = len(self.weights)
            if position >= len(self.shared) or self.shared[position].dim != dim:
                other = self.shared[position].dim if position < len(self.shared) else "none"
                raise ValueError(f"shared_from: weight {name} is {dim} here and {other} there")
            made = self.shared[position]
        self.weights.append(made)
        return made

    def bias(self, name: str, dim: TensorDim) -> Weight | None:
        """Request a bias with the bias properties, or None when the layer has ``disable_bias``."""
        layer = self.layer
        if getattr(layer, "disable_bias", False):
            return None
        return self.weight(
            name,
            dim,
            str(getattr(layer, "bias_initializer", "zeros")),
            decay=float(getattr(layer, "bias_decay", 0.0)),
            regularizer=0.0,
        )

    def state(self, name: str, dim: TensorDim, initializer: str = "zeros", dtype: str = "float32") -> Weight:
        """Request state: saved, never touched by the optimizer."""
        return self.weight(name, dim, initializer, decay=0.0, regularizer=0.0, trainable=False, dtype=dtype)


class LayerEmitter:
    """Given to the three methods of a built-in layer: emits operations of the catalogue for this layer.

    ``inputs`` are the input values; ``outputs`` those that ``forward`` declared (empty before); ``incoming`` the
    derivatives of the loss by the outputs (None for an output that nobody uses) in the backward methods.
    """

    def __init__(
        self,
        emitter: Emitter,
        layer: Layer,
        inputs: Sequence[Value],
        *,
        training: bool,
        labels: Sequence[Value] = (),
        seed: int = 0,
        output_dims: Sequence[TensorDim] = (),
        convolution: str = "auto",
    ) -> None:
        self.convolution = convolution  # algorithm of convolutions: auto, direct, winograd2, winograd4
        self.output_dims = tuple(output_dims)  # as finalize declared them
        self.emitter = emitter
        self.layer = layer
        self.inputs: tuple[Value, ...] = tuple(inputs)
        self.outputs: list[Value] = []
        self.incoming: list[Value | None] = []
        self.labels: tuple[Value, ...] = tuple(labels)
        self.training = training
        self.seed = seed
        self.losses: list[Value] = []
        self.derivatives: dict[int, Value] = {}
        self.derivative_wanted: tuple[bool, ...] = ()
        self.targets: dict[str, Target] = {}
        self.saved: dict[str, Any] = {}  # values that forward leaves for the backward methods

    @property
    def batch(self) -> int:
        return self.inputs[0].shape[0]

    def run(self, kind: str, *, out: Target | Weight | Value | None = None, **operands: Any) -> Any:
        """Emit an operation; weights stand for their values (see Emitter.run)."""
        resolved = {name: _value(operand) for name, operand in operands.items()}
        target = out if isinstance(out, Target) else _value(out)
        return self.emitter.run(kind, out=target, **resolved)

    def run_after_loss(self, kind: str, **operands: Any) -> None:
        """Emit an operation that changes state: it runs once the loss of the batch is known to be finite.

        A batch that fails leaves the state as it was, so nothing has to be kept to put it back.
        """
        self.emitter.postpone(kind, **{name: _value(operand) for name, operand in operands.items()})

    def view(self, base: Value, shape: Sequence[int], offset: int = 0) -> Value:
        """The same elements under another shape."""
        return self.emitter.view(base, shape, offset)

    def constant(self, name: str, shape: Sequence[int], fill: Fill, dtype: str = "float32") -> Value:
        """A table, the same in every step, of a shape that does not depend on the batch.

        ``fill`` writes it into an array of that shape when memory is taken; lowering takes none. It compares equal with
        that of every other lowering (a function of a module, a frozen dataclass), so that all share one array.
        """
        return self.emitter.constant(f"{self.emitter.layer}/{name}", shape, fill, dtype)

    def output(self, *values: Value) -> None:
        """Declare the next outputs."""
        self.outputs.extend(values)

    def loss(self, value: Value) -> None:
        """Declare a scalar (float64, one element) that is part of the loss."""
        self.losses.append(value)

    def gradient(self, weight: Weight) -> Target:
        """Where the gradient of ``weight`` is collected."""
        return self.targets[weight.key]

    def wants_gradient(self, weight: Weight | None) -> bool:
        """The weight exists and is trained."""
        return weight is not None and weight.key in self.targets

    def derivative(self, index: int, value: Value | None) -> None:
        """Hand back the derivative of the loss by input ``index``; None: it is zero."""
        if value is not None:
            self.derivatives[index] = value

    def zeros(self, shape: Sequence[int], dtype: str = "float32") -> Value:
        """A value of zeros, for an output without incoming derivative where a layer needs an array."""
        value: Value = self.emitter.run("zeros", shape=tuple(shape), dtype=dtype)
        return value

    def sum(self, values: Sequence[Value | None]) -> Value | None:
        """The sum of those that are not None; None when there is none."""
        present = [value for value in values if value is not None]
        if not present:
            return None
        if len(present) == 1:
            return present[0]
        operands: dict[str, Any] = {f"x{i}": value for i, value in enumerate(present)}
        total: Value = self.emitter.run("add_n", **operands)
        return total


def _value(operand: Any) -> Any:
    return operand.value if isinstance(operand, Weight) else operand


@dataclass(slots=True)
class RunContext:
    """Given to the three methods of a user's layer: NumPy views, ``(batch, channel, height, width)``.

    ``inputs`` are read-only. ``forward`` writes ``outputs``; ``calc_gradient`` writes ``gradients[name]``;
    ``calc_derivative`` writes ``derivatives[i]`` from ``incoming``. ``training`` is False in inference.
    ``saved`` is for what ``forward`` leaves for the backward methods. The arrays themselves are views of memory that is
    soon used for other things, so only copies of them may be kept, there or as attributes.
    """

    inputs: tuple[NDArray[Any], ...]
    outputs: tuple[NDArray[Any], ...]
    weights: dict[str, NDArray[Any]]
    incoming: tuple[NDArray[Any], ...] = ()
    derivatives: tuple[NDArray[Any], ...] = ()
    gradients: dict[str, NDArray[Any]] = field(default_factory=dict)
    labels: tuple[NDArray[Any], ...] = ()
    training: bool = True
    saved: dict[str, Any] = field(default_factory=dict)


__all__ = ["FinalizeContext", "LayerEmitter", "Phase", "Role", "RunContext", "TensorDim", "Weight"]
