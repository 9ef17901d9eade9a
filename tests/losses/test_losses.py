"""Every loss through the harness, with weights, class weights, smoothing and class numbers as labels."""

from __future__ import annotations

import numpy as np
import pytest
from harness import Case, Feeds, build, case_id, check, compiled, interpreted, loss_of
from scipy import special

from nntrainer_py.errors import UsageError
from nntrainer_py.graph.lower import Node, lower
from nntrainer_py.layers.input import Input
from nntrainer_py.losses.constant_derivative import ConstantDerivative
from nntrainer_py.losses.cosine_distance import CosineDistance
from nntrainer_py.losses.cross_sigmoid import CrossSigmoid
from nntrainer_py.losses.cross_softmax import CrossSoftmax
from nntrainer_py.losses.focal import Focal
from nntrainer_py.losses.hinge import Hinge
from nntrainer_py.losses.huber import Huber
from nntrainer_py.losses.kld import KullbackLeibler
from nntrainer_py.losses.mae import MeanAbsoluteError
from nntrainer_py.losses.mse import MeanSquaredError
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.record import StepState
from nntrainer_py.training.engine import Engine

Shape = tuple[int, ...]


def one_hot(shape: Shape, rng: np.random.Generator) -> np.ndarray:
    return np.eye(shape[-1])[rng.integers(0, shape[-1], shape[:-1])]


def soft(shape: Shape, rng: np.random.Generator) -> np.ndarray:
    made = rng.random(shape) + 0.05
    return made / made.sum(-1, keepdims=True)


def numbers_below(classes: int):
    return lambda shape, rng: rng.integers(0, classes, shape)


def bits(shape: Shape, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(0, 2, shape)


def signs(shape: Shape, rng: np.random.Generator) -> np.ndarray:
    return rng.choice([-1.0, 0.0, 1.0], shape)


def far_from_labels(shape: Shape, rng: np.random.Generator) -> np.ndarray:
    return rng.choice([-4.0, 4.0], shape) + rng.random(shape)


def probabilities(index: int, shape: Shape, rng: np.random.Generator) -> np.ndarray:
    return soft(shape, rng)


def off_margin(index: int, shape: Shape, rng: np.random.Generator) -> np.ndarray:
    x = rng.standard_normal(shape) * 2
    return np.where(np.abs(np.abs(x) - 1) < 0.01, 0.5, x)


SMALL, ROWS = [(3, 1, 1, 5)], [(2, 3, 2, 4)]
CLASS_WEIGHTS = (0.5, 1.0, 2.0, 0.0, 3.0)
CASES = [
    Case(lambda: MeanSquaredError(), SMALL, "mse"),
    Case(lambda: MeanSquaredError(weight=0.25), ROWS, "mse weighted"),
    Case(lambda: MeanSquaredError(), [(1, 1, 1, 1)], "mse one"),
    Case(lambda: MeanSquaredError(), [(65, 3, 32, 33)], "mse large", numeric=False),
    Case(lambda: MeanAbsoluteError(), ROWS, "mae", label=far_from_labels),
    Case(lambda: Huber(delta=1.5, weight=2.0), ROWS, "huber", label=far_from_labels),
    Case(lambda: Huber(delta=100.0), SMALL, "huber, all of it square"),
    Case(lambda: Hinge(), SMALL, "hinge", fill=off_margin, label=signs),
    Case(lambda: KullbackLeibler(), ROWS, "kld", fill=probabilities, label=soft),
    Case(lambda: KullbackLeibler(), SMALL, "kld one-hot", fill=probabilities, label=one_hot),
    Case(lambda: CosineDistance(weight=3.0), ROWS, "cosine_distance"),
    Case(lambda: CrossSoftmax(), SMALL, "cross_softmax one-hot", label=one_hot),
    Case(lambda: CrossSoftmax(weight=0.5), ROWS, "cross_softmax soft", label=soft),
    Case(lambda: CrossSoftmax(integer_labels=True), ROWS, "cross_softmax numbers", label=numbers_below(4)),
    Case(lambda: CrossSoftmax(label_smoothing=0.1), SMALL, "cross_softmax smooth", label=one_hot),
    Case(lambda: CrossSoftmax(class_weights=CLASS_WEIGHTS), SMALL, "cross_softmax weights", label=soft),
    Case(
        lambda: CrossSoftmax(class_weights=CLASS_WEIGHTS, label_smoothing=0.2, integer_labels=True),
        SMALL,
        "cross_softmax all",
        label=numbers_below(5),
    ),
    Case(
        lambda: CrossSoftmax(class_weights=CLASS_WEIGHTS, integer_labels=True),
        SMALL,
        "cross_softmax numbers and weights",
        label=numbers_below(5),
    ),
    Case(lambda: CrossSoftmax(), [(130, 1, 1, 1001)], "cross_softmax large", label=one_hot, numeric=False),
    Case(lambda: CrossSoftmax(), [(2, 1, 1, 1)], "cross_softmax one class", label=one_hot),
    Case(lambda: CrossSigmoid(), ROWS, "cross_sigmoid", label=bits),
    Case(lambda: CrossSigmoid(), [(4, 1, 1, 1)], "cross_sigmoid one output", label=bits),
    Case(lambda: CrossSigmoid(label_smoothing=0.1, weight=2.0), SMALL, "cross_sigmoid smooth", label=bits),
    Case(lambda: CrossSigmoid(class_weights=CLASS_WEIGHTS), SMALL, "cross_sigmoid weights", label=bits),
    Case(lambda: CrossSigmoid(integer_labels=True), SMALL, "cross_sigmoid numbers", label=numbers_below(5)),
    Case(lambda: Focal(), SMALL, "focal", label=one_hot),
    Case(lambda: Focal(gamma=0.5, class_weights=CLASS_WEIGHTS), SMALL, "focal weights", label=soft),
    Case(lambda: Focal(gamma=1.0, integer_labels=True), ROWS, "focal numbers", label=numbers_below(4)),
    Case(lambda: ConstantDerivative(weight=2.0), SMALL, "constant_derivative", numeric=False),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_loss(case: Case) -> None:
    check(case)


def lone(loss, x: np.ndarray, t: np.ndarray, samples: float | None = None, scale: float = 1.0):
    """Loss value, output and derivative of one loss layer on given arrays."""
    case = Case(lambda: loss, [x.shape], fill=lambda *_: x, label=lambda *_: t)
    nodes, _ = build(case)
    lowered = lower(nodes, batch=len(x), training=True, input_derivatives=True, keep_gradients=True)
    feeds = Feeds(case)
    engine_state = (len(x) if samples is None else samples, scale)
    return lowered, feeds, engine_state


def run_lone(loss, x, t, samples=None, scale=1.0):
    from nntrainer_py.memory.plan import plan
    from nntrainer_py.training.engine import transient

    lowered, feeds, (count, factor) = lone(loss, np.asarray(x, np.float32), np.asarray(t, np.float32), samples, scale)
    external, pinned = transient(lowered)
    pinned.update(
        {v: len(lowered.operations) for v in (lowered.derivatives["layer"][0], *lowered.node_outputs["layer"])}
    )
    engine = Engine()
    program = engine.program(lowered, plan(lowered.operations, external=external, pinned=pinned))
    program.inputs[0][...] = feeds.get(lowered.inputs[0])
    program.labels[0][...] = feeds.get(lowered.labels[0])
    engine.state.numbers[StepState.SAMPLES], engine.state.numbers[StepState.LOSS_SCALE] = count, factor
    loss_value = engine.forward(program)
    engine.backward(program)
    return loss_value, program.array(lowered.derivatives["layer"][0]).copy(), engine


def rows(*values: float) -> np.ndarray:
    return np.array(values, np.float32).reshape(len(values), 1, 1, 1)


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        # values worked out by hand for y = (1, 3), t = (2, 1)
        (MeanSquaredError(), 2.5),
        (MeanAbsoluteError(), 1.5),
        (Huber(), 1.0),
        (Huber(delta=0.5), 0.625),
        (ConstantDerivative(), 1.0),
    ],
)
def test_values_by_hand(loss, expected: float) -> None:
    value, _, _ = run_lone(loss, rows(1, 3), rows(2, 1))
    assert value == pytest.approx(expected, rel=1e-12)


def test_hinge_by_hand() -> None:
    value, derivative, _ = run_lone(Hinge(), rows(0.5, 2.0, -0.5), rows(1, 1, 0))
    assert value == pytest.approx((0.5 + 0 + 0.5) / 3)
    assert derivative.reshape(-1) == pytest.approx([-1 / 3, 0, 1 / 3])


@pytest.mark.parametrize(
    "loss", [MeanSquaredError(), CrossSoftmax(), CrossSigmoid(), CosineDistance(), MeanAbsoluteError()]
)
def test_the_loss_scale_multiplies_the_derivative_only(loss) -> None:
    rng = np.random.default_rng(0)
    x, t = rng.standard_normal((3, 1, 2, 4)), one_hot((3, 1, 2, 4), rng)
    value, derivative, _ = run_lone(loss, x, t)
    scaled_value, scaled, _ = run_lone(type(loss)(), x, t, scale=1024.0)
    assert scaled_value == value
    assert np.array_equal(scaled, derivative * 1024)


@pytest.mark.parametrize("loss", [MeanSquaredError, CrossSoftmax, CrossSigmoid, CosineDistance, Focal])
def test_a_mean_is_over_the_logical_batch(loss) -> None:
    """With 8 samples in the logical batch the losses of its two halves add up to the whole."""
    rng = np.random.default_rng(0)
    x, t = rng.standard_normal((8, 1, 1, 4)), one_hot((8, 1, 1, 4), rng)
    whole, derivative, _ = run_lone(loss(), x, t)
    first, upper, _ = run_lone(loss(), x[:5], t[:5], samples=8)
    second, lower_part, _ = run_lone(loss(), x[5:], t[5:], samples=8)
    assert first + second == pytest.approx(whole, rel=1e-14)
    assert np.array_equal(np.concatenate([upper, lower_part]), derivative)


def test_extreme_logits() -> None:
    x = np.array([[1e4, -1e4, 0], [3e38, 0, -3e38], [-np.inf, 0, 0]], np.float32).reshape(3, 1, 1, 3)
    t = np.eye(3)[[0, 0, 1]].reshape(3, 1, 1, 3)
    value, derivative, _ = run_lone(CrossSoftmax(), x, t)
    assert value == pytest.approx(np.log(2) / 3)
    assert np.all(np.isfinite(derivative))
    wrong, _, _ = run_lone(CrossSoftmax(), x[:1], t[2:])
    assert wrong == 2e4  # a logarithm of the probability, which is 0 in float32, would be infinite
    value, derivative, _ = run_lone(CrossSigmoid(), rows(1e4, -1e4, 200), rows(1, 0, 0))
    assert value == pytest.approx(200 / 3)
    assert derivative.reshape(-1) == pytest.approx([0, 0, 1 / 3])


def test_several_losses_add_up() -> None:
    nodes = [
        Node("a", Input(), [], [TensorDim(2, 1, 1, 3)]),
        Node("mse", MeanSquaredError(weight=0.5), [(0, 0)]),
        Node("mae", MeanAbsoluteError(weight=2.0), [(0, 0)]),
        Node("cross", CrossSoftmax(integer_labels=True), [(0, 0)]),
    ]
    nodes[0].outputs = 1
    lowered = lower(nodes, batch=2, training=True, input_derivatives=True, keep_gradients=True)
    assert [label.shape for label in lowered.labels] == [(2, 1, 1, 3), (2, 1, 1, 3), (2, 1, 1, 1)]
    case = Case(lambda: MeanSquaredError(), [(2, 1, 1, 3)], label=lambda shape, rng: rng.integers(0, 3, shape))
    machine = interpreted(lowered, Feeds(case))
    x = machine[lowered.inputs[0]].reshape(2, 3)
    a, b, k = (machine[label].reshape(2, -1) for label in lowered.labels)
    log_p = special.log_softmax(x, axis=1)
    cross = -log_p[[0, 1], k[:, 0].astype(int)].mean()
    assert loss_of(lowered, machine) == pytest.approx(0.5 * ((x - a) ** 2).mean() + 2 * np.abs(x - b).mean() + cross)


def test_inference_without_labels_gives_probabilities() -> None:
    for loss, function in (
        (CrossSoftmax(), special.softmax),
        (Focal(), special.softmax),
        (CrossSigmoid(), special.expit),
    ):
        case = Case(lambda loss=loss: loss, [(2, 1, 2, 3)])
        nodes, _ = build(case, training=False)
        lowered = lower(nodes, batch=2, training=False, labels=False)
        feeds = Feeds(case)
        results, _, _ = compiled(lowered, feeds)
        x = feeds.get(lowered.inputs[0]).astype(np.float64)
        expected = function(x, axis=-1) if function is special.softmax else function(x)
        assert results["output 0"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("size", [1e-5, 1.0, 1e13, 1e19, 1e22, 1e30])
def test_cosine_distance_of_rows_of_any_length(size: float) -> None:
    """Each element of the derivative beside the largest of its row: float64, the formula as it stands."""
    rng = np.random.default_rng(4)
    x, t = (rng.standard_normal((3, 1, 1, 5)) * size).astype(np.float32), rng.standard_normal((3, 1, 1, 5))
    t = t.astype(np.float32)
    value, derivative, _ = run_lone(CosineDistance(), x, t)
    y, label = x.astype(np.float64), t.astype(np.float64)
    length, of_label = (np.linalg.norm(a, axis=-1, keepdims=True) for a in (y, label))
    cosine = (y * label).sum(-1, keepdims=True) / (length * of_label)
    expected = (cosine * y / length - label / of_label) / length / 3
    assert value == pytest.approx(float((1.0 - cosine).mean()), rel=1e-12)
    assert (np.abs(derivative - expected) <= 1e-6 * np.abs(expected).max(-1, keepdims=True)).all()


def test_class_weights_must_fit() -> None:
    nodes, _ = build(Case(lambda: CrossSoftmax(class_weights=(1.0, 2.0)), [(2, 1, 1, 3)]))
    with pytest.raises(Exception, match=r"class_weights.*expected 3 numbers, one per class, got 2"):
        lower(nodes, batch=2, training=True)


def test_bad_properties() -> None:
    for make in (
        lambda: Huber(delta=0.0),
        lambda: CrossSoftmax(label_smoothing=1.0),
        lambda: MeanSquaredError(weight=-1),
    ):
        with pytest.raises(UsageError):
            make()
