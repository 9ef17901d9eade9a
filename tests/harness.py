"""One harness for every layer: a new layer is a row of a table.

`check` builds inputs -> the layer -> a random weighted sum of its outputs as the loss, and tests

* the emitted way back, in float64 (tests/reference), against central differences of the loss, at 1e-6 of the largest;
* the compiled kernels against that float64 run, at 1e-5 of the largest value (outputs, gradients, derivatives, state);
* in-place on and off, memory reused or not, NaN-filled memory, 1 and 2 threads: the same bytes;
* inference; INI round trip of the properties.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from reference import Interpreter

from nntrainer_py.errors import Faults, Origin
from nntrainer_py.graph.lower import Lowered, Node, lower
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.context import LayerEmitter
from nntrainer_py.layers.input import Input
from nntrainer_py.losses.base import Loss
from nntrainer_py.memory.lifetimes import taken_in_place
from nntrainer_py.memory.plan import plan
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import KINDS, OperationKind, Role, Spec, StepState, Value, register
from nntrainer_py.training.engine import Engine, Program, persistent, transient

Arrays = dict[str, np.ndarray[Any, Any]]


class _Projection(OperationKind):
    """``sum(x * r)``: a loss whose derivative by ``x`` is ``r``."""

    name = "test_projection"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"loss": Spec((1,), "float64", Role.SCALAR)}

    def bind(self, operation: Any, arrays: Mapping[str, Any], run: Any) -> Any:
        def call(x: Any, r: Any, loss: Any) -> None:
            loss[0] = np.sum(x.astype(np.float64) * r)

        return call, (arrays["x"], arrays["r"], arrays["loss"])


class _ProjectionDerivative(OperationKind):
    name = "test_projection_derivative"

    def outputs(self, reads: Mapping[str, Value], attributes: Mapping[str, Any]) -> dict[str, Spec]:
        return {"out": Spec(reads["r"].shape)}

    def bind(self, operation: Any, arrays: Mapping[str, Any], run: Any) -> Any:
        return np.copyto, (arrays["out"], arrays["r"])


if "test_projection" not in KINDS:  # two copies of this module under importlib mode share the table
    register(_Projection())
    register(_ProjectionDerivative())


class Projection(Loss):
    """Loss of the harness: the label is the weighting."""

    keyword = "test_projection"

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        ctx.loss(ctx.run("test_projection", x=x, r=ctx.labels[0]))
        ctx.output(x)

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        ctx.derivative(0, ctx.run("test_projection_derivative", r=ctx.labels[0]))


@dataclass
class Case:
    """One row: a layer class, its properties, the shapes of its inputs (batch included)."""

    layer: Callable[[], Layer]
    inputs: Sequence[tuple[int, int, int, int]]
    id: str = ""
    outputs: int = 1
    #: makes input i; default: normal values
    fill: Callable[[int, tuple[int, ...], np.random.Generator], np.ndarray[Any, Any]] | None = None
    #: makes weight values by name; None: normal values scaled by 0.5
    weights: Callable[[str, tuple[int, ...], np.random.Generator], np.ndarray[Any, Any] | None] | None = None
    label: Callable[[tuple[int, ...], np.random.Generator], np.ndarray[Any, Any]] | None = None  # of a loss layer
    differentiable_inputs: Sequence[bool] | None = None  # False: indices and other inputs without a derivative
    in_place: bool = False  # the layer must be found to run in place
    inference: bool = True
    vanishing: Sequence[str] = ()  # arrays that are zero in exact arithmetic: judged beside the largest of all arrays
    numeric: bool = True  # compare the way back with central differences
    tolerance: float = 1e-5
    numeric_tolerance: float = 1e-6
    step: float = 1e-5
    steps: dict[str, int] = field(default_factory=dict)


def case_id(case: Case) -> str:
    """For ``pytest.mark.parametrize(ids=...)``."""
    return case.id or repr(case.layer())


def build(case: Case, *, training: bool = True) -> tuple[list[Node], Layer]:
    """Inputs, the layer, a projection per output."""
    layer = case.layer()
    nodes = [Node(f"in{i}", Input(), [], [TensorDim(*shape)]) for i, shape in enumerate(case.inputs)]
    nodes.append(Node("layer", layer, [(i, 0) for i in range(len(nodes))], outputs=case.outputs))
    if training and not layer.is_loss:
        position = len(nodes) - 1
        nodes += [Node(f"loss{k}", Projection(), [(position, k)]) for k in range(case.outputs)]
    return nodes, layer


class Feeds:
    """Inputs, labels and weights by name: the same numbers for every run of a case."""

    def __init__(self, case: Case, seed: int = 0) -> None:
        self.case = case
        self.rng = np.random.default_rng(seed)
        self.values: Arrays = {}

    def get(self, value: Value) -> np.ndarray[Any, Any]:
        if value.name not in self.values:
            self.values[value.name] = np.asarray(self._make(value), np.float32)
        return self.values[value.name]

    def _make(self, value: Value) -> Any:
        case, shape, rng = self.case, value.shape, self.rng
        if value.role is Role.INPUT and case.fill is not None:
            return case.fill(int(value.name.split(":")[0][2:]), shape, rng)
        if value.role is Role.LABEL and case.label is not None:
            return case.label(shape, rng)
        if value.role in (Role.WEIGHT, Role.STATE) and case.weights is not None:
            made = case.weights(value.name.split(":", 1)[1], shape, rng)
            if made is not None:
                return made
        if value.role is Role.STATE:
            return rng.random(shape) + 0.5
        return rng.standard_normal(shape) * (0.5 if value.role is Role.WEIGHT else 1.0)


def interpreted(
    lowered: Lowered, feeds: Feeds, overrides: Arrays | None = None, forward_only: bool = False
) -> Interpreter:
    """The float64 run."""
    machine = Interpreter()
    machine.state.numbers[StepState.SAMPLES] = lowered.batch
    for value in (*lowered.inputs, *lowered.labels, *(w.value for w in lowered.weights if w.value is not None)):
        machine[value] = (overrides or {}).get(value.name, feeds.get(value))
    operations = lowered.operations[: lowered.forward_end] if forward_only else lowered.operations
    machine.run(operations)
    return machine


def loss_of(lowered: Lowered, machine: Interpreter) -> float:
    return float(sum(machine[value].item() for value in lowered.losses))


def compiled(
    lowered: Lowered, feeds: Feeds, *, in_place: bool = True, reuse: bool = True, poison: bool = False, threads: int = 1
) -> tuple[Arrays, Program, float]:
    """The float32 run; everything that the test compares, copied out."""
    engine = Engine(threads=threads)
    external, pinned = transient(lowered)
    end = len(lowered.operations)
    for value in watched(lowered).values():
        pinned[value] = end
    made = plan(lowered.operations, external=external, pinned=pinned, in_place=in_place, reuse=reuse, threads=threads)
    engine.store.ensure(persistent(lowered))
    program = engine.program(lowered, made)
    if poison:
        engine.arena.fill_nan()
    engine.state.numbers[StepState.SAMPLES] = lowered.batch
    for value in (*lowered.inputs, *lowered.labels, *(w.value for w in lowered.weights if w.value is not None)):
        program.array(value)[...] = feeds.get(value)
    loss = engine.forward(program)
    if lowered.training:
        engine.backward(program)
    return {name: program.array(value).copy() for name, value in watched(lowered).items()}, program, loss


def watched(lowered: Lowered) -> dict[str, Value]:
    """Outputs, gradients, derivatives and state by a name that does not depend on the plan."""
    found: dict[str, Value] = {}
    for k, value in enumerate(lowered.node_outputs["layer"]):
        found[f"output {k}"] = value
    for name, value in lowered.gradients.items():
        if any(value in operation.writes.values() for operation in lowered.operations):
            found[f"gradient of {name}"] = value
    for i, derivative in enumerate(lowered.derivatives.get("layer", [])):
        if derivative is not None:
            found[f"derivative {i}"] = derivative
    for weight in lowered.weights:
        if not weight.trainable and weight.value is not None:
            found[f"state {weight.key}"] = weight.value
    return found


def close(
    name: str, actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], tolerance: float, least: float = 1e-3
) -> None:
    """Within ``tolerance`` of the largest value of the array, or of ``least`` where that is more."""
    largest = max(float(np.max(np.abs(expected), initial=0.0)), least)
    error = float(np.max(np.abs(np.asarray(actual, np.float64) - expected), initial=0.0))
    assert np.all(np.isfinite(actual)), f"{name}: not finite"
    assert error <= tolerance * largest, f"{name}: off by {error:.3g}, largest value {largest:.3g}"


def check(case: Case) -> None:
    """Every test of the harness for one row."""
    round_trip(case.layer())
    nodes, layer = build(case)
    differentiable = list(case.differentiable_inputs or [layer.supports_derivative] * len(case.inputs))
    lowered = lower(
        nodes, batch=case.inputs[0][0], training=True, input_derivatives=any(differentiable), keep_gradients=True
    )
    feeds = Feeds(case)
    machine = interpreted(lowered, feeds)
    if case.numeric:
        central_differences(case, lowered, feeds, machine, differentiable)
    results, program, loss = compiled(lowered, feeds, poison=True)
    of_all = max(float(np.max(np.abs(machine[value]), initial=0.0)) for value in watched(lowered).values())
    for name, value in watched(lowered).items():
        close(name, results[name], machine[value], case.tolerance, of_all if name in case.vanishing else 1e-3)
    close("loss", np.array([loss]), np.array([loss_of(lowered, machine)]), max(case.tolerance, 1e-5) * 10)
    same_bytes(lowered, feeds, results)
    if case.in_place:
        mine = {v.root for v in lowered.node_outputs["layer"]}
        assert mine & taken_in_place(program.plan.where) or all(v.base for v in lowered.node_outputs["layer"]), (
            "not in place"
        )
    if case.inference:
        inference(case, feeds)


def same_bytes(lowered: Lowered, feeds: Feeds, expected: Arrays) -> None:
    """No memory option and no number of threads changes a bit."""
    for options in ({"in_place": False}, {"reuse": False}, {"threads": 2}, {"in_place": False, "reuse": False}):
        results, _, _ = compiled(lowered, feeds, poison=True, **options)
        for name, array in results.items():
            assert array.tobytes() == expected[name].tobytes(), f"{name} differs with {options}"


def inference(case: Case, feeds: Feeds) -> None:
    """The inference plan against its float64 run."""
    nodes, _ = build(case, training=False)
    lowered = lower(nodes, batch=case.inputs[0][0], training=False)
    machine = interpreted(lowered, feeds)
    results, _, _ = compiled(lowered, feeds, poison=True)
    for name, value in watched(lowered).items():
        close(f"inference: {name}", results[name], machine[value], case.tolerance)


def central_differences(
    case: Case, lowered: Lowered, feeds: Feeds, machine: Interpreter, differentiable: Sequence[bool], most: int = 24
) -> None:
    """The emitted way back against numeric differences of the interpreted loss, at a sample of the elements."""
    pairs: list[tuple[str, Value, Value]] = []
    for weight in lowered.weights:
        if weight.key in lowered.gradients and weight.value is not None:
            pairs.append((f"gradient of {weight.key}", weight.value, lowered.gradients[weight.key]))
    for i, derivative in enumerate(lowered.derivatives.get("layer", [])):
        if derivative is not None and differentiable[i]:
            pairs.append((f"derivative {i}", lowered.inputs[i], derivative))
    expected_pairs = sum(differentiable) + sum(w.trainable for w in lowered.weights)
    assert len(pairs) == expected_pairs, f"{len(pairs)} gradients emitted, {expected_pairs} expected"
    rng = np.random.default_rng(1)
    for name, source, gradient in pairs:
        analytic = machine[gradient].reshape(-1)
        base = feeds.get(source).astype(np.float64)
        chosen = rng.permutation(base.size)[:most]
        largest = max(float(np.max(np.abs(analytic))), 1e-3)
        for element in chosen:
            numeric = _difference(lowered, feeds, source, base, int(element), case.step)
            error = abs(numeric - analytic[element])
            assert error <= case.numeric_tolerance * largest, (
                f"{name}[{element}]: emitted {analytic[element]:.9g}, numeric {numeric:.9g}"
            )


def _difference(lowered: Lowered, feeds: Feeds, source: Value, base: Any, element: int, step: float) -> float:
    """Fourth-order central difference."""
    total = 0.0
    for factor, offset in ((1, -2), (-8, -1), (8, 1), (-1, 2)):
        moved = base.copy().reshape(-1)
        moved[element] += offset * step * 10
        run = interpreted(lowered, feeds, {source.name: moved.reshape(base.shape)}, forward_only=True)
        total += factor * loss_of(lowered, run)
    return total / (12 * step * 10)


def round_trip(layer: Layer) -> None:
    """Properties to INI text and back."""
    faults = Faults()
    texts = layer.texts()
    again = type(layer).from_texts([(key, text, Origin()) for key, text in texts.items()], faults)
    assert again is not None, [str(fault) for fault in faults]
    assert again.texts() == texts
