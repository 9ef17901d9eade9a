"""nntrainer describe: the properties as they are declared; the reference of the documentation is fresh."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import command, process

from nntrainer_py.cli.describe import groups
from nntrainer_py.layers.conv2d import Conv2D

ROOT = Path(__file__).resolve().parent.parent.parent


def test_a_keyword(capsys: pytest.CaptureFixture[str]) -> None:
    done = command(capsys, "describe", "Conv2D")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("conv2d (layer)\n")
    for name, declared in Conv2D.properties().items():
        assert f"  {name}" in done.out
        assert declared.doc.replace("`", "") in done.out
    assert "required" in done.out


def test_json_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    (record,) = json.loads(command(capsys, "describe", "conv2d", "--json").out)
    filters = next(one for one in record["properties"] if one["key"] == "filters")
    assert filters["required"]
    stride = next(one for one in record["properties"] if one["key"] == "stride")
    assert stride["default"] == "1,1"


def test_the_list_has_every_keyword(capsys: pytest.CaptureFixture[str]) -> None:
    text = command(capsys, "describe").out
    for group in groups():
        for word in group.entries:
            assert f"  {word} " in text, word


def test_a_word_of_several_groups_gives_all(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(command(capsys, "describe", "cosine", "--json").out)
    assert {"schedules", "losses"} <= {one["group"] for one in found}


def test_an_unknown_word_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    done = command(capsys, "describe", "convd2")
    assert done.code == 2
    assert "did you mean 'conv2d'?" in done.err


def test_a_key_is_found_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    done = command(capsys, "describe", "memory_budget")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("key of [Model]\n  memory_budget")
    done = command(capsys, "describe", "Weight_Decay", "--json")
    found = json.loads(done.out)
    assert all(one["key"] == "weight_decay" and one["meaning"] for one in found)
    having = {
        (group.file, word)
        for group in groups()
        for word, cls in group.entries.items()
        if any("weight_decay" in declared.keys for declared in cls.properties().values())
    }
    assert {(one["group"], one["keyword"]) for one in found} == having  # no whole group has it
    done = command(capsys, "describe", "memory_budgt")
    assert done.code == 2
    assert "did you mean 'memory_budget'?" in done.err


def test_a_plugin_is_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugin = ROOT / "examples" / "custom" / "scale.py"
    done = command(capsys, "describe", "scale", "--plugin", plugin)
    assert done.code == 0, done.err
    assert done.out.startswith("scale (layer)")


def test_the_reference_is_fresh(tmp_path: Path) -> None:
    """Make it anew with: nntrainer describe --write docs/reference"""
    # in a process of its own: other tests may have registered plugins here
    assert process("describe", "--write", tmp_path / "made").code == 0
    found, made = (
        {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
        for folder in (ROOT / "docs" / "reference", tmp_path / "made")
    )
    stale = [name for name in {*found, *made} if found.get(name) != made.get(name)]
    assert stale == [], "run: nntrainer describe --write docs/reference"
