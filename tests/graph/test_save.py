"""Saving as INI: the second text equals the first, and the network stays the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph.models import GOOD, IN, MODEL, SGD, dense, layer, wiring

from nntrainer_py.errors import UsageError
from nntrainer_py.graph.description import load_ini, load_text
from nntrainer_py.graph.save import save_ini, to_text
from nntrainer_py.graph.spec import ModelSpec

SCHEDULE = "[LearningRateScheduler]\ntype = exponential\nlearning_rate = 0.3\ndecay_rate = 0.9\ndecay_steps = 10\n"
DATA = "[train_set]\ntype = file\npath = data/train.dat\nbuffer_size = 3\n"
BRANCHES = IN + layer("s", "split", axis=3) + dense("a", "s(1)", activation="relu") + dense("b", "s(0)")
BRANCHES += layer("c", "addition", input_layers="a, b", flatten="true") + dense("d", "c") + dense("e", "c")

MODELS = {
    "plain": GOOD,
    "nothing but layers": "[Model]\ntype = NeuralNetwork\n" + IN,
    "branches": MODEL + SGD + BRANCHES,
    "schedule": MODEL + SGD + SCHEDULE + IN + dense("a"),
    "data": MODEL + SGD + DATA + IN + dense("a"),
    "settings": "[Model]\nMemory_Swap = true\nmemory_budget = 64MB\nsave_path = 'out/a b#1.bin'\nseed = 3\n" + IN,
    "old decay": MODEL
    + "[Optimizer]\ntype=adam\nlearning_rate=1e-2\ndecay_steps=100\ndecay_rate=0.96\n"
    + IN
    + dense("a"),
    "old optimizer": "[Model]\noptimizer = adam\nlearning_rate = 0.01\nbeta1 = 0.8\nloss = mse\n" + IN + dense("a"),
    "old data": MODEL + "[DataSet]\nTrainData='t.dat'\nValidData=v.dat\nBufferSize=10\n" + IN + dense("a"),
    "shared and frozen": MODEL + IN + dense("a") + dense("b", unit=3, trainable="false") + dense("c", shared_from="a"),
    "old output": MODEL + IN + layer("m", "output") + dense("a", "m(0)") + dense("b", "m(1)"),
    "own loss": "[Model]\nlabel_layers = l\ninput_layers = in\n" + IN + dense("a") + layer("l", "mse"),
}


def same(first: ModelSpec, second: ModelSpec) -> None:
    assert [(s.name, s.layer.keyword, s.layer.texts()) for s in first.layers] == [
        (s.name, s.layer.keyword, s.layer.texts()) for s in second.layers
    ]
    assert wiring(first) == wiring(second)
    assert first.model.texts() == second.model.texts() or second.model.texts() == {"epochs": "1"}
    for one, other in ((first.scheduler, second.scheduler), (first.optimizer, second.optimizer)):
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            kept = {k: v for k, v in one.texts().items() if not (first.scheduler and k == "learning_rate")}
            kept = one.texts() if one is first.scheduler else kept
            assert (one.keyword, kept) == (other.keyword, other.texts())
    assert {n: s.settings.texts() for n, s in first.sections.items()} == {
        n: s.settings.texts() for n, s in second.sections.items()
    }


@pytest.mark.parametrize("name", MODELS)
def test_u005_load_save_load_save(name: str, tmp_path: Path) -> None:
    """U005: the same bytes the second time, and the same network."""
    first = load_text(MODELS[name], tmp_path)
    save_ini(first, tmp_path / "one.ini")
    second = load_ini(tmp_path / "one.ini")
    save_ini(second, tmp_path / "two.ini")
    assert (tmp_path / "one.ini").read_bytes() == (tmp_path / "two.ini").read_bytes()
    same(first, second)
    assert second.notices == ()


@pytest.mark.parametrize("name", MODELS)
def test_realized_form_is_the_same_graph(name: str) -> None:
    first = load_text(MODELS[name])
    second = load_text(to_text(first, realized=True))
    for training in (True, False):
        assert wiring(first, training).keys() == wiring(second, training).keys() or training
        assert list(wiring(first, training).values()) == list(wiring(second, training).values())
    assert to_text(second, realized=True) == to_text(second)


def test_u005_what_stands_twice_names_both_lines() -> None:
    twice = GOOD + "unit = 3\n"
    assert len([line for line in twice.splitlines() if line.startswith("unit")]) == 2
    with pytest.raises(Exception, match=r"model.ini:13: \[out\] unit: set on line 12 already"):
        load_text(twice, name="model.ini")
    with pytest.raises(Exception, match=r"model.ini:13: \[in\] the section stands on line 7 already"):
        load_text(GOOD + IN, name="model.ini")


def test_defaults_are_not_written() -> None:
    assert to_text(load_text(GOOD)) == (
        "[Model]\nbatch_size = 4\nloss = mse\n\n[Optimizer]\ntype = sgd\nlearning_rate = 0.1\n\n"
        "[in]\ntype = input\ninput_shape = 1:1:3\n\n[out]\ntype = fully_connected\nunit = 2\n"
    )


def test_saving_elsewhere_keeps_the_files_it_means(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    other.mkdir()
    (home / "train.dat").write_bytes(b"1234")
    text = MODEL + "save_path = w.bin\n" + "[train_set]\ntype = file\npath = train.dat\n" + IN + dense("a")
    (home / "m.ini").write_text(text)
    spec = load_ini(home / "m.ini")
    save_ini(spec, other / "m.ini")
    moved = load_ini(other / "m.ini")
    assert moved.sections["train_set"].paths == {"path": home / "train.dat"}
    assert moved.model.save_path == str(home / "w.bin")
    save_ini(moved, other / "n.ini")
    assert (other / "m.ini").read_bytes() == (other / "n.ini").read_bytes()
    assert "path = train.dat" in to_text(spec)


def test_a_file_is_only_overwritten_when_asked(tmp_path: Path) -> None:
    target = tmp_path / "m.ini"
    target.write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        save_ini(load_text(GOOD), target)
    assert target.read_text() == "mine"
    save_ini(load_text(GOOD), target, overwrite=True)
    assert target.read_text() == to_text(load_text(GOOD))
    assert [path.name for path in tmp_path.iterdir()] == ["m.ini"]


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
        save_ini(load_text(GOOD), tmp_path / "nowhere" / "m.ini")
