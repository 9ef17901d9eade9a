"""The canonical order: chains, branches, several inputs and labels, cycles; recorded orders where they are shared."""

from __future__ import annotations

import json

import pytest
from graph.models import IN, MODEL, dense, layer
from shared import shared_path

from nntrainer_py.errors import DescriptionError
from nntrainer_py.graph.description import load_ini, load_text
from nntrainer_py.graph.order import arrange, nodes, sort
from nntrainer_py.graph.spec import LayerSpec
from nntrainer_py.layers.input import Input
from nntrainer_py.properties import Connection
from nntrainer_py.registry import LAYERS, LOSSES


def names(text: str, training: bool = False) -> list[str]:
    return [node.name for node in nodes(load_text(text), training)]


def edges(**reads: str) -> list[LayerSpec]:
    return [
        LayerSpec(name, Input(), tuple(Connection(producer) for producer in producers.split()))
        for name, producers in reads.items()
    ]


def ordered(**reads: str) -> str:
    return " ".join(spec.name for spec in sort(edges(**reads)))


def test_a_chain_keeps_its_order() -> None:
    assert ordered(a="", b="a", c="b", d="c") == "a b c d"


def test_independent_roots_come_in_reverse() -> None:
    assert ordered(i0="", i1="", i2="", join="i0 i1 i2") == "i2 i1 i0 join"


def test_the_branch_declared_last_runs_first() -> None:
    assert ordered(a="", m="a", b1="m", b2="b1", c1="m", c2="c1", join="b2 c2") == "a m c1 c2 b1 b2 join"


def test_a_layer_may_stand_before_what_it_reads() -> None:
    assert ordered(c="b", b="a", a="") == "a b c"


def test_order_of_a_graph_against_the_definition() -> None:
    """The definition of the order, written as a recursion, on a net with skips, several roots and outputs."""
    reads = {"a": "", "x": "", "b": "a", "c": "a x", "d": "b c", "e": "d a", "y": "", "f": "y d", "g": "x"}
    readers = {name: [other for other, inputs in reads.items() if name in inputs.split()] for name in reads}
    pushed: list[str] = []

    def visit(name: str) -> None:
        for reader in readers[name]:
            if reader not in pushed:
                visit(reader)
        pushed.append(name)

    for name in reads:
        if name not in pushed:
            visit(name)
    assert ordered(**reads) == " ".join(reversed(pushed))


def test_a_deep_chain_needs_no_deep_stack() -> None:
    reads = {"n0": ""} | {f"n{i}": f"n{i - 1}" for i in range(1, 5000)}
    assert ordered(**reads) == " ".join(reads)


@pytest.mark.parametrize(
    ("reads", "ring"),
    [
        ({"a": "a"}, "a -> a"),
        ({"a": "c", "b": "a", "c": "b"}, "a -> b -> c -> a"),
        ({"r": "", "a": "r c", "b": "a", "c": "b"}, "a -> b -> c -> a"),
    ],
)
def test_a_cycle_is_named(reads: dict[str, str], ring: str) -> None:
    with pytest.raises(DescriptionError, match=f"in a circle: {ring}$"):
        sort(edges(**reads))


def test_a_cycle_in_a_file_has_its_line() -> None:
    text = "[Model]\nepochs = 1\n" + IN + dense("a", "b") + dense("b", "a")
    lines = text.splitlines()
    a, b = lines.index("[a]") + 1, lines.index("[b]") + 1
    key = next(number for number, line in enumerate(lines, 1) if number > a and line.startswith("input_layers"))
    with pytest.raises(DescriptionError) as caught:
        load_text(text, name="model.ini")
    assert str(caught.value) == (
        f"model.ini:{key}: [a] input_layers: layers read each other in a circle: "
        f"a (line {a}) -> b (line {b}) -> a (line {a})"
    )


def test_a_cycle_of_all_that_follows_is_no_matter_of_the_loss() -> None:
    # nobody is left for the loss to stand behind; that follows from the circle and is not told
    text = "[Model]\nloss = mse\n[Optimizer]\ntype = sgd\nlearning_rate = 0.1\n" + IN
    text += layer("one", "fully_connected", unit=2, input_layers="three") + layer("two", "fully_connected", unit=2)
    text += layer("three", "fully_connected", unit=2, activation="relu")
    lines = text.splitlines()
    one, two, three = (lines.index(f"[{name}]") + 1 for name in ("one", "two", "three"))
    key = lines.index("input_layers = three") + 1
    with pytest.raises(DescriptionError) as caught:
        load_text(text, name="model.ini")
    circle = f"one (line {one}) -> two (line {two}) -> three (line {three}) -> one (line {one})"
    faults = list(map(str, caught.value.faults))
    assert f"model.ini:{key}: [one] input_layers: layers read each other in a circle: {circle}" in faults
    assert not any("loss" in fault for fault in faults)


INPUTS = "".join(layer(name, "input", input_shape="1:1:2") for name in ("b", "a", "c"))
JOIN = layer("join", "concat", input_layers="b,a,c", axis=3)


def test_inputs_are_fed_in_canonical_order_unless_said_otherwise() -> None:
    graph = arrange(load_text("[Model]\nepochs = 1\n" + INPUTS + JOIN), training=False)
    assert graph.inputs == ("c", "a", "b")
    assert graph.input_order == (0, 1, 2)


def test_input_layers_of_the_model_fix_the_order() -> None:
    """U037: names are not sorted, and an order that is given is kept."""
    graph = arrange(load_text("[Model]\ninput_layers = b, a, c\n" + INPUTS + JOIN), training=False)
    assert graph.inputs == ("b", "a", "c")
    assert [node.name for node in graph.nodes] == ["c", "a", "b", "join"]
    assert graph.input_order == (2, 1, 0)
    own = [node.name for node in graph.nodes if not node.inputs]
    assert [own[place] for place in graph.input_order] == ["b", "a", "c"]


def test_label_layers_of_the_model_fix_the_order() -> None:
    """U037 for losses: by the name of the loss, or of the layer that got it."""
    heads = IN + dense("one", "in") + dense("two", "in")
    free = arrange(load_text(MODEL + heads), training=True)
    assert free.labels == ("two/loss", "one/loss")
    for words in ("one, two", "one/loss, two", "one/loss, two/loss"):
        graph = arrange(load_text(f"[Model]\nloss = mse\nlabel_layers = {words}\n" + heads), training=True)
        assert graph.labels == ("one/loss", "two/loss")
        assert graph.label_order == (1, 0)
    explicit = IN + dense("one", "in") + dense("two", "in") + layer("l1", "mse", input_layers="one")
    explicit += layer("l2", "mse", input_layers="two")
    graph = arrange(load_text("[Model]\nlabel_layers = l1, l2\n" + explicit), training=True)
    assert graph.labels == ("l1", "l2")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("input_layers = b, a", "input_layers: every one must be named, c is missing"),
        ("input_layers = b, a, c, join", "input_layers: 'join' is no input of the model"),
        ("input_layers = b, a, c, b", "input_layers: 'b' is named twice"),
        ("input_layers = b, a, cc", "input_layers: 'cc' is no input of the model"),
        (
            "loss = mse\nlabel_layers = joint",
            "label_layers: 'joint' is no layer that takes a label; did you mean 'join'?",
        ),
        ("input_layers = b, a(1), c", "input_layers: expected names of layers, got 'a(1)'"),
        ("label_layers = join(1)", "label_layers: expected names of layers, got 'join(1)'"),
    ],
)
def test_orders_that_do_not_fit(line: str, expected: str) -> None:
    with pytest.raises(DescriptionError) as caught:
        load_text(f"[Model]\n{line}\n" + INPUTS + JOIN)
    assert expected in str(caught.value)


def test_nodes_know_positions_outputs_and_shapes() -> None:
    text = "[Model]\nepochs = 1\n" + IN + layer("s", "split", axis=3) + dense("f", "s(2)") + dense("g", "s(0)")
    made = {node.name: node for node in nodes(load_text(text, name="m.ini"), False)}
    position = {name: index for index, name in enumerate(made)}
    assert list(made) == ["in", "s", "g", "f"]
    assert made["s"].outputs == 3
    assert made["f"].inputs == [(position["s"], 2)]
    assert [str(dim) for dim in made["in"].input_dims] == [str(made["in"].input_dims[0])]
    assert made["in"].input_dims[0].shape == (1, 1, 1, 3)
    assert (made["f"].origin.file, made["f"].origin.line) == ("m.ini", 9)
    assert made["g"].outputs == 1


def test_recorded_execution_orders() -> None:
    """The forward numbers that NNTrainer gave to the outputs of three recorded models."""
    folder = shared_path("conformance")
    cases = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    compared = 0
    for case in cases:
        if case["kind"] != "exec_order":
            continue
        found = [node.name for node in nodes(load_ini(folder / case["ini"]), True)]
        first = {name.removesuffix(":out0"): min(o) for name, o in case["orders"].items() if name.endswith(":out0")}
        assert found == sorted(first, key=first.__getitem__)
        compared += 1
    assert compared >= 3


def test_recorded_models() -> None:
    """Inputs, labels and the layers with weights of every recorded model whose layers exist, in the recorded order."""
    folder = shared_path("conformance")
    cases = json.loads((folder / "cases.json").read_text(encoding="utf-8"))
    compared = 0
    for case in cases:
        if case["kind"] != "model":
            continue
        if not all(word in LAYERS or word in LOSSES for word in case["layer_types"]):
            continue
        graph = arrange(load_ini(folder / case["ini"]), True)
        assert list(graph.inputs) == [entry["layer"] for entry in case["inputs"]], case["name"]
        assert list(graph.labels) == [entry["layer"] for entry in case["labels"]], case["name"]
        order = [node.name for node in graph.nodes]
        owners = [entry["layer"] for entry in case["weights"] if entry["layer"] in order]
        assert owners == [entry["layer"] for entry in case["weights"]], case["name"]
        compared += 1
    assert compared >= 20


@pytest.mark.parametrize("shapes", ["1:1:2", "1:1:2,1:1:3"])
def test_a_layer_with_inputs_of_its_own_stands_once_for_each(shapes: str) -> None:
    text = "[Model]\nepochs = 1\n" + layer("join", "concat", input_shape=shapes, axis=3)
    graph = arrange(load_text(text), training=False)
    assert graph.inputs == ("join",) * len(shapes.split(","))
    assert len(graph.nodes[0].input_dims) == len(graph.inputs)


def test_a_circle_of_thousands_of_layers_is_told_in_one_short_line():
    text = "[Model]\ntype = NeuralNetwork\n[i]\ntype = input\ninput_shape = 4\n"
    text += "[a0]\ntype = addition\ninput_layers = i, a3000\n"
    text += "".join(f"[a{k}]\ntype = identity\ninput_layers = a{k - 1}\n" for k in range(1, 3001))
    with pytest.raises(DescriptionError, match=r"in a circle: .* -> \(\d+ more\) -> ") as caught:
        arrange(load_text(text), training=False)
    assert len(str(caught.value)) < 1000
