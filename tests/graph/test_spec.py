"""Models from Python objects: names, connections, faults; the same as from an INI."""

from __future__ import annotations

import pytest
from graph.models import GOOD, wiring

from nntrainer_py.errors import DescriptionError
from nntrainer_py.graph.description import load_text
from nntrainer_py.graph.names import Names
from nntrainer_py.graph.save import to_text
from nntrainer_py.graph.spec import LayerSpec, ModelSpec, keyword_of
from nntrainer_py.layers.base import Layer
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.registry import LAYERS, OPTIMIZERS


def test_python_and_ini_build_the_same() -> None:
    spec = ModelSpec.build(
        model={"loss": "mse", "batch_size": 4},
        optimizer=OPTIMIZERS.load("sgd")(learning_rate=0.1),
        layers=[("in", Input(input_shape=(1, 1, 3))), ("out", FullyConnected(unit=2))],
    )
    assert to_text(spec) == to_text(load_text(GOOD))
    assert wiring(spec) == wiring(load_text(GOOD))


def test_layers_without_a_name_are_called_after_their_keyword() -> None:
    layers = [Input(input_shape=3), FullyConnected(unit=2), ("fully_connected1", FullyConnected(unit=2))]
    assert [spec.name for spec in ModelSpec.build(layers=layers).layers] == [
        "input0",
        "fully_connected2",
        "fully_connected1",
    ]


def test_a_layer_with_a_name_of_its_own_and_a_layer_spec() -> None:
    named = FullyConnected(unit=2)
    named.name = "Mine"  # type: ignore[attr-defined]
    spec = ModelSpec.build(layers=[Input(input_shape=3), LayerSpec("x", FullyConnected(unit=3)), named])
    assert [layer.name for layer in spec.layers] == ["input0", "x", "mine"]


def test_faults_come_together() -> None:
    layers = [("a b", Input(input_shape=3)), ("x", FullyConnected(unit=2)), ("X", FullyConnected(unit=2)), "conv"]
    with pytest.raises(DescriptionError) as caught:
        ModelSpec.build(layers=layers, model={"epoch": 3}, optimizer="sdg")  # type: ignore[list-item]
    text = str(caught.value)
    assert "[Model] epoch: unknown property of Model; did you mean 'epochs'?" in text
    assert "[Optimizer] unknown optimizer 'sdg'; did you mean 'sgd'?" in text
    assert "[a b] expected a name" in text
    assert "[X] the name is used twice" in text
    assert "layer 4: expected a layer" in text
    assert len(caught.value.faults) == 5


def test_a_model_needs_a_layer() -> None:
    with pytest.raises(DescriptionError, match="at least one layer"):
        ModelSpec.build(layers=[])


def test_has_loss_and_lookup() -> None:
    spec = load_text(GOOD)
    assert spec.has_loss
    assert spec.layer("out").layer.keyword == "fully_connected"
    with pytest.raises(KeyError):
        spec.layer("nobody")
    assert not ModelSpec.build(layers=[Input(input_shape=3)]).has_loss


class _Plugin(Layer):
    """A user's layer without a keyword."""


def test_a_users_class_gets_its_keyword_when_it_is_registered() -> None:
    with pytest.raises(DescriptionError, match="_Plugin has no keyword"):
        ModelSpec.build(layers=[_Plugin()])
    LAYERS.register("my_plugin", _Plugin)
    try:
        assert keyword_of(_Plugin()) == "my_plugin"
        text = GOOD + "[mine]\ntype = My_Plugin\n"
        assert "[mine]\ntype = my_plugin\n" in to_text(load_text(text))
    finally:
        LAYERS.unregister("my_plugin")
        _Plugin.keyword = ""


def test_names_number_as_nntrainer_does() -> None:
    names = Names()
    assert [names.take(word) for word in ("a", "b", "a", "b", "a0", "c")] == ["a", "b", "a0", "b1", "a02", "c"]
    assert names.number("input") == "input3"
    assert "b1" in names
