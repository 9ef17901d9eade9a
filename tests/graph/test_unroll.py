"""Groups of layers written out over time: names, wiring, weights, and the same numbers as a recurrent layer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from graph.models import MODEL, SGD, layer, messages, notices, wiring

from nntrainer_py.graph.description import load_text
from nntrainer_py.graph.passes import realize
from nntrainer_py.graph.save import to_text
from nntrainer_py.graph.spec import ModelSpec
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.layers.lstmcell import LstmCell
from nntrainer_py.layers.recurrent_group import RecurrentGroup
from nntrainer_py.model import Model

X = layer("x", "input", input_shape="1:1:2")


def state(name: str) -> str:
    return layer(name, "input", input_shape="1:1:2")


def test_a_cell_as_nntrainer_names_it() -> None:
    """The wiring of NNTrainer's own single lstmcell."""
    text = MODEL + X + state("h0") + state("c0") + layer("a1", "lstmcell", unit=2, input_layers="x, h0, c0")
    text += layer(
        "scope", "recurrent", layers="a1", unroll_for=2, recurrent_input="a1(0), a1(1), a1(2)",
        recurrent_output="a1(0), a1(0), a1(1)", as_sequence="a1",
    )  # fmt: skip
    spec = load_text(text + layer("loss", "mse", input_layers="scope/a1"))
    made = {made.name: made for made in realize(spec, True)}
    lines = {
        name: f"{one.layer.keyword} {' '.join(map(str, one.inputs or ()))} from {one.layer.shared_from}"
        for name, one in made.items()
        if "generated_out" not in name and name not in ("x", "h0", "c0")
    }
    assert lines == {
        "scope/a1/0": "lstmcell x h0 c0 from scope/a1/0",
        "scope/a1/1": "lstmcell scope/a1/0/generated_out_0 scope/a1/0/generated_out_0(1) scope/a1/0(1) from scope/a1/0",
        "scope/a1/concat_0": "concat scope/a1/0/generated_out_0(2) scope/a1/1 from None",
        "scope/a1": "identity scope/a1/concat_0 from None",
        "loss": "mse scope/a1 from None",
    }


def test_two_layers_and_the_last_step_alone() -> None:
    text = "[Model]\nepochs = 1\n" + layer("in", "input", input_shape="1:1:1")
    text += layer("a1", "fully_connected", unit=1) + layer("a2", "fully_connected", unit=1)
    text += layer(
        "g", "recurrent", layers="a1, a2", unroll_for=3, recurrent_input="a1(0)", recurrent_output="a2(0)",
        activation="relu",
    )  # fmt: skip
    assert wiring(load_text(text + layer("end", "flatten"))) == {
        "in": "input",
        "g/a1/0": "fully_connected in",
        "g/a2/0": "fully_connected g/a1/0",
        "g/a1/1": "fully_connected g/a2/0",
        "g/a2/1": "fully_connected g/a1/1",
        "g/a1/2": "fully_connected g/a2/1",
        "g/a2/2": "fully_connected g/a1/2",
        "g/a2": "identity g/a2/2",
        "g/a2/activation_realized": "activation g/a2",
        "end": "flatten g/a2/activation_realized",
    }


def test_steps_of_zoneout_cells_are_numbered_and_the_rest_is_kept() -> None:
    text = MODEL + X + layer("z", "zoneout_lstmcell", unit=2, cell_state_zoneout_rate=0.5, weight_decay=0.25)
    text += layer(
        "g", "recurrent", layers="z", unroll_for=3, recurrent_input="z(1), z(2)", recurrent_output="z, z(1)",
        trainable=False,
    )  # fmt: skip
    copies = [made.layer for made in realize(load_text(text), True) if made.layer.keyword == "zoneout_lstmcell"]
    assert [(c.timestep, c.max_timestep, c.weight_decay, c.trainable) for c in copies] == [
        (step, 3, 0.25, False) for step in range(3)
    ]


def test_groups_in_a_row_read_each_other() -> None:
    """The second group takes all steps of the first, and a layer outside shares the weights of the first step."""
    text = MODEL + layer("x", "input", input_shape="1:3:2") + layer("a", "rnncell", unit=2, input_layers="x")
    text += layer(
        "one", "recurrent", layers="a", unroll_for=3, recurrent_input="a(1)", recurrent_output="a", as_sequence="a",
        input_is_sequence="x", sequence_axis=2,
    )  # fmt: skip
    text += layer("b", "fully_connected", unit=2, input_layers="one") + layer("c", "addition", input_layers="b")
    text += layer("two", "recurrent", layers="b, c", unroll_for=3, as_sequence="c", input_is_sequence="one")
    text += layer("end", "fully_connected", unit=2, shared_from="b")
    spec = load_text(text)
    made = wiring(spec)
    assert made["one/x/split_realized"] == "split x"
    assert made["one/a/2"] == "rnncell one/x/split_realized(2) one/a/1/generated_out_0"
    assert made["one/a"] == "identity one/a/concat_0"
    assert made["two/one/a/split_realized"] == "split one/a"
    assert made["two/b/1"] == "fully_connected two/one/a/split_realized(1)"
    assert made["end"] == "fully_connected two/c"
    assert next(one for one in realize(spec, True) if one.name == "end").layer.shared_from == "two/b/0"


TRAINED = "[Model]\nloss = mse\nbatch_size = 3\n" + SGD + layer("x", "input", input_shape="1:4:2")
LAST = layer("end", "fully_connected", unit=2)
CELLS = {
    "rnn": ("rnncell", "c(1)", "c"),
    "gru": ("grucell", "c(1)", "c"),
    "lstm": ("lstmcell", "c(1), c(2)", "c, c(1)"),
}


@pytest.mark.parametrize("sequences", [False, True])
@pytest.mark.parametrize("whole", sorted(CELLS))
def test_cells_train_as_the_layer_does(tmp_path: Path, whole: str, sequences: bool) -> None:
    """Unrolled cells from a zero state against the recurrent layer: losses and weights of five steps."""
    cell, given, fed = CELLS[whole]
    more = {"as_sequence": "c", "sequence_axis": 2} if sequences else {}
    group = layer("c", cell, unit=3) + layer(
        "g", "recurrent", layers="c", unroll_for=4, recurrent_input=given, recurrent_output=fed,
        input_is_sequence="x", **more,
    )  # fmt: skip
    texts = [
        TRAINED + layer("c", whole, unit=3, return_sequences=str(sequences).lower()) + LAST,
        TRAINED + group + LAST,
    ]
    rng = np.random.default_rng(2)
    x = rng.standard_normal((3, 1, 4, 2)).astype(np.float32)
    y = rng.standard_normal((3, 1, 4 if sequences else 1, 2)).astype(np.float32)
    runs = []
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.ini"
        path.write_text(text)
        model = Model.from_ini(path).compile(3, threads=1)
        losses = [model.train_on_batch(x, y) for _ in range(5)]
        runs.append((losses, [array.copy() for array in model.weights().values()]))
    np.testing.assert_allclose(runs[0][0], runs[1][0], rtol=1e-5)
    assert runs[0][0][-1] < runs[0][0][0]
    assert len(runs[0][1]) == len(runs[1][1])
    for one, other in zip(runs[0][1], runs[1][1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_from_python_and_back_to_text() -> None:
    spec = ModelSpec.build(
        model={"loss": "mse"},
        layers=[
            ("x", Input(input_shape="1:4:2")),
            ("cell", LstmCell(unit=3, input_layers="x")),
            (
                "g",
                RecurrentGroup(
                    layers=["cell"], unroll_for=4, recurrent_input=[("cell", 1), ("cell", 2)],
                    recurrent_output=["cell", ("cell", 1)], input_is_sequence="x",
                ),
            ),
            ("end", FullyConnected(unit=2)),
        ],
    )  # fmt: skip
    again = load_text(to_text(spec))
    assert wiring(again) == wiring(spec)
    assert wiring(spec)["end"] == "fully_connected g/cell"


GROUP = MODEL + X + layer("a", "fully_connected", unit=2) + "[g]\ntype = recurrent\nunroll_for = 2\n"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("", "[g] layers: required, expected the names of layers"),
        ("layers = b", "[g] layers: there is no layer 'b' to repeat"),
        ("layers = a, a", "[g] layers: 'a' stands twice"),
        ("layers = a(1)", "[g] layers: there is no layer 'a(1)' to repeat"),
        ("layers = x, a", "[g] layers: 'x' of type input cannot be repeated over time"),
        ("layers = g", "[g] layers: there is no layer 'g' to repeat"),
        ("layers = a\nrecurrent_input = b\nrecurrent_output = a", "[g] recurrent_input: 'b' is no layer of this group"),
        (
            "layers = a\nrecurrent_input = a\nrecurrent_output = x",
            "[g] recurrent_output: 'x' is no layer of this group",
        ),
        ("layers = a\nrecurrent_input = a", "[g] recurrent_output: expected one output for each of the 1 recurrent"),
        ("layers = a\nrecurrent_input = a, a\nrecurrent_output = a, a", "[g] recurrent_input: an input stands twice"),
        ("layers = a\nrecurrent_input = a(3)\nrecurrent_output = a", "'a' has 1 input, none with number 3"),
        ("layers = a\nas_sequence = x", "[g] as_sequence: 'x' is no layer of this group"),
        ("layers = a\ninput_is_sequence = a", "[g] input_is_sequence: no layer of this group reads 'a'"),
        ("layers = a\ndynamic_time_seq = true", "[g] dynamic_time_seq: expected false"),
    ],
)
def test_faults(keys: str, message: str) -> None:
    found = messages(GROUP + keys + "\n")
    assert any(message in one for one in found), found


def test_keys_without_effect_are_told() -> None:
    assert any("has no effect on a group" in one for one in notices(GROUP + "layers = a\ndistribute = true\n"))


def test_a_group_that_reads_itself_is_refused() -> None:
    text = GROUP.replace("type = fully_connected", "type = fully_connected\ninput_layers = g") + "layers = a\n"
    assert any("reads 'g' itself; use recurrent_input" in one for one in messages(text))
