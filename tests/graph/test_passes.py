"""What the realizers write down, by whole wirings of small models."""

from __future__ import annotations

import pytest
from graph.models import IN, MODEL, SGD, dense, layer, messages, wiring

from nntrainer_py.errors import DescriptionError
from nntrainer_py.graph.description import load_text
from nntrainer_py.graph.passes import realize, with_properties
from nntrainer_py.graph.spec import ModelSpec
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input

PLAIN = "[Model]\nepochs = 1\n"
CROSS = "[Model]\nloss = cross\n"


def test_what_names_no_input_reads_the_layer_before_it() -> None:
    text = PLAIN + IN + dense("a") + dense("b", "in") + dense("c") + layer("d", "addition", input_layers="a,c")
    assert wiring(load_text(text)) == {
        "in": "input",
        "in/generated_out_0": "multiout in",
        "a": "fully_connected in/generated_out_0",
        "b": "fully_connected in/generated_out_0(1)",
        "c": "fully_connected b",
        "d": "addition a c",
    }


def test_a_layer_with_a_shape_of_its_own_is_an_input() -> None:
    text = PLAIN + IN + dense("a") + dense("b", input_shape="1:1:5") + layer("c", "addition", input_layers="a,b")
    assert wiring(load_text(text))["b"] == "fully_connected"


def test_the_first_layer_must_be_an_input() -> None:
    assert messages(PLAIN + dense("a") + dense("b")) == [
        "model.ini:3: [a] input_shape: the first layer must be an input: it needs input_shape"
    ]


def test_every_reader_of_an_output_gets_one_of_its_own() -> None:
    """Also one that reads it twice, and outputs of the same layer apart."""
    text = PLAIN + IN + layer("s", "split", axis=3) + layer("x", "addition", input_layers="s(1), s(1), s(2)")
    text += layer("y", "addition", input_layers="s(2), s(1)") + layer("z", "addition", input_layers="s, y, x")
    assert wiring(load_text(text)) == {
        "in": "input",
        "s": "split in",
        "s/generated_out_1": "multiout s(1)",
        "s/generated_out_2": "multiout s(2)",
        "x": "addition s/generated_out_1 s/generated_out_1(1) s/generated_out_2",
        "y": "addition s/generated_out_2(1) s/generated_out_1(2)",
        "z": "addition s y x",
    }


def test_an_output_may_dangle() -> None:
    text = MODEL + IN + layer("s", "split", axis=3) + dense("a", "s(0)") + dense("b", "s(2)")
    text += layer("c", "addition", input_layers="a,b")
    assert wiring(load_text(text))["c/loss"] == "mse c"
    assert not any("generated_out" in name for name in wiring(load_text(text)))


def test_activation_then_flatten_whatever_their_order_in_the_text() -> None:
    text = PLAIN + IN + dense("a", flatten="true", activation="relu") + dense("b", "a") + dense("c", "a")
    text += layer("d", "addition", input_layers="b,c")
    assert wiring(load_text(text)) == {
        "in": "input",
        "a": "fully_connected in",
        "a/activation_realized": "activation a",
        "a/flatten_realized": "flatten a/activation_realized",
        "a/generated_out_0": "multiout a/flatten_realized",
        "b": "fully_connected a/generated_out_0",
        "c": "fully_connected a/generated_out_0(1)",
        "d": "addition b c",
    }


def test_an_activation_layer_and_none_make_no_other() -> None:
    text = PLAIN + IN + dense("a", activation="none") + layer("b", "activation", activation="relu")
    assert wiring(load_text(text)) == {"in": "input", "a": "fully_connected in", "b": "activation a"}


def test_an_activation_key_needs_a_single_output() -> None:
    text = PLAIN + IN + layer("s", "split", axis=3, activation="relu") + dense("a", "s(1)") + dense("b", "s")
    (message,) = messages(text)
    assert "[a] input_layers: 's(1)' is read, but activation of 's' works on a single output" in message


@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])
def test_cross_takes_the_place_of_the_last_activation(activation: str) -> None:
    spec = load_text(CROSS + IN + dense("a", activation="relu") + dense("b", activation=activation))
    assert wiring(spec, training=True) == {
        "in": "input",
        "a": "fully_connected in",
        "a/activation_realized": "activation a",
        "b": "fully_connected a/activation_realized",
        "b/loss": f"cross_{activation} b",
    }
    assert wiring(spec, training=False)["b/activation_realized"] == "activation b"
    assert "b/loss" not in wiring(spec, training=False)
    section = load_text(CROSS + IN + dense("b") + layer("act", "activation", activation=activation))
    assert wiring(section)["act/loss"] == f"cross_{activation} b"


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (dense("out", activation="relu"), "relu"),
        (dense("out"), "a layer of type fully_connected"),
        (dense("out", activation="softmax", flatten="true"), "a layer of type flatten"),
        (layer("out", "activation", activation="tanh"), "tanh"),
    ],
)
def test_cross_needs_softmax_or_sigmoid(last: str, found: str) -> None:
    (message,) = messages(CROSS + IN + last)
    expected = f"cross needs softmax or sigmoid as the last activation, but 'out' ends with {found}"
    assert message == f"model.ini:2: [Model] loss: {expected}"


def test_a_loss_of_the_model_goes_behind_every_output_without_one() -> None:
    text = MODEL + IN + dense("a", "in") + dense("b", "in", activation="tanh") + dense("c", "in")
    text += layer("own", "mse", input_layers="a")
    made = wiring(load_text(text))
    assert {name: reads for name, reads in made.items() if "mse" in reads} == {
        "own": "mse a",
        "b/loss": "mse b/activation_realized",
        "c/loss": "mse c",
    }


def test_an_input_that_nobody_reads_gets_no_loss() -> None:
    text = MODEL + layer("lost", "input", input_shape="1:1:3") + IN + dense("a")
    assert messages(text) == [
        "model.ini:2: [Model] loss: no layer reads the input 'lost', so that nothing can be trained for it"
    ]


def test_clipping_of_the_model_reaches_every_layer_that_says_nothing() -> None:
    text = "[Model]\nclip_grad_by_norm = 2\n" + IN + dense("a") + dense("b", clip_grad_by_norm="0.5")
    spec = load_text(text)
    found = {made.name: made.layer.clip_grad_by_norm for made in realize(spec, True)}
    assert (found["a"], found["b"]) == (2.0, 0.5)
    assert spec.layer("a").layer.clip_grad_by_norm is None


def test_shared_weights_lead_to_their_owner() -> None:
    text = PLAIN + IN + dense("a", shared_from="a") + dense("b", shared_from="a") + dense("c", shared_from="b")
    found = {made.name: made.layer.shared_from for made in realize(load_text(text), True)}
    assert (found["a"], found["b"], found["c"]) == ("a", "a", "a")


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (dense("a") + dense("b", shared_from="aa"), "[b] shared_from: there is no layer 'aa'; did you mean 'a'?"),
        (dense("a", shared_from="in"), "[a] shared_from: 'in' is of type input, this layer fully_connected"),
        (dense("a", shared_from="b") + dense("b", shared_from="a"), "[a] shared_from: 'b': leads back to this layer"),
    ],
)
def test_shared_weights_that_cannot_be(layers: str, expected: str) -> None:
    assert any(expected in message for message in messages(PLAIN + IN + layers))


def test_a_name_that_a_pass_needs() -> None:
    text = MODEL + IN + dense("a", activation="relu") + dense("a/activation_realized")
    (message,) = messages(text)
    assert "the name 'a/activation_realized' is needed for a layer that is inserted" in message


def test_passes_leave_the_spec_as_it_is() -> None:
    text = CROSS + "clip_grad_by_norm = 1\n" + SGD + IN + dense("a", flatten="true") + dense("b", activation="softmax")
    spec = load_text(text)
    before = [(s.name, s.inputs, s.layer.texts()) for s in spec.layers]
    realize(spec, True)
    realize(spec, False)
    assert [(s.name, s.inputs, s.layer.texts()) for s in spec.layers] == before


def test_a_copy_with_other_properties() -> None:
    first = FullyConnected(unit=3)
    second = with_properties(first, unit=4, trainable=False)
    assert (first.unit, first.trainable, second.unit, second.trainable) == (3, True, 4, False)


def test_realize_raises_all_faults_of_a_pass() -> None:
    layers = [("a", FullyConnected(unit=2, input_layers="x")), ("b", Input(input_shape=(1, 1, 2), input_layers="y"))]
    with pytest.raises(DescriptionError) as caught:
        realize(ModelSpec.build(layers=layers), True)
    assert [str(fault) for fault in caught.value.faults] == [
        "[a] input_layers: there is no layer 'x'",
        "[b] input_layers: there is no layer 'y'",
    ]


def test_references_are_all_checked_before_anything_is_rewritten() -> None:
    text = PLAIN + dense("a") + dense("b", "x") + dense("c", "y", shared_from="z")
    assert messages(text) == [
        "model.ini:3: [a] input_shape: the first layer must be an input: it needs input_shape",
        "model.ini:9: [b] input_layers: there is no layer 'x'",
        "model.ini:13: [c] input_layers: there is no layer 'y'",
        "model.ini:14: [c] shared_from: there is no layer 'z'",
    ]
