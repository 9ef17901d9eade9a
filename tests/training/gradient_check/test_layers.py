"""Layers that are right pass the check; those with a mistake fail it, at the tensor, with the place of the method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from keyword_rows import INDICES, LAYER_ROWS

from nntrainer_py import Layer, UsageError, register_activation
from nntrainer_py.layers.activation import Activation
from nntrainer_py.layers.context import FinalizeContext, RunContext
from nntrainer_py.layers.functions import ACTIVATIONS
from nntrainer_py.layers.reshape import Reshape
from nntrainer_py.registry import LAYERS, LOSSES
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.tensor.operations.user_functions import USER_FUNCTIONS
from nntrainer_py.training.gradient_check import GradientReport, TensorCheck, Verdict, check_gradients

BATCH = 3
#: layers whose inputs must be positive
POSITIVE = {"sqrt", "pow", "divide", "tan"}
#: what no derivative can be told of, by keyword
NOTHING = {
    "centroid_knn", "input", "nearest_neighbours", "preprocess_flip", "preprocess_l2norm", "preprocess_translate",
}  # fmt: skip
WITHOUT_INPUTS = {"tensor", "weight"}


def built_in(keyword: str) -> tuple[Layer, list[np.ndarray[Any, Any]]]:
    shapes, properties = LAYER_ROWS[keyword]
    given = dict(line.split(" = ") for line in properties.splitlines())
    cls = LAYERS.load(keyword)
    layer = cls(**{key: cls.find_property(key).parse(text) for key, text in given.items()})
    random = np.random.default_rng(5)
    inputs = []
    for place, text in enumerate(shapes.split()):
        shape = (BATCH, *map(int, text.split(":")))
        values = random.normal(size=shape)
        if keyword in POSITIVE:
            values = random.uniform(0.4, 1.2, shape)
        if INDICES.get(keyword) == place:
            values = random.integers(0, 5, shape).astype(float)
        inputs.append(values.astype(np.float32))
    return layer, inputs


@pytest.mark.parametrize("keyword", sorted(set(LAYER_ROWS) - WITHOUT_INPUTS))
def test_built_in_layers_pass(keyword: str) -> None:
    layer, inputs = built_in(keyword)
    if keyword == "input":
        layer = type(layer)()
    report = check_gradients(layer, inputs)
    assert not report.failed, str(report)
    assert not report.of(Verdict.UNCLEAR), str(report)
    passed = report.of(Verdict.PASSED)
    if keyword in NOTHING:
        assert not passed
        assert report.rows[0].reason
    else:
        assert passed
        assert all(row.error is not None and row.error < 1e-3 for row in passed), str(report)


@pytest.mark.parametrize("word", sorted(set(ACTIVATIONS) - {"none"}))
def test_activations_pass(word: str) -> None:
    x = np.random.default_rng(1).normal(size=(3, 2, 3, 5)).astype(np.float32)
    report = check_gradients(Activation(activation=word), x)
    assert [row.verdict for row in report] == [Verdict.PASSED], str(report)


@pytest.mark.parametrize("word", LOSSES.words())
def test_losses_pass(word: str) -> None:
    random = np.random.default_rng(2)
    x = random.uniform(0.1, 0.9, (3, 1, 2, 4)).astype(np.float32)
    report = check_gradients(LOSSES.load(word)(), x)
    expected = Verdict.SKIPPED if word == "constant_derivative" else Verdict.PASSED
    assert [row.verdict for row in report] == [expected], str(report)


class Linear(Layer):
    """``y = x @ W * k + b`` in NumPy, right; those below break one thing each."""

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        ctx.weight("W", TensorDim(height=x.width, width=x.width))
        ctx.weight("k", TensorDim(width=x.width), "ones")
        ctx.weight("b", TensorDim(width=x.width), "zeros")
        ctx.output(x)

    def forward(self, ctx: RunContext) -> None:
        w = ctx.weights
        ctx.outputs[0][...] = ctx.inputs[0] @ w["W"][0, 0] * w["k"] + w["b"]

    def calc_gradient(self, ctx: RunContext) -> None:
        (x,), (g,), w = ctx.inputs, ctx.incoming, ctx.weights
        gk = (g * w["k"]).reshape(-1, g.shape[3])
        ctx.gradients["W"][0, 0] = x.reshape(-1, x.shape[3]).T @ gk
        ctx.gradients["k"][0, 0, 0] = (g * (x @ w["W"][0, 0])).sum(axis=(0, 1, 2))
        ctx.gradients["b"][0, 0, 0] = g.sum(axis=(0, 1, 2))

    def calc_derivative(self, ctx: RunContext) -> None:
        w = ctx.weights
        ctx.derivatives[0][...] = (ctx.incoming[0] * w["k"]) @ w["W"][0, 0].T


class WrongTransposition(Linear):
    def calc_derivative(self, ctx: RunContext) -> None:
        w = ctx.weights
        ctx.derivatives[0][...] = (ctx.incoming[0] * w["k"]) @ w["W"][0, 0]


class ForgottenFactor(Linear):
    """The factor is 1 at first: only another value shows that it is missing."""

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = ctx.incoming[0] @ ctx.weights["W"][0, 0].T


class ForgottenBatch(Linear):
    def calc_gradient(self, ctx: RunContext) -> None:
        super().calc_gradient(ctx)
        ctx.gradients["b"][0, 0, 0] = ctx.incoming[0][0].sum(axis=(0, 1))


class MeanForSum(Linear):
    def calc_gradient(self, ctx: RunContext) -> None:
        super().calc_gradient(ctx)
        ctx.gradients["W"] /= len(ctx.inputs[0])


class WrongTransposedGradient(Linear):
    def calc_gradient(self, ctx: RunContext) -> None:
        super().calc_gradient(ctx)
        ctx.gradients["W"][0, 0] = ctx.gradients["W"][0, 0].T.copy()


class OneElement(Linear):
    """One number of 64 is wrong."""

    def calc_derivative(self, ctx: RunContext) -> None:
        super().calc_derivative(ctx)
        ctx.derivatives[0][1, 0, 1, 2] *= 1.5


class HalfWritten(Linear):
    def calc_derivative(self, ctx: RunContext) -> None:
        w = ctx.weights
        ctx.derivatives[0][0] = (ctx.incoming[0][0] * w["k"]) @ w["W"][0, 0].T


class NoGradient(Linear):
    calc_gradient = Layer.calc_gradient


MISTAKES: list[tuple[type[Layer], set[str], str]] = [
    (WrongTransposition, {"input 0"}, "WrongTransposition.calc_derivative"),
    (ForgottenFactor, {"input 0"}, "ForgottenFactor.calc_derivative"),
    (ForgottenBatch, {"weight b"}, "ForgottenBatch.calc_gradient"),
    (MeanForSum, {"weight W"}, "MeanForSum.calc_gradient"),
    (WrongTransposedGradient, {"weight W"}, "WrongTransposedGradient.calc_gradient"),
    (OneElement, {"input 0"}, "OneElement.calc_derivative"),
    (HalfWritten, {"input 0"}, "HalfWritten.calc_derivative"),
    (NoGradient, {"weight W", "weight k", "weight b"}, "NoGradient, which has no calc_gradient"),
]


def data() -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).normal(size=(4, 1, 2, 8)).astype(np.float32)


def test_a_users_layer_passes() -> None:
    report = check_gradients(Linear(), data())
    assert report.ok
    assert [(row.tensor, row.verdict) for row in report] == [
        (tensor, Verdict.PASSED) for tensor in ("input 0", "weight W", "weight k", "weight b")
    ]
    assert all((row.error or 0.0) < 1e-4 for row in report)


@pytest.mark.parametrize(("cls", "tensors", "place"), MISTAKES, ids=[cls.__name__ for cls, _, _ in MISTAKES])
@pytest.mark.parametrize("seed", range(3))
def test_mistakes_are_found(cls: type[Layer], tensors: set[str], place: str, seed: int) -> None:
    report = check_gradients(cls(), data(), seed=seed)
    assert not report.ok
    assert {row.tensor for row in report.failed} == tensors, str(report)
    assert not report.of(Verdict.UNCLEAR)
    for row in report.failed:
        line = place_line(cls, place)
        assert row.place.endswith(f"{Path(__file__).name}:{line} in {place}"), row.place
        assert row.element is not None
        assert (row.error or 0.0) > 10 * (row.uncertainty or 0.0)


def place_line(cls: type[Layer], place: str) -> int:
    """The line of the method, or of the class where that has none."""
    method = place.rpartition(".")[2]
    found = vars(cls).get(method)
    if found is not None:
        return int(found.__code__.co_firstlineno)
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return lines.index(f"class {cls.__name__}(Linear):") + 1


def test_the_wrong_element_is_named_with_what_it_should_be() -> None:
    (row,) = check_gradients(OneElement(), data()).failed
    assert row.element is not None
    assert row.element.index == (1, 0, 1, 2)
    assert row.element.found == pytest.approx(1.5 * row.element.expected, rel=1e-3)
    (row,) = check_gradients(HalfWritten(), data()).failed
    assert row.element is not None
    assert row.element.index[0] == 1
    assert np.isnan(row.element.found)
    assert np.isfinite(row.element.expected)


class OneOfMany(Layer):
    """Of 6000 derivatives one is wrong: no element that is tried beforehand, but the search finds it."""

    def forward(self, ctx: RunContext) -> None:
        ctx.outputs[0][...] = np.tanh(ctx.inputs[0])

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = ctx.incoming[0] * (1 - ctx.outputs[0] ** 2)
        ctx.derivatives[0][2, 1, 3, 7] += 1.0


def test_one_of_many_is_found() -> None:
    x = np.random.default_rng(0).normal(size=(3, 2, 10, 100)).astype(np.float32)
    (row,) = check_gradients(OneOfMany(), x).failed
    assert row.element is not None
    assert row.element.index == (2, 1, 3, 7)
    assert row.element.found - row.element.expected == pytest.approx(1.0, abs=1e-2)


class Noisy(Layer):
    """Draws from a generator of its own that nobody can wind back."""

    def forward(self, ctx: RunContext) -> None:
        noise = np.random.default_rng().random(ctx.inputs[0].shape)
        ctx.outputs[0][...] = ctx.inputs[0] * (noise > 0.5)

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = ctx.incoming[0]


class Dropping(Layer):
    """Keeps its generator, its mask and a counter as attributes."""

    def finalize(self, ctx: FinalizeContext) -> None:
        self.random, self.calls = np.random.default_rng(4), 0
        super().finalize(ctx)

    def forward(self, ctx: RunContext) -> None:
        self.calls += 1
        self.mask = self.random.random(ctx.inputs[0].shape) > 0.5
        ctx.outputs[0][...] = ctx.inputs[0] * self.mask * (1 + self.calls)

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = ctx.incoming[0] * self.mask * (1 + self.calls)


class GlobalNoise(Layer):
    """Draws from NumPy's global generator."""

    def forward(self, ctx: RunContext) -> None:
        ctx.saved["mask"] = np.random.rand(*ctx.inputs[0].shape) > 0.5
        ctx.outputs[0][...] = ctx.inputs[0] * ctx.saved["mask"]

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = ctx.incoming[0] * ctx.saved["mask"]


def test_layers_that_draw_get_the_same_numbers_or_are_told() -> None:
    (row,) = check_gradients(Noisy(), data())
    assert row.verdict is Verdict.SKIPPED
    assert "something else each time" in row.reason
    before = np.random.get_state()[1].copy()  # type: ignore[union-attr, index]
    for cls in (Dropping, GlobalNoise):
        (row,) = check_gradients(cls(), data())
        assert row.verdict is Verdict.PASSED, str(row)
    assert (np.random.get_state()[1] == before).all()  # type: ignore[index]


class Kinked(Layer):
    """relu with any slope at 0."""

    def forward(self, ctx: RunContext) -> None:
        np.maximum(ctx.inputs[0], 0, out=ctx.outputs[0])

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = ctx.incoming[0] * (ctx.inputs[0] > 0)


def test_a_kink_is_no_mistake() -> None:
    x = np.random.default_rng(0).normal(size=(3, 1, 1, 400)).astype(np.float32)
    x[:, :, :, ::3] = 0.0
    for seed in range(5):
        (row,) = check_gradients(Kinked(), x[:, :, :, 1:2], seed=seed)
        assert row.verdict is Verdict.PASSED, str(row)
        (row,) = check_gradients(Kinked(), x, seed=seed)
        assert row.verdict is not Verdict.FAILED, str(row)
        assert "kink" in row.reason


class Index(Layer):
    """A table of its own, whose input are indices: no derivative by them."""

    supports_derivative = False

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        ctx.weight("table", TensorDim(height=6, width=4))
        ctx.output(x.replace(height=x.width, width=4))

    def forward(self, ctx: RunContext) -> None:
        ctx.outputs[0][:, 0] = ctx.weights["table"][0, 0][ctx.inputs[0][:, 0, 0].astype(int)]

    def calc_gradient(self, ctx: RunContext) -> None:
        np.add.at(ctx.gradients["table"][0, 0], ctx.inputs[0][:, 0, 0].astype(int), ctx.incoming[0][:, 0])


def test_no_derivative_and_wrong_inputs() -> None:
    x = np.array([[0, 5, 2], [1, 1, 5]], np.float32)
    report = check_gradients(Index(), x)
    assert [(row.tensor, row.verdict) for row in report] == [
        ("inputs", Verdict.SKIPPED),
        ("weight table", Verdict.PASSED),
    ]

    class Passing(Index):
        supports_derivative = True

    assert "no calc_derivative" in check_gradients(Passing(), x).rows[0].reason

    class Whole(Passing):
        def forward(self, ctx: RunContext) -> None:
            if (ctx.inputs[0] % 1).any():
                raise IndexError("no whole number")
            super().forward(ctx)

        def calc_derivative(self, ctx: RunContext) -> None:
            ctx.derivatives[0][...] = 0.0

    report = check_gradients(Whole(), x)
    assert [row.verdict for row in report] == [Verdict.UNCLEAR, Verdict.PASSED]
    assert "IndexError: no whole number" in report.rows[0].reason


class Falls(Linear):
    def calc_gradient(self, ctx: RunContext) -> None:
        ctx.gradients["U"][...] = 0.0


def test_an_error_in_a_method_is_a_row() -> None:
    (row,) = check_gradients(Falls(), data()).failed
    assert "KeyError" in row.reason
    assert f"{Path(__file__).name}:" in row.reason


def test_a_users_activation() -> None:
    def slope(x: Any) -> Any:
        return 2 * x + 0.1

    register_activation("squared_badly", np.square, slope)
    try:
        (row,) = check_gradients(Activation(activation="squared_badly"), data()).failed
        assert row.place.endswith(f":{slope.__code__.co_firstlineno} in the derivative of squared_badly")
        USER_FUNCTIONS["squared_badly"] = (np.square, lambda x: 2 * x)
        assert check_gradients(Activation(activation="squared_badly"), data()).ok
    finally:
        USER_FUNCTIONS.pop("squared_badly")


class Squares(Layer):
    """A loss; its mean is over the samples, which its derivative forgets."""

    is_loss = True
    keyword = "squares"

    def forward(self, ctx: RunContext) -> float:
        ctx.outputs[0][...] = ctx.inputs[0]
        return float(np.sum((ctx.inputs[0] - ctx.labels[0]) ** 2) / len(ctx.inputs[0]))

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = 2 * (ctx.inputs[0] - ctx.labels[0])


def test_a_users_loss() -> None:
    (row,) = check_gradients(Squares(), data()).failed
    assert row.tensor == "input 0"
    assert row.element is not None
    assert row.element.found == pytest.approx(4 * row.element.expected, rel=1e-2)

    class Right(Squares):
        def calc_derivative(self, ctx: RunContext) -> None:
            super().calc_derivative(ctx)
            ctx.derivatives[0][...] /= len(ctx.inputs[0])

    assert check_gradients(Right(), data(), y=np.zeros((4, 1, 2, 8))).ok


def test_a_layer_by_itself_needs_shapes() -> None:
    with pytest.raises(UsageError, match="input_shape"):
        check_gradients(Linear())
    report = check_gradients(Linear(input_shape="1:2:3"), samples=5)
    assert report.ok
    assert report.samples == 5
    with pytest.raises(UsageError, match="directions"):
        check_gradients(Linear(), data(), directions=1)
    with pytest.raises(UsageError, match="2 to 4 axes"):
        check_gradients(Linear(), np.zeros(3))
    assert check_gradients(Reshape(target_shape="1:1:4"), np.zeros((2, 2, 2))).ok


def test_the_same_seed_gives_the_same_report() -> None:
    def texts(report: GradientReport) -> list[str]:
        return [str(row) for row in report]

    assert texts(check_gradients(OneElement(), data(), seed=1)) == texts(check_gradients(OneElement(), data(), seed=1))
    row: TensorCheck = check_gradients(OneElement(), data()).rows[0]
    assert "element [1, 0, 1, 2]: expected" in str(row)


@pytest.mark.parametrize("factor", [1.01, 0.97, 1.3])
def test_small_factors_are_found(factor: float) -> None:
    class Slightly(Linear):
        def calc_derivative(self, ctx: RunContext) -> None:
            super().calc_derivative(ctx)
            ctx.derivatives[0][...] *= factor

    for seed in range(5):
        (row,) = check_gradients(Slightly(), data(), seed=seed).failed
        assert row.error == pytest.approx(abs(factor - 1) / max(factor, 1), rel=0.2)


class MissingTerm(Layer):
    """A layer normalization by hand whose derivative forgets that the mean moves, too."""

    def forward(self, ctx: RunContext) -> None:
        x = ctx.inputs[0]
        s = np.sqrt(x.var(axis=3, keepdims=True) + 1e-5)
        ctx.outputs[0][...] = (x - x.mean(axis=3, keepdims=True)) / s

    def calc_derivative(self, ctx: RunContext) -> None:
        x, g, y = ctx.inputs[0], ctx.incoming[0], ctx.outputs[0]
        s = np.sqrt(x.var(axis=3, keepdims=True) + 1e-5)
        ctx.derivatives[0][...] = (g - y * (g * y).mean(axis=3, keepdims=True)) / s


def test_a_missing_term_is_found() -> None:
    for seed in range(5):
        (row,) = check_gradients(MissingTerm(), data(), seed=seed).failed
        assert row.tensor == "input 0"


class WrongSlope(Layer):
    """Kinks everywhere, and a slope that is wrong on one side of them."""

    def forward(self, ctx: RunContext) -> None:
        x = ctx.inputs[0]
        ctx.outputs[0][...] = np.where(x > 0, x, 0.1 * x)

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = ctx.incoming[0] * np.where(ctx.inputs[0] > 0, 1.0, 0.2)


def test_a_wrong_slope_between_kinks_is_found() -> None:
    x = np.random.default_rng(0).normal(size=(3, 2, 10, 50)).astype(np.float32)
    for seed in range(5):
        (row,) = check_gradients(WrongSlope(), x, seed=seed).failed
        assert row.element is not None
        assert row.element.found == pytest.approx(2 * row.element.expected, rel=0.01)
