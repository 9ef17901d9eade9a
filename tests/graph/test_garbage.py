"""Damaged descriptions end in a message, never in a traceback of ours."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from graph.models import GOOD, IN, MODEL, SGD, dense, layer

from nntrainer_py.errors import DescriptionError
from nntrainer_py.graph.description import load_text

BASE = GOOD + layer("s", "split", axis=3) + dense("a", "s(1)", activation="softmax", flatten="true")
BASE += layer("c", "concat", input_layers="a, s(0)", axis=3) + dense("last", shared_from="a")
BASE += (
    "[train_set]\ntype = file\npath = a.dat\n[LearningRateScheduler]\ntype = step\niteration = 1\nlearning_rate = 1,2\n"
)
WORDS = [
    "=",
    "|",
    "[",
    "]",
    "(",
    ")",
    "-1",
    "1e999",
    "nan",
    "true",
    "type",
    "a",
    "in",
    "s(9)",
    "relu",
    "\u00e9",
    ":",
    ",",
]


def _damaged(rng: random.Random) -> str:
    lines = BASE.splitlines()
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(lines))
        action = rng.randrange(4)
        if action == 0:
            del lines[place]
        elif action == 1:
            lines.insert(rng.randrange(len(lines)), lines[place])
        elif action == 2:
            key, _, value = lines[place].partition("=")
            lines[place] = f"{key}={rng.choice([value + rng.choice(WORDS), rng.choice(WORDS)])}"
        else:
            cut = rng.randrange(len(lines[place]) + 1)
            lines[place] = lines[place][:cut] + rng.choice(WORDS) + lines[place][cut:]
        lines = lines or [""]
    return "\n".join(lines)


def _check(seeds: range) -> int:
    refused = 0
    for seed in seeds:
        text = _damaged(random.Random(seed))
        try:
            load_text(text)
        except DescriptionError:
            refused += 1
    return refused


def test_damaged_texts() -> None:
    load_text(BASE)
    assert 200 < _check(range(400)) < 400


@pytest.mark.fuzz
def test_many_damaged_texts() -> None:
    assert 20000 < _check(range(1000, 41000)) < 40000


@pytest.mark.parametrize(
    "text", ["", "\n", "[Model]", "[", "[]\n", "x", MODEL + SGD + "[]\ntype = input\n" + IN, "[Model]\nx"]
)
def test_hardly_anything(text: str) -> None:
    with pytest.raises(DescriptionError):
        load_text(text)


def test_shapes_of_input_layers_that_recursion_would_not_survive() -> None:
    with suppress(DescriptionError):
        load_text(MODEL + "".join(dense(f"n{i}", f"n{(i + 1) % 3000}") for i in range(3000)))
    with pytest.raises(DescriptionError, match="in a circle"):
        load_text("[Model]\nepochs = 1\n" + IN + "".join(dense(f"n{i}", f"n{(i + 1) % 300}") for i in range(300)))
