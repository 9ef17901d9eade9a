"""Mistakes in a user's own code are told with its file and line, and are no bug of ours."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nntrainer_py import Layer, Model, UsageError, check_gradients
from nntrainer_py.errors import DescriptionError, NumericalError
from nntrainer_py.graph.spec import keyword_of
from nntrainer_py.layers.context import FinalizeContext, RunContext
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.losses.mse import MeanSquaredError
from nntrainer_py.optimizers.base import Optimizer
from nntrainer_py.optimizers.schedule import Schedule
from nntrainer_py.optimizers.sgd import Sgd

HERE = Path(__file__).name


class Good(Layer):
    """Doubles."""

    keyword = "test_mistakes"

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        self.scale = ctx.weight("scale", x.replace(batch=1), initializer="ones")
        ctx.output(x)

    def forward(self, ctx: RunContext) -> None:
        np.multiply(ctx.inputs[0], ctx.weights["scale"], out=ctx.outputs[0])

    def calc_gradient(self, ctx: RunContext) -> None:
        np.sum(ctx.incoming[0] * ctx.inputs[0], axis=0, keepdims=True, out=ctx.gradients["scale"])

    def calc_derivative(self, ctx: RunContext) -> None:
        np.multiply(ctx.incoming[0], ctx.weights["scale"], out=ctx.derivatives[0])


class WrongFinalize(Good):
    def finalize(self, ctx: FinalizeContext) -> None:
        ctx.output(ctx.inputs[3])


class WritesInputs(Good):
    def forward(self, ctx: RunContext) -> None:
        ctx.inputs[0][...] = 0


class WrongShape(Good):
    def forward(self, ctx: RunContext) -> None:
        np.sum(ctx.inputs[0], axis=0, out=ctx.outputs[0])


class WrongName(Good):
    def calc_gradient(self, ctx: RunContext) -> None:
        ctx.gradients["weight"][...] = 0


class NoDerivative(Good):
    def calc_derivative(self, ctx: RunContext) -> None:
        raise RuntimeError("not yet")


class WritesNothing(Good):
    def forward(self, ctx: RunContext) -> None:
        pass


class DerivesNothing(Good):
    def calc_derivative(self, ctx: RunContext) -> None:
        pass


class WritesNaN(Good):
    def forward(self, ctx: RunContext) -> None:
        ctx.outputs[0][...] = np.nan


class DerivesNaN(Good):
    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = np.nan


class WithoutWay(Layer):
    """Neither of the two backward methods."""

    keyword = "test_without_way"

    def finalize(self, ctx: FinalizeContext) -> None:
        ctx.weight("scale", ctx.inputs[0].replace(batch=1), initializer="ones")
        ctx.output(ctx.inputs[0])

    def forward(self, ctx: RunContext) -> None:
        np.multiply(ctx.inputs[0], ctx.weights["scale"], out=ctx.outputs[0])


class StateOnly(WithoutWay):
    def finalize(self, ctx: FinalizeContext) -> None:
        ctx.weight("scale", ctx.inputs[0].replace(batch=1), initializer="ones", trainable=False)
        ctx.output(ctx.inputs[0])


class WrongInitializer(Good):
    def finalize(self, ctx: FinalizeContext) -> None:
        ctx.weight("scale", ctx.inputs[0].replace(batch=1), initializer="onez")
        ctx.output(ctx.inputs[0])


class NoUpdate(Optimizer):
    keyword = "test_no_update"


def model(layer: Layer, optimizer: Optimizer | None = None) -> Model:
    layers = [
        ("in", Input(input_shape="1:1:4")),
        ("a", FullyConnected(unit=4)),
        ("mine", layer),
        ("loss", MeanSquaredError()),
    ]
    return Model.build(layers, optimizer=optimizer or Sgd(learning_rate=0.01))


def train(layer: Layer, optimizer: Optimizer | None = None) -> float:
    made = model(layer, optimizer).compile(2, threads=1)
    return made.train_on_batch(np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32))


def test_the_right_one_trains() -> None:
    assert np.isfinite(train(Good()))


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (WrongFinalize, "finalize: IndexError"),
        (WritesInputs, "[mine] forward: ValueError"),
        (WrongShape, "[mine] forward: ValueError"),
        (WrongName, "[mine] calc_gradient: KeyError"),
        (NoDerivative, "[mine] calc_derivative: RuntimeError: not yet"),
    ],
)
def test_an_exception_names_method_file_and_line(layer: type[Layer], words: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - DescriptionError or UsageError, both ours
        train(layer())
    assert caught.value.exit_code == 2  # type: ignore[attr-defined]
    assert words in str(caught.value)
    assert f"{HERE}:" in str(caught.value)


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        (WritesNothing, "forward: nothing was written to ctx.outputs[0]"),
        (DerivesNothing, "calc_derivative: nothing was written to ctx.derivatives[0]"),
    ],
)
def test_an_output_that_is_not_written_is_told(layer: type[Layer], words: str) -> None:
    with pytest.raises(UsageError, match="nothing was written") as caught:
        train(layer())
    assert words in str(caught.value)


def test_nan_that_is_written_is_no_missing_output() -> None:
    with pytest.raises(NumericalError, match="begins in the layer mine"):
        model(WritesNaN()).train(np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32), epochs=1)
    with pytest.raises(NumericalError, match=r"\[mine\] calc_derivative: ctx.derivatives\[0\] is NaN"):
        train(DerivesNaN())


def test_methods_that_are_needed_and_not_there_are_told_when_the_model_is_built() -> None:
    with pytest.raises(DescriptionError) as caught:
        train(WithoutWay())
    assert len(caught.value.faults) == 2
    first, second = map(str, caught.value.faults)
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "class WithoutWay" in text)
    for text, method in ((first, "calc_gradient"), (second, "calc_derivative")):
        assert text.startswith("[mine] test_without_way: ")
        assert f"{HERE}:{line}: the class WithoutWay has no {method}, which is needed" in text
    assert "scale would never change" in first
    assert "trainable=False" in first


def test_what_needs_no_way_back_trains_without_one() -> None:
    # behind the input nobody asks for a derivative, and state has no gradient
    layers = [("in", Input(input_shape="1:1:4")), ("mine", StateOnly()), ("a", FullyConnected(unit=4))]
    made = Model.build([*layers, ("loss", MeanSquaredError())], optimizer=Sgd(learning_rate=0.01)).compile(2, threads=1)
    assert np.isfinite(made.train_on_batch(np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32)))
    layers[1] = ("mine", WithoutWay(trainable=False))
    made = Model.build([*layers, ("loss", MeanSquaredError())], optimizer=Sgd(learning_rate=0.01)).compile(2, threads=1)
    assert np.isfinite(made.train_on_batch(np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32)))


def test_an_unknown_initializer_is_told_with_layer_file_and_line() -> None:
    with pytest.raises(DescriptionError, match=r"did you mean 'ones'") as caught:
        train(WrongInitializer())
    assert str(caught.value).startswith("[mine] test_mistakes: ")
    line = next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if 'initializer="onez"' in text)
    assert f"{HERE}:{line}: initializer" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "decorator"),
    [
        (Layer, 'register_layer("mine")'),
        (Optimizer, 'register_optimizer("mine")'),
        (Schedule, 'register_scheduler("mine")'),
    ],
)
def test_a_class_without_a_keyword_is_told_how_to_get_one(kind: type[Any], decorator: str) -> None:
    with pytest.raises(UsageError, match=rf"Mine has no keyword.*@{re.escape(decorator)} above the class"):
        keyword_of(type("Mine", (kind,), {})())
    with pytest.raises(UsageError, match=r'@register_loss\("mine"\)'):
        keyword_of(type("Mine", (Layer,), {"is_loss": True})())


def test_a_text_where_a_list_is_meant_is_one_item(tmp_path: Path) -> None:
    made = model(Good())
    report = check_gradients(made, layers="mine")
    assert {row.layer for row in report} == {"mine"}
    with pytest.raises(UsageError, match="there is no layer 'weighted'"):
        check_gradients(made, layers="weighted")
    ini = tmp_path / "model.ini"
    ini.write_text("[Model]\nepochs = 2\n[in]\ntype = input\ninput_shape = 1:1:4\n", encoding="utf-8")
    assert Model.from_ini(ini, overrides="model.epochs=5").spec.model.epochs == 5
    with pytest.raises(DescriptionError) as caught:
        Model.from_ini(ini, overrides="epochs")
    assert [fault.message for fault in caught.value.faults] == ["expected section.key=value, got 'epochs'"]


@pytest.mark.parametrize("given", ["model.ini", Path("model.ini"), Good, None])
def test_what_is_no_model_is_refused_in_words(given: Any) -> None:
    with pytest.raises(UsageError, match=r"^check_gradients: expected a model or a layer, got "):
        check_gradients(given)
    onnx = pytest.importorskip("nntrainer_py.formats.onnx")
    for function in (onnx.training_graph, onnx.evaluation_graph):
        with pytest.raises(UsageError, match=rf"^{function.__name__}: expected a model, got "):
            function(given)


def test_an_optimizer_without_update_is_told() -> None:
    with pytest.raises(UsageError):
        train(Good(), NoUpdate())
