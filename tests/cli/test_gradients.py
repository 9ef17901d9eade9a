"""nntrainer-inspect --check-gradients: what it shows, and how it ends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import MODEL, command, write_problem

from nntrainer_py.registry import LAYERS

PLUGIN = """\
import numpy as np
from nntrainer_py import Layer, register_layer


@register_layer("third")
class Third(Layer):
    def forward(self, ctx):
        ctx.outputs[0][...] = ctx.inputs[0] ** 3

    def calc_derivative(self, ctx):
        ctx.derivatives[0][...] = 2 * ctx.inputs[0] ** 2 * ctx.incoming[0]
"""


@pytest.fixture
def wrong(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A model with a layer that is wrong, and its plugin."""
    ini = write_problem(tmp_path, MODEL.replace("[cloud]", "[mine]\ntype = third\n\n[cloud]"))
    plugin = tmp_path / "third.py"
    plugin.write_text(PLUGIN, encoding="utf-8")
    yield ini, plugin
    LAYERS.unregister("third")


def record(text: str) -> dict[str, Any]:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    found: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return found


def test_a_model_that_is_right(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    done = command(capsys, "inspect", ini, "--check-gradients")
    assert (done.code, done.err) == (0, "")
    assert "weight weight" in done.out
    assert "passed, 1 skipped (3 samples, tolerance 0.001)" in done.out
    assert "note:" not in done.out
    found = record(command(capsys, "inspect", ini, "--check-gradients", "--json", "--samples", 5).out)
    assert found["ok"]
    assert found["samples"] == 5
    assert {row["layer"] for row in found["tensors"]} >= {"point", "hidden", "cloud", "whole model"}
    compared = [row for row in found["tensors"] if row["error"] is not None]
    assert all(row["allowed"] == pytest.approx(1e-3 + 4.0 * row["uncertainty"]) for row in compared)
    assert all(row["error"] <= row["allowed"] for row in compared if row["verdict"] == "passed")
    assert all(row["error"] < 1e-3 for row in found["tensors"] if row["layer"] in ("hidden", "cloud"))


def test_a_layer_that_is_wrong(wrong: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    ini, plugin = wrong
    done = command(capsys, "inspect", ini, "--plugin", plugin, "--check-gradients")
    assert (done.code, done.err) == (5, "")
    assert "1 failed" in done.out
    assert "[mine] input 0: failed" in done.out
    assert "third.py:10 in Third.calc_derivative" in done.out
    assert "expected " in done.out
    assert "note: the whole model was not checked" in done.out
    done = command(capsys, "inspect", ini, "--plugin", plugin, "--check-gradients", "--quiet")
    assert (done.code, done.out) == (5, "")
    assert done.err.startswith("[mine] input 0: failed; relative error 0.")
    found = record(command(capsys, "inspect", ini, "--plugin", plugin, "--check-gradients", "--json").out)
    assert not found["ok"]
    (row,) = [row for row in found["tensors"] if row["verdict"] == "failed"]
    assert (row["layer"], row["type"], row["tensor"]) == ("mine", "third", "input 0")
    assert row["element"]["found"] == pytest.approx(2 / 3 * row["element"]["expected"], rel=0.02)


def test_one_layer_of_many(wrong: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    ini, plugin = wrong
    more = ("--plugin", plugin, "--check-gradients", "--json")
    found = record(command(capsys, "inspect", ini, *more, "--layer", "hidden", "--layer", "cloud").out)
    assert {row["layer"] for row in found["tensors"]} == {"hidden", "cloud"}
    done = command(capsys, "inspect", ini, *more, "--layer", "clout")
    assert done.code == 2
    assert "did you mean 'cloud'" in done.err


def test_without_data_and_with_damaged_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path)
    (tmp_path / "train.dat").unlink()
    done = command(capsys, "inspect", ini, "--check-gradients")
    assert done.code == 0
    assert "note: random samples: there is no training data" in done.out
    (tmp_path / "train.dat").write_bytes(b"123")
    done = command(capsys, "inspect", ini, "--check-gradients")
    assert done.code == 3
    assert "train.dat" in done.err


def test_a_value_that_was_never_written_is_no_json_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = write_problem(tmp_path, MODEL.replace("[cloud]", "[mine]\ntype = third\n\n[cloud]"))
    plugin = tmp_path / "third.py"
    plugin.write_text(
        PLUGIN.replace("* ctx.incoming[0]", "* ctx.incoming[0])[0]").replace("[...] = 2", "[0] = (2"), encoding="utf-8"
    )
    try:
        done = command(capsys, "inspect", ini, "--plugin", plugin, "--check-gradients", "--json")
    finally:
        LAYERS.unregister("third")
    assert done.code == 5
    (row,) = [row for row in record(done.out)["tensors"] if row["verdict"] == "failed"]
    assert row["error"] is None
    assert row["element"]["found"] is None
    assert "not finite" in row["reason"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--layer", "hidden"), "--layer has no effect"),
        (("--samples", 4), "--samples has no effect"),
        (("--check-gradients", "--planners"), "--planners has no effect"),
        (("--check-gradients", "--plot", "a.png"), "--plot has no effect"),
    ],
)
def test_options_that_have_no_effect(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[object, ...], told: str
) -> None:
    done = command(capsys, "inspect", write_problem(tmp_path), *words)
    assert done.code == 2
    assert told in done.err


def test_the_verdict_follows_from_the_figures_of_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Of the example: differences through relu and max are known roughly, and so much more is allowed."""
    ini = Path(__file__).resolve().parents[2] / "examples" / "digits" / "model.ini"
    done = command(capsys, "inspect", ini, "--check-gradients", "--layer", "conv1", "--layer", "conv2")
    assert "  allowed" in done.out.splitlines()[0]
    rows = re.findall(r"(\S+e\S+) +(\S+e\S+) +(\S+e\S+)  (passed|failed)", done.out)
    assert rows
    for error, known, allowed, verdict in rows:
        assert float(allowed) == pytest.approx(1e-3 + 4.0 * float(known), rel=0.1)
        assert (float(error) <= float(allowed)) is (verdict == "passed")
