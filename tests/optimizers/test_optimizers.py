"""Optimizers against float64 formulas over many steps, in place, through a whole model (users/reports.md U035)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reference import Interpreter

from nntrainer_py.errors import UsageError
from nntrainer_py.graph.lower import Lowered, Node, lower
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.losses.mse import MeanSquaredError
from nntrainer_py.memory.plan import plan
from nntrainer_py.optimizers.adagrad import Adagrad
from nntrainer_py.optimizers.adam import Adam
from nntrainer_py.optimizers.adamw import AdamW
from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.optimizers.lamb import Lamb
from nntrainer_py.optimizers.lion import Lion
from nntrainer_py.optimizers.rmsprop import RmsProp
from nntrainer_py.optimizers.sgd import Sgd
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.training.engine import Engine, persistent, transient

STEPS = 200
FEATURES, UNITS, BATCH = 6, 4, 8


class Plain:
    """The network of the tests, ``mean((x W + b - t)**2)`` with its optimizer, in float64 and a few lines.

    ``rule(w, g, state, t, rate)`` gives the new weight; ``state`` is a dictionary of its own for each weight.
    """

    def __init__(
        self, rule: Callable[..., Any], weights: list[np.ndarray], decays: tuple[float, float], limit: float
    ) -> None:
        self.rule, self.decays, self.limit = rule, decays, limit
        self.weights = [w.astype(np.float64) for w in weights]
        self.state: list[dict[str, Any]] = [{} for _ in weights]

    def step(self, x: np.ndarray, target: np.ndarray, t: int, rate: float) -> float:
        w, b = self.weights
        error = x @ w + b - target
        slope = 2 * error / error.size
        gradients = [x.T @ slope, slope.sum(0)]
        if self.limit:
            norm = np.sqrt(sum((g**2).sum() for g in gradients))
            gradients = [g * min(1.0, self.limit / (norm + 1e-6)) for g in gradients]
        for i, g in enumerate(gradients):
            g = g + self.decays[i] * self.weights[i]
            self.weights[i] = self.rule(self.weights[i], g, self.state[i], t, rate)
        return float((error**2).mean())


def sgd(w, g, s, t, rate):
    return w - rate * g


def heavy_ball(w, g, s, t, rate):
    s["v"] = 0.9 * s.get("v", 0) + g
    return w - rate * s["v"]


def nesterov(w, g, s, t, rate):
    s["v"] = 0.9 * s.get("v", 0) + g
    return w - rate * (g + 0.9 * s["v"])


def _moments(g, s, b1, b2):
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
    return s["m"], s["v"]


def adam(w, g, s, t, rate, b1=0.9, b2=0.999, epsilon=1e-7):
    m, v = _moments(g, s, b1, b2)
    return w - rate * np.sqrt(1 - b2 ** (t + 1)) / (1 - b1 ** (t + 1)) * m / (np.sqrt(v) + epsilon)


def adam_torch(w, g, s, t, rate, epsilon=1e-3):
    m, v = _moments(g, s, 0.9, 0.999)
    return w - rate * (m / (1 - 0.9 ** (t + 1))) / (np.sqrt(v / (1 - 0.999 ** (t + 1))) + epsilon)


def adamw(w, g, s, t, rate):
    return adam(w * (1 - rate * 0.3), g, s, t, rate, epsilon=1e-8)


def rmsprop(w, g, s, t, rate):
    s["v"] = 0.9 * s.get("v", 0) + 0.1 * g * g
    return w - rate * g / (np.sqrt(s["v"]) + 1e-7)


def adagrad(w, g, s, t, rate):
    s["v"] = s.get("v", 0) + g * g
    return w - rate * g / (np.sqrt(s["v"]) + 1e-7)


def lion(w, g, s, t, rate):
    m = s.get("m", np.zeros_like(w))
    s["m"] = 0.99 * m + 0.01 * g
    return w - rate * (np.sign(0.9 * m + 0.1 * g) + 0.3 * w)


def lamb(w, g, s, t, rate):
    m, v = _moments(g, s, 0.9, 0.999)
    r = (m / (1 - 0.9 ** (t + 1))) / (np.sqrt(v / (1 - 0.999 ** (t + 1))) + 1e-6) + 0.1 * w
    lengths = np.sqrt((w**2).sum()), np.sqrt((r**2).sum())
    return w - rate * (lengths[0] / lengths[1] if all(lengths) else 1.0) * r


RULES = {
    "sgd": (Sgd(), sgd, 0.05),
    "momentum": (Sgd(momentum=0.9), heavy_ball, 0.05),
    "nesterov": (Sgd(momentum=0.9, nesterov=True), nesterov, 0.05),
    "adam": (Adam(), adam, 0.02),
    "adam other betas": (
        Adam(beta1=0.8, beta2=0.9, epsilon=1e-3),
        lambda *a: adam(*a, b1=0.8, b2=0.9, epsilon=1e-3),
        0.02,
    ),
    "adam torch_ref": (Adam(torch_ref=True, epsilon=1e-3), adam_torch, 0.02),
    "adamw": (AdamW(weight_decay=0.3, torch_ref=True), adamw, 0.02),  # torch_ref has no effect
    "rmsprop": (RmsProp(), rmsprop, 0.002),
    "adagrad": (Adagrad(), adagrad, 0.1),
    "lion": (Lion(weight_decay=0.3), lion, 0.001),
    "lamb": (Lamb(weight_decay=0.1), lamb, 0.02),
}


def network(**properties: object) -> list[Node]:
    return [
        Node("in", Input(), [], [TensorDim(BATCH, 1, 1, FEATURES)]),
        Node("dense", FullyConnected(unit=UNITS, **properties), [(0, 0)]),
        Node("loss", MeanSquaredError(), [(1, 0)]),
    ]


def start(lowered: Lowered, in_place: bool = True) -> tuple[Engine, Any]:
    engine = Engine()
    external, pinned = transient(lowered)
    engine.store.ensure(persistent(lowered))
    made = plan(lowered.operations, external=external, pinned=pinned, in_place=in_place)
    return engine, engine.program(lowered, made)


def batches(steps: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(3)
    true = rng.standard_normal((FEATURES, UNITS))
    made = []
    for _ in range(steps):
        x = rng.standard_normal((BATCH, FEATURES)).astype(np.float32)
        made.append((x, (x @ true + 0.1 * rng.standard_normal((BATCH, UNITS))).astype(np.float32)))
    return made


OPTIONS = {
    "plain": ({}, (0.0, 0.0), 0.0),
    "decay": ({"weight_decay": 0.05, "bias_decay": 0.1}, (0.05, 0.1), 0.0),
    "l2": ({"weight_regularizer": "l2norm", "weight_regularizer_constant": 0.03}, (0.03, 0.0), 0.0),
    "clipped": ({"clip_grad_by_norm": 0.3, "weight_decay": 0.05}, (0.05, 0.0), 0.3),
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("rule", RULES)
def test_u035_many_steps_against_float64(rule: str, options: str) -> None:
    optimizer, formula, rate = RULES[rule]
    properties, decays, limit = OPTIONS[options]
    if optimizer.decoupled and "weight_decay" in properties:
        decays = (0.0, 0.0)  # adamw takes its own decay, not the layers'
    lowered = lower(network(**properties), batch=BATCH, training=True, optimizer=optimizer)
    engine, program = start(lowered)
    rng = np.random.default_rng(1)
    weights = [program.array(weight.value) for weight in lowered.weights]
    for array in weights:
        array[...] = rng.standard_normal(array.shape)
    plain = Plain(formula, [weights[0].reshape(FEATURES, UNITS), weights[1].reshape(UNITS)], decays, limit)
    engine.state.numbers[StepState.SAMPLES] = BATCH
    first = last = 0.0
    for t, (x, target) in enumerate(batches(STEPS)):
        now = rate / (1 + t / 100)
        engine.state.numbers[StepState.LEARNING_RATE] = now
        program.inputs[0][...] = x.reshape(program.inputs[0].shape)
        program.labels[0][...] = target.reshape(program.labels[0].shape)
        last = engine.step(program)
        regularizer = 0.5 * 0.03 * float((plain.weights[0] ** 2).sum()) if options == "l2" else 0.0
        expected = plain.step(x, target, t, now) + regularizer
        if rule != "lion":  # one sign that rounding turns moves a weight by two steps
            assert last == pytest.approx(expected, rel=2e-4, abs=1e-7)
        first = first or last
    assert last < first
    for ours, theirs in zip(weights, plain.weights, strict=True):
        tolerance = 4 * rate if rule == "lion" else 2e-5
        assert ours.reshape(theirs.shape) == pytest.approx(theirs, abs=tolerance)
    moved = [program.array(value) for value in lowered.optimizer_state]
    assert len(moved) == 2 * len(optimizer.states())
    assert all(np.any(array != 0) for array in moved)


def test_u035_the_regularizer_is_in_the_loss() -> None:
    lowered = lower(network(**OPTIONS["l2"][0]), batch=BATCH, training=True, optimizer=Sgd())
    engine, program = start(lowered)
    weights = program.array(lowered.weights[0].value)
    weights[...] = 2.0
    engine.state.numbers[StepState.SAMPLES] = BATCH
    program.inputs[0][...] = 0
    program.labels[0][...] = 0
    assert engine.forward(program) == pytest.approx(0.5 * 0.03 * 4.0 * FEATURES * UNITS, rel=1e-7)


@pytest.mark.parametrize("rule", RULES)
def test_u035_in_place_updates_give_the_same_bytes(rule: str) -> None:
    optimizer, _, rate = RULES[rule]
    results = []
    for in_place in (True, False):
        lowered = lower(network(), batch=BATCH, training=True, optimizer=optimizer)
        engine, program = start(lowered, in_place)
        engine.state.numbers[:2] = rate, BATCH
        program.array(lowered.weights[0].value)[...] = 0.5
        for x, target in batches(5):
            program.inputs[0][...] = x.reshape(program.inputs[0].shape)
            program.labels[0][...] = target.reshape(program.labels[0].shape)
            engine.step(program)
        values = [w.value for w in lowered.weights] + lowered.optimizer_state
        results.append([program.array(value).tobytes() for value in values])
    assert results[0] == results[1]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("size", [1, 37, 300_001])
def test_kernels_against_their_twins_on_one_and_two_threads(rule: str, size: int) -> None:
    from nntrainer_py.layers.context import Weight
    from nntrainer_py.memory.arena import Arena
    from nntrainer_py.tensor.operations.emitter import Emitter
    from nntrainer_py.tensor.operations.record import Role, Run, Value

    optimizer, _, rate = RULES[rule]
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal((4, size)).astype(np.float32)
    numbers[3] = np.abs(numbers[3])
    emitter, weight = Emitter(), Weight("w", TensorDim(width=size), "zeros", decay=0.01)
    weight.value = Value("w", weight.dim.shape, Role.WEIGHT)
    gradient = Value("g", weight.dim.shape, Role.GRADIENT)
    scale = Value("s", (1,), Role.SCALAR, "float64")
    optimizer.emit_update(emitter, weight, gradient, scale)
    (operation,) = emitter.operations
    state = StepState()
    state.numbers[:3], state.counters[0] = (rate, 1.0, 4.0), 7
    sources = {"weight": numbers[0], "gradient": numbers[1], "m": numbers[2], "v": numbers[3], "scale": np.array([0.5])}
    machine = Interpreter(state)
    results = []
    for threads in (1, 2):
        operands = operation.reads | operation.writes
        arrays = {name: sources[name].copy().reshape(value.shape) for name, value in operands.items()}
        scratch = Arena(operation.kind.scratch(operation, threads)).bytes
        function, arguments = operation.kind.bind(operation, arrays, Run(state, threads, scratch))
        function(*arguments)
        results.append(arrays)
    for name, value in (operation.reads | operation.writes).items():
        machine[value] = sources[name]
    machine.run([operation])
    for name, value in operation.writes.items():
        assert results[0][name].tobytes() == results[1][name].tobytes()
        expected = machine[value]
        if rule == "lion" and name == "weight":  # a sign that rounding turns
            off = np.abs(results[0][name] - expected) > 1e-5
            assert off.mean() < 1e-4
            continue
        assert results[0][name] == pytest.approx(expected, abs=2e-6 * max(1.0, float(np.abs(expected).max())))


def test_nan_gradients_reach_the_weight() -> None:
    for optimizer, _, _ in RULES.values():
        lowered = lower(network(), batch=BATCH, training=True, optimizer=optimizer)
        engine, program = start(lowered)
        engine.state.numbers[:2] = 0.1, BATCH
        program.inputs[0][...] = 1
        program.labels[0][...] = np.nan
        engine.forward(program)
        engine.backward(program)
        assert np.isnan(program.array(lowered.weights[0].value)).all()


def test_defaults() -> None:
    assert Sgd().learning_rate == 0.0001
    assert (Adam().learning_rate, Adam().epsilon, Adam().beta1, Adam().beta2) == (0.001, 1e-7, 0.9, 0.999)
    assert (AdamW().learning_rate, AdamW().epsilon, AdamW().weight_decay) == (0.001, 1e-8, 0.0)
    assert Lion().learning_rate == 0.0001


def test_bad_properties() -> None:
    for make in (
        lambda: Sgd(nesterov=True),
        lambda: Sgd(momentum=1.0),
        lambda: Adam(beta1=1.0),
        lambda: Adam(learning_rate=-1.0),
        lambda: AdamW(weight_decay=-0.1),
        lambda: Sgd(beta1=0.9),
    ):
        with pytest.raises(UsageError):
            make()


def test_an_optimizer_is_its_own_class() -> None:
    assert all(isinstance(optimizer, Optimizer) for optimizer, _, _ in RULES.values())


class SignedMomentum(Optimizer):
    """A user's optimizer, in NumPy."""

    keyword = "signed_momentum"
    state_names = ("velocity",)

    def update(self, weight, gradient, state, rate, t):
        state["velocity"] *= 0.5
        state["velocity"] += np.sign(gradient)
        weight -= rate / (1 + t) * state["velocity"]


@pytest.mark.parametrize("options", ["plain", "decay", "clipped"])
def test_an_optimizer_of_ones_own(options: str) -> None:
    properties, decays, limit = OPTIONS[options]
    lowered = lower(network(**properties), batch=BATCH, training=True, optimizer=SignedMomentum())
    engine, program = start(lowered)
    weights = [program.array(weight.value) for weight in lowered.weights]
    weights[0][...] = 0.5

    def rule(w, g, s, t, rate):
        s["v"] = 0.5 * s.get("v", 0) + np.sign(g)
        return w - rate / (1 + t) * s["v"]

    plain = Plain(rule, [weights[0].reshape(FEATURES, UNITS), weights[1].reshape(UNITS)], decays, limit)
    engine.state.numbers[:2] = 0.01, BATCH
    for t, (x, target) in enumerate(batches(20)):
        program.inputs[0][...] = x.reshape(program.inputs[0].shape)
        program.labels[0][...] = target.reshape(program.labels[0].shape)
        assert engine.step(program) == pytest.approx(plain.step(x, target, t, 0.01), rel=1e-5)
    assert {value.name for value in lowered.optimizer_state} == {"dense:weight:velocity", "dense:bias:velocity"}
