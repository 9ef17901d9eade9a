"""``--set section.key=value``: only what can be, and each with its own message."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph.models import GOOD, dense

from nntrainer_py.errors import DescriptionError
from nntrainer_py.graph.description import load_ini
from nntrainer_py.graph.ini import parse
from nntrainer_py.graph.overrides import apply_overrides
from nntrainer_py.graph.spec import ModelSpec

TEXT = GOOD + dense("a.b") + "[train_set]\ntype = file\npath = a.dat\n"


@pytest.fixture
def load(tmp_path: Path) -> object:
    (tmp_path / "model.ini").write_text(TEXT)

    def loaded(*overrides: str) -> ModelSpec:
        return load_ini(tmp_path / "model.ini", overrides)

    return loaded


def test_values_are_replaced_and_added(load) -> None:  # type: ignore[no-untyped-def]
    spec = load("model.epochs=7", "Model.Batch_Size = 9", "out.unit=5", "a.b.unit=6", "a.b.activation = relu")
    assert (spec.model.epochs, spec.model.batch_size) == (7, 9)
    assert (spec.layer("out").layer.unit, spec.layer("a.b").layer.unit) == (5, 6)
    assert spec.layer("a.b").layer.activation == "relu"
    assert [made.name for made in spec.layers] == ["in", "out", "a.b"]


def test_the_type_is_set_before_the_keys_that_depend_on_it(load) -> None:  # type: ignore[no-untyped-def]
    spec = load("optimizer.beta1=0.5", "optimizer.type=adam")
    assert spec.optimizer is not None
    assert (spec.optimizer.keyword, spec.optimizer.texts()["beta1"]) == ("adam", "0.5")


def test_sections_that_are_no_layers_are_added(load) -> None:  # type: ignore[no-untyped-def]
    spec = load("valid_set.type=csv", "valid_set.path=b = c.csv")
    assert spec.datasets["valid"].settings.path == "b = c.csv"


def test_an_alias_replaces_what_it_stands_for(load) -> None:  # type: ignore[no-untyped-def]
    assert load("model.fsu=true", "model.memory_swap=false").model.fsu is False


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("epochs", "expected section.key=value, got 'epochs'"),
        ("epochs=3", "expected section.key=value, got 'epochs=3'"),
        ("model.epochs=", "expected section.key=value, got 'model.epochs='"),
        ("model.=3", "expected section.key=value, got 'model.=3'"),
        ("model.epoch=3", "[Model] has no key 'epoch'; did you mean 'epochs'?"),
        ("model.learning_rate=3", "[Model] has no key 'learning_rate'"),
        ("outt.unit=3", "there is no section [outt]; did you mean 'out'?"),
        ("out.units=3", "[out] has no key 'units'; did you mean 'unit'?"),
        ("in.unit=3", "[in] has no key 'unit'"),
        ("optimizer.beta1=3", "[Optimizer] has no key 'beta1'"),
        ("train_set.pth=3", "[train_set] has no key 'pth'; did you mean 'path'?"),
        ("learningratescheduler.learning_rate=3", "[learningratescheduler] needs a type first"),
    ],
)
def test_what_cannot_be_set(load, override: str, expected: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DescriptionError) as caught:
        load(override)
    assert any(expected in str(fault) and "--set" in str(fault) for fault in caught.value.faults), caught.value


def test_a_bad_value_is_found_like_any_other(load) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DescriptionError, match=r"\[Model\] epochs: expected a positive integer, got 'many'"):
        load("model.epochs=many")


def test_the_file_that_was_read_stays_as_it_is() -> None:
    ini = parse(TEXT)
    changed = apply_overrides(ini, ["model.epochs=3"])
    assert parse(TEXT) == ini
    assert changed.get("model") != ini.get("model")
