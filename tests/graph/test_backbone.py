"""Backbones: layers of other files, their names, what they may reach."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph.models import IN, MODEL, dense, layer, wiring

from nntrainer_py.errors import DescriptionError
from nntrainer_py.graph.description import load_ini
from nntrainer_py.graph.spec import ModelSpec

PLAIN = "[Model]\nepochs = 1\n"
FRONT = "[Model]\nunknown = 1\n[Optimizer]\ntype = wrong\n[train_set]\npath = a\n" + dense("f1", input_shape="1:1:3")


def load(folder: Path, **files: str) -> ModelSpec:
    """The spec of ``model``, with the other texts beside it as ``<name>.ini``."""
    for name, text in files.items():
        (folder / f"{name}.ini").write_text(text)
    return load_ini(folder / "model.ini")


def faults(folder: Path, **files: str) -> list[str]:
    with pytest.raises(DescriptionError) as caught:
        load(folder, **files)
    return [str(fault).replace(f"{folder}/", "") for fault in caught.value.faults]


def use(name: str, section: str = "bb", **keys: str) -> str:
    lines = [f"[{section}]", f"backbone = {name}.ini", *(f"{key} = {value}" for key, value in keys.items())]
    return "\n".join(lines) + "\n"


def test_layers_come_in_place_under_their_own_names_and_the_other_sections_are_skipped(tmp_path: Path) -> None:
    spec = load(tmp_path, model=PLAIN + use("front") + dense("top"), front=FRONT + dense("f2", activation="relu"))
    assert [made.name for made in spec.layers] == ["f1", "f2", "top"]
    assert wiring(spec)["top"] == "fully_connected f2/activation_realized"
    assert spec.optimizer is None
    assert spec.sections == {}
    origin = spec.layer("f2").origin
    assert origin is not None
    assert (Path(origin.file).name, origin.line) == ("front.ini", 11)


def test_an_empty_section_name_and_quotes(tmp_path: Path) -> None:
    spec = load(tmp_path, model=PLAIN + '[]\nbackbone = "front.ini"\n' + dense("top"), front=FRONT)
    assert [made.name for made in spec.layers] == ["f1", "top"]


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ({}, {}, (True, False)),
        ({"trainable": "false"}, {}, (False, False)),
        ({"trainable": "true"}, {}, (True, True)),
        ({"trainable": "false"}, {"trainable": "true"}, (False, False)),
        ({}, {"trainable": "false"}, (False, False)),
    ],
)
def test_trainable_reaches_every_layer_when_it_is_said(
    tmp_path: Path, outer: dict[str, str], inner: dict[str, str], expected: tuple[bool, bool]
) -> None:
    front = dense("a", input_shape="1:1:3") + dense("b", trainable="false")
    spec = load(tmp_path, model=PLAIN + use("mid", **outer), mid=use("front", **inner), front=front)
    assert (spec.layer("a").layer.trainable, spec.layer("b").layer.trainable) == expected


def test_two_copies_are_renamed_together_with_what_refers_to_them(tmp_path: Path) -> None:
    block = dense("p") + dense("q", "p", shared_from="p") + layer("r", "addition", input_layers="p,q")
    text = PLAIN + IN + use("block", "one") + use("block", "two") + dense("end", "r")
    spec = load(tmp_path, model=text, block=block)
    assert [made.name for made in spec.layers] == ["in", "p", "q", "r", "p0", "q1", "r2", "end"]
    made = wiring(spec)
    assert made["p0"] == "fully_connected r/generated_out_0"
    assert made["q1"] == "fully_connected p0/generated_out_0"
    assert made["r2"] == "addition p0/generated_out_0(1) q1"
    assert made["end"] == "fully_connected r/generated_out_0(1)"
    assert spec.layer("q1").layer.shared_from == "p0"
    assert spec.layer("q").layer.shared_from == "p"
    assert len(spec.notices) == 3
    assert "a layer of this name exists already; this one is called p0" in str(spec.notices[0])


def test_names_mean_the_own_layer_then_that_of_a_backbone_then_that_of_the_file_above(tmp_path: Path) -> None:
    model = PLAIN + IN + use("one") + dense("a", "b") + dense("z", "a") + dense("y", "c")
    spec = load(tmp_path, model=model, one=dense("a", "in") + dense("b", "a") + dense("c", "a"))
    assert [made.name for made in spec.layers] == ["in", "a", "b", "c", "a0", "z", "y"]
    inputs = {made.name: str((made.inputs or ("",))[0]) for made in spec.layers}
    assert inputs == {"in": "", "a": "in", "b": "a", "c": "a", "a0": "b", "z": "a0", "y": "c"}


def test_backbones_nest_and_start_from_the_top_folder(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "inner.ini").write_text(dense("i1") + dense("i2"))
    (tmp_path / "parts" / "outer.ini").write_text("[x]\nbackbone = parts/inner.ini\n" + dense("o1"))
    spec = load(tmp_path, model=PLAIN + IN + "[x]\nbackbone = parts/outer.ini\n" + dense("top"))
    assert [made.name for made in spec.layers] == ["in", "i1", "i2", "o1", "top"]


def test_circles_are_refused(tmp_path: Path) -> None:
    assert faults(tmp_path, model=PLAIN + IN + use("a"), a=dense("l") + use("b"), b=use("a")) == [
        "b.ini:2: [bb] backbone: backbones name each other in a circle: a.ini -> b.ini -> a.ini"
    ]
    (message,) = faults(tmp_path, model=PLAIN + IN + use("model"))
    assert message.endswith("in a circle: model.ini -> model.ini")


def test_what_a_backbone_names_stays_inside_the_folder(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "out.ini").write_text(dense("far"))
    (home / "link.ini").symlink_to(tmp_path / "out.ini")
    for text in (str(tmp_path / "out.ini"), "../out.ini", "x/../../out.ini", "link.ini"):
        (message,) = faults(home, model=PLAIN + IN + use("a"), a=f"[x]\nbackbone = {text}\n")
        assert message.startswith("a.ini:2: [x] backbone: a backbone may name")
    # the file on the command line is the user's own
    for text in (str(tmp_path / "out.ini"), "../out.ini", "link.ini"):
        spec = load(home, model=PLAIN + IN + f"[x]\nbackbone = {text}\n")
        assert [made.name for made in spec.layers] == ["in", "far"]


def test_keys_of_a_backbone_section(tmp_path: Path) -> None:
    front = dense("a", input_shape="1:1:3")
    spec = load(tmp_path, model=PLAIN + use("front", input_shape="1:1:9", Preload="true"), front=front)
    assert [notice.key for notice in spec.notices] == ["input_shape", "preload"]
    assert faults(tmp_path, model=PLAIN + use("front", trainabel="true"), front=front) == [
        "model.ini:5: [bb] trainabel: unknown property of a backbone section; did you mean 'trainable'?"
    ]


def test_faults_of_a_backbone_name_its_file_and_come_once(tmp_path: Path) -> None:
    found = faults(tmp_path, model=PLAIN + IN + use("a", "x") + use("a", "y"), a=dense("l", unitt=3) + "junk\n")
    assert found == [
        "a.ini:4: [l] unitt: unknown property of fully_connected; did you mean 'unit'?",
        "a.ini:5: [l] expected 'key = value', a [section] or a comment, got 'junk'",
    ]


def test_a_backbone_without_layers(tmp_path: Path) -> None:
    (message,) = faults(tmp_path, model=PLAIN + IN + use("a"), a=MODEL)
    assert message == "model.ini:7: [bb] backbone: 'a.ini' has no layers"


def test_backbones_that_multiply_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nntrainer_py.graph.backbone.MOST_LAYERS", 1000)
    files = {f"b{i}": use(f"b{i + 1}", "x") + use(f"b{i + 1}", "y") for i in range(40)}
    found = faults(tmp_path, model=PLAIN + IN + use("b0"), b40=dense("l"), **files)
    assert any("more than 1000 layers" in message for message in found)
