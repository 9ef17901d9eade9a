"""What the recurrent layers and their cells share: properties, weights, and the operations that they emit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from nntrainer_py.errors import counted
from nntrainer_py.layers.base import WeightLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter, Weight
from nntrainer_py.properties import boolean, enum, number, positive_int
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import Value
from nntrainer_py.tensor.operations.recurrent import FUNCTIONS
from nntrainer_py.tensor.rng import key_of

#: the words of ``hidden_state_activation`` and ``recurrent_activation``: their derivative is had from the output
GATE_FUNCTIONS = tuple(sorted(FUNCTIONS))


@dataclass(slots=True)
class RecurrentWeights:
    """The weights of one direction, in the order of their request."""

    ih: Weight
    hh: Weight
    bias_ih: Weight | None = None  # also the single bias_h
    bias_hh: Weight | None = None


@dataclass(slots=True)
class Pass:
    """One run over the sequence, in one direction: what its way back needs."""

    weights: RecurrentWeights
    x: Value
    reverse: bool
    initial: dict[str, Value]  # hidden0, cell0
    made: dict[str, Value] = field(default_factory=dict)  # by the operation: hidden and what it keeps

    @property
    def hidden(self) -> Value:
        return self.made["hidden"]


class RecurrentLayer(WeightLayer):
    """Base of rnn, lstm, gru and their cells."""

    #: the operation, its outputs in order, and those that its derivative reads
    operation: ClassVar[str] = ""
    gates: ClassVar[int] = 1
    makes: ClassVar[tuple[str, ...]] = ("hidden",)
    keeps: ClassVar[tuple[str, ...]] = ("hidden",)

    unit = positive_int(doc="Width of the hidden state.")
    hidden_state_activation = enum(GATE_FUNCTIONS, "tanh", doc="Function of the new state.")
    dropout_rate = number(
        0.0, minimum=0.0, maximum=1.0, aliases=("dropout",), doc="Share of the hidden state dropped in training."
    )
    integrate_bias = boolean(False, doc="One bias (bias_h) instead of two (bias_ih, bias_hh).")

    def request(self, ctx: FinalizeContext, features: int, prefix: str = "") -> RecurrentWeights:
        """Request the weights of one direction."""
        width = self.gates * self.unit
        made = RecurrentWeights(
            ctx.weight(f"{prefix}weight_ih", TensorDim(height=features, width=width)),
            ctx.weight(f"{prefix}weight_hh", TensorDim(height=self.unit, width=width)),
        )
        bias = TensorDim(width=width)
        if self.integrate_bias:
            made.bias_ih = ctx.bias(f"{prefix}bias_h", bias)
        else:
            made.bias_ih = ctx.bias(f"{prefix}bias_ih", bias)
            made.bias_hh = ctx.bias(f"{prefix}bias_hh", bias)
        return made

    def settings(self, ctx: LayerEmitter, reverse: bool) -> dict[str, Any]:
        """Attributes of the operation and of its derivative."""
        made: dict[str, Any] = {"activation": self.hidden_state_activation, "reverse": reverse}
        if ctx.training and self.dropout_rate > 1e-3:
            made |= {"rate": self.dropout_rate, "key": key_of(ctx.seed, ctx.emitter.layer)}
        return made

    def biases(self, ctx: LayerEmitter, weights: RecurrentWeights) -> tuple[Any, Any]:
        """What is added to the projection, and what to the recurrent product by the operation itself."""
        if weights.bias_hh is None:
            return weights.bias_ih, None
        return ctx.run("add_n", x0=weights.bias_ih, x1=weights.bias_hh), None

    def run_through(
        self,
        ctx: LayerEmitter,
        x: Value,
        weights: RecurrentWeights,
        *,
        reverse: bool = False,
        initial: dict[str, Value] | None = None,
    ) -> Pass:
        """Emit the projection and the recurrence over all steps of ``x``."""
        initial = initial or {}
        outer, inner = self.biases(ctx, weights)
        projection = ctx.run("matmul", a=x, b=weights.ih, bias=outer)
        made = ctx.run(
            self.operation, projection=projection, weight=weights.hh, bias=inner, **dict[str, Any](initial),
            **self.settings(ctx, reverse),
        )  # fmt: skip
        values = made if isinstance(made, tuple) else (made,)
        return Pass(weights, x, reverse, initial, dict(zip(self.makes, values, strict=True)))

    def run_back(self, ctx: LayerEmitter, run: Pass, g: Value | None, at: int = 0, gc: Value | None = None) -> Any:
        """Emit the way back; may be asked for twice. Returns its outputs by name.

        ``g`` is the derivative by the hidden states of all steps or of step ``at``, ``gc`` by the last cell state.
        """
        kept: dict[str, Any] = {name: run.made[name] for name in self.keeps}
        initial: dict[str, Any] = {"initial": True} if run.initial else {}
        made = ctx.run(
            f"{self.operation}_derivative", weight=run.weights.hh, g=g, gc=gc, at=at, **kept, **run.initial, **initial,
            **self.settings(ctx, run.reverse),
        )  # fmt: skip
        values = made if isinstance(made, tuple) else (made,)
        return dict(zip(self.back_makes(run), values, strict=True))

    def back_makes(self, run: Pass) -> list[str]:
        """Names of the derivative's outputs in order."""
        return ["out", "dhidden0"] if run.initial else ["out"]

    def emit_gradients(self, ctx: LayerEmitter, run: Pass, back: dict[str, Value]) -> None:
        """The gradients of one direction's weights from the derivatives by the gates."""
        weights, g = run.weights, back["out"]
        if ctx.wants_gradient(weights.ih):
            ctx.run("matmul_gradient", x=run.x, g=g, out=ctx.gradient(weights.ih))
        if ctx.wants_gradient(weights.hh):
            hidden, shift = run.initial.get("hidden0", run.hidden), -1 if run.reverse else 1
            ctx.run(
                "recurrent_gradient", hidden=hidden, g=g, shift=0 if run.initial else shift,
                out=ctx.gradient(weights.hh), **self.inner(run, back),
            )  # fmt: skip
        self.emit_bias_gradients(ctx, weights, back)

    def inner(self, run: Pass, back: dict[str, Value]) -> dict[str, Any]:
        """More operands of the recurrent gradient."""
        return {}

    def emit_bias_gradients(self, ctx: LayerEmitter, weights: RecurrentWeights, back: dict[str, Value]) -> None:
        """Both biases stand in the same sum, so that they have the same gradient."""
        wanted = [bias for bias in (weights.bias_ih, weights.bias_hh) if bias is not None and ctx.wants_gradient(bias)]
        if len(wanted) == 1:
            ctx.run("bias_gradient", g=back["out"], axis=3, out=ctx.gradient(wanted[0]))
        elif wanted:
            total = ctx.run("bias_gradient", g=back["out"], axis=3)
            for bias in wanted:
                ctx.run("accumulate", x=total, out=ctx.gradient(bias))

    def derivative_of_input(self, ctx: LayerEmitter, run: Pass, back: dict[str, Value]) -> Value:
        """The derivative by the sequence that was read."""
        made: Value = ctx.run("matmul", a=back["out"], b=run.weights.ih, transpose_b=True)
        return made


class Sequential(RecurrentLayer):
    """A recurrent layer over a whole sequence [N, 1, T, features]; the initial state is zero."""

    return_sequences = boolean(False, doc="Output the hidden state of every step instead of the last one only.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        if x.channel != 1:
            raise ValueError(
                f"input is {x}, a sequence has 1 channel, its steps in the height, its features in the width"
            )
        self.own = self.request(ctx, x.width)
        ctx.output(x.replace(height=x.height if self.return_sequences else 1, width=self.unit))

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        run = self.run_through(ctx, x, self.own)
        ctx.saved["run"] = run
        ctx.output(self.picked(ctx, run, x.shape[2] - 1))

    def picked(self, ctx: LayerEmitter, run: Pass, at: int) -> Value:
        """The hidden states that are handed on: all, or that of step ``at``."""
        if self.return_sequences or run.hidden.shape[2] == 1:
            return run.hidden
        made: Value = ctx.run("slice", x=run.hidden, axis=2, start=at, stop=at + 1)
        return made

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        run: Pass = ctx.saved["run"]
        self.emit_gradients(ctx, run, self.run_back(ctx, run, ctx.incoming[0], run.x.shape[2] - 1))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        run: Pass = ctx.saved["run"]
        back = self.run_back(ctx, run, ctx.incoming[0], run.x.shape[2] - 1)
        ctx.derivative(0, self.derivative_of_input(ctx, run, back))


class Cell(RecurrentLayer):
    """One step of a recurrent layer: inputs x and the states before it (none: zero), outputs the states after it."""

    #: the states among the inputs after x
    states: ClassVar[tuple[str, ...]] = ("hidden0",)

    def finalize(self, ctx: FinalizeContext) -> None:
        if len(ctx.inputs) not in (1, 1 + len(self.states)):
            names = ", ".join(("x", *(f"{name[:-1]} state" for name in self.states)))
            raise ValueError(f"{counted(len(ctx.inputs), 'input')}, a {self.keyword} takes {names}")
        x, *before = ctx.inputs
        if x.channel != 1 or x.height != 1:
            raise ValueError(f"input is {x}, a cell takes one step of 1 channel: 1:1:features")
        state = x.replace(width=self.unit)
        for name, given in zip(self.states, before, strict=False):  # none at all: the states are zero
            if given != state:
                raise ValueError(f"the {name[:-1]} state is {given}, it must be {state} for {self.unit} units")
        self.own = self.request(ctx, x.width)
        for _ in self.states:
            ctx.output(state)

    def forward(self, ctx: LayerEmitter) -> None:
        x, *before = ctx.inputs
        run = self.run_through(ctx, x, self.own, initial=dict(zip(self.states, before, strict=False)))
        ctx.saved["run"] = run
        ctx.output(*(run.made[name[:-1]] for name in self.states))

    def came_back(self, ctx: LayerEmitter) -> dict[str, Value]:
        """The way back from the derivatives by the states after the step."""
        g, *others = ctx.incoming
        made: dict[str, Value] = self.run_back(ctx, ctx.saved["run"], g, 0, *others)
        return made

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        self.emit_gradients(ctx, ctx.saved["run"], self.came_back(ctx))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        back = self.came_back(ctx)
        ctx.derivative(0, self.derivative_of_input(ctx, ctx.saved["run"], back))
        for index in range(1, len(ctx.inputs)):
            ctx.derivative(index, back[f"d{self.states[index - 1]}"])
