"""Keywords and the classes behind them; folders and tables agree."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import nntrainer_py.registry as registry_module
from nntrainer_py.errors import UsageError
from nntrainer_py.registry import LAYERS, LOSSES, OPTIMIZERS, SCHEDULERS, Registry, lookup

PACKAGE = Path(registry_module.__file__).parent
TABLES = {"layers": (LAYERS,), "losses": (LOSSES,), "optimizers": (OPTIMIZERS, SCHEDULERS)}


def _keyword_classes(folder: str) -> Iterator[tuple[str, str]]:
    """Keyword and ``module:Class`` of every class in the files of a folder that has a keyword of its own."""
    for path in sorted((PACKAGE / folder).glob("*.py")):
        module = importlib.import_module(
            f"nntrainer_py.{folder}.{path.stem}" if path.stem != "__init__" else f"nntrainer_py.{folder}"
        )
        for cls in vars(module).values():
            own = isinstance(cls, type) and cls.__module__ == module.__name__
            if own and vars(cls).get("keyword"):
                yield cls.keyword, f"{module.__name__}:{cls.__name__}"


@pytest.mark.parametrize("folder", sorted(TABLES))
def test_folder_and_table_agree(folder: str) -> None:
    in_folder = sorted(_keyword_classes(folder))
    in_table = sorted((w, r.target(w)) for r in TABLES[folder] for w in r.words() if r.target(w))
    assert in_table == in_folder


@pytest.mark.parametrize("folder", sorted(TABLES))
def test_every_row_loads_and_one_keyword_is_one_file(folder: str) -> None:
    for registry in TABLES[folder]:
        for word in registry.words():
            assert registry.load(word).keyword == word
            assert registry.load(word.upper()) is registry.load(word)
        modules = [(registry.target(w) or "").partition(":")[0] for w in registry.words()]
        assert len(set(modules)) == len(modules)


@pytest.mark.parametrize("registry", [LAYERS, LOSSES, OPTIMIZERS, SCHEDULERS])
def test_tables_are_sorted_and_aliases_are_no_keywords(registry: Registry) -> None:
    assert list(registry._table) == sorted(registry._table)
    assert list(registry._aliases) == sorted(registry._aliases)
    assert not set(registry._aliases) & set(registry._table)
    assert not {word for word in registry._table if word in LAYERS and registry is LOSSES}


@pytest.fixture
def fruits() -> Registry:
    table = {"apple": "collections:OrderedDict", "pear": "collections:Counter"}
    return Registry("fruit", table, aliases={"apfel": "apple", "quitte": "quince"}, known=("apple", "quince"))


def test_words_aliases_and_case(fruits: Registry) -> None:
    import collections

    assert fruits.words() == ["apple", "pear"]
    assert fruits.load(" APFEL ") is fruits.load("apple") is collections.OrderedDict
    assert fruits.aliases() == {"apfel": "apple"}
    assert "Apple" in fruits
    assert "plum" not in fruits


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("aple", "unknown fruit 'aple'; did you mean 'apple'?"),
        ("zzz", "unknown fruit 'zzz'; known are apple, pear"),
        ("", "unknown fruit ''; known are apple, pear"),
        ("quince", "NNTrainer's fruit 'quince' is not supported by this version"),
        ("Quitte", "NNTrainer's fruit 'Quitte' is not supported by this version"),
    ],
)
def test_unknown_words(fruits: Registry, word: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        fruits.load(word)
    assert str(caught.value) == message


def test_lookup_in_several_registries(fruits: Registry) -> None:
    roots = Registry("root", {"carrot": "collections:deque"})
    assert lookup("carrot", fruits, roots).__name__ == "deque"
    with pytest.raises(UsageError, match="unknown fruit or root 'carot'; did you mean 'carrot'"):
        lookup("carot", fruits, roots)


def test_plugins_register_and_may_not_take_a_keyword(fruits: Registry) -> None:
    class Plum:
        pass

    class Other:
        pass

    fruits.register("Plum", Plum)
    fruits.register("plum", Plum)
    assert fruits.load("PLUM") is Plum
    assert "plum" in fruits.words()
    for taken in ("plum", "apple", "apfel"):
        with pytest.raises(UsageError, match="exists already"):
            fruits.register(taken, Other)
    for bad in ("", "two words", "a\tb", "a\x00"):
        with pytest.raises(UsageError, match="keyword without blanks"):
            fruits.register(bad, Other)
    fruits.unregister("plum")
    fruits.unregister("apple")
    assert fruits.words() == ["apple", "pear"]


def test_a_decorated_class_is_found_by_its_word() -> None:
    @registry_module.register_layer("custom_test_layer")
    class Custom:
        keyword = "custom_test_layer"

    try:
        assert LAYERS.load("Custom_Test_Layer") is Custom
    finally:
        LAYERS.unregister("custom_test_layer")
    assert "custom_test_layer" not in LAYERS
