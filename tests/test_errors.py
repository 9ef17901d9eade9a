"""Messages, exit codes and the collector of faults."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nntrainer_py import errors
from nntrainer_py.errors import (
    DataError,
    DescriptionError,
    Fault,
    Faults,
    InterruptedRun,
    MissingExtraError,
    NNTrainerError,
    Notice,
    NumericalError,
    Origin,
    PropertyError,
    UsageError,
    counted,
    did_you_mean,
    nearest,
    quoted,
)

EXPECTED = "expected 2 positive integers, got '5'"


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (
            Fault("model.ini", 27, "conv1", "kernel_size", EXPECTED),
            f"model.ini:27: [conv1] kernel_size: {EXPECTED}",
        ),
        (Fault("model.ini", 27, "conv1", "", "is empty"), "model.ini:27: [conv1] is empty"),
        (Fault("model.ini", 27, "", "backbone", "is missing"), "model.ini:27: [] backbone: is missing"),
        (Fault("model.ini", 27, None, "", "no line"), "model.ini:27: no line"),
        (Fault("model.ini", 27, None, "unit", "no section"), "model.ini:27: unit: no section"),
        (Fault("model.ini", 0, None, "", "no such file"), "model.ini: no such file"),
        (Fault("", 0, "conv1", "unit", "required"), "[conv1] unit: required"),
        (Fault("", 3, "conv1", "unit", "required"), "line 3: [conv1] unit: required"),
        (Fault("", 0, None, "unit", "required"), "unit: required"),
        (Fault("", 0, None, "", "wrong"), "wrong"),
        (Fault("한글 é🙂.ini", 1, "층", "unit", "x"), "한글 é🙂.ini:1: [층] unit: x"),
        (Fault("a\x1b[31m\n.ini", 1, None, "", "x"), "a\\x1b[31m\\n.ini:1: x"),
        (Notice("m.ini", 2, "model", "type", "ignored"), "warning: m.ini:2: [model] type: ignored"),
    ],
)
def test_a_fault_follows_the_grammar(fault: Fault, text: str) -> None:
    assert str(fault) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("5", "'5'"),
        (5, "5"),
        ((1, 2), "(1, 2)"),
        ("h\u00e9 한글", "'h\u00e9 한글'"),
        ("a\tb\x00", "'a\\tb\\x00'"),
        ("\udcff", "'\\udcff'"),
        ("x" * 100, f"'{'x' * 80}... (100 characters)'"),
        pytest.param(10**5000, "a int too long to show", id="huge"),
    ],
)
def test_found_values_are_shown_short_and_printable(value: object, text: str) -> None:
    assert quoted(value) == text


@pytest.mark.parametrize(
    ("word", "words", "match"),
    [
        ("unitt", ["unit", "units_x", "bias"], "unit"),
        ("--bogus", ["--out", "--set", "-h"], None),
        ("--epocs", ["--out", "--epochs"], "--epochs"),
        ("-epochs", ["--out", "--epochs"], "--epochs"),
        ("crossentropy", ["cosine_distance", "cross", "mse"], "cross"),
        ("msee_and_more", ["cross", "mse"], None),
        ("CONV2", ["conv2d", "pooling2d"], "conv2d"),
        ("fully_conected", ["fully_connected", "flatten"], "fully_connected"),
        ("zzz", ["conv2d"], None),
        ("", ["conv2d"], None),
        ("x" * 100_000, ["conv2d"], None),
    ],
)
def test_nearest_known_word(word: str, words: list[str], match: str | None) -> None:
    assert nearest(word, words) == match
    assert did_you_mean(word, words) == (f"; did you mean '{match}'?" if match else "")


def _subclasses(cls: type[NNTrainerError]) -> set[type[NNTrainerError]]:
    direct = cls.__subclasses__()
    return {cls}.union(*(_subclasses(c) for c in direct)) if direct else {cls}


def test_every_error_has_an_exit_code_and_stands_in_the_drawing() -> None:
    ours = {c for c in _subclasses(NNTrainerError) if c.__module__ == errors.__name__}
    for cls in ours:
        assert cls.exit_code in {2, 3, 4, 130}
        (line,) = [x for x in (errors.__doc__ or "").splitlines() if x.strip("|+- ").startswith(cls.__name__ + " ")]
        assert f"[{cls.exit_code}]" in line


def test_exit_codes_by_meaning() -> None:
    assert DescriptionError("x").exit_code == UsageError("x").exit_code == 2
    assert DataError("x").exit_code == 3
    assert NumericalError("x").exit_code == 4
    assert InterruptedRun().exit_code == 130
    assert InterruptedRun(signal=15).exit_code == 143
    assert InterruptedRun.exit_code == 130


def test_missing_extra_names_the_command_that_installs_it() -> None:
    message = str(MissingExtraError("plot", "drawing curves"))
    assert message == 'drawing curves needs an optional library; install it with: pip install "nntrainer_py[plot]"'


def test_a_late_error_learns_its_place_once() -> None:
    error = PropertyError("a positive integer", -1)
    assert str(error) == "expected a positive integer, got -1"
    assert isinstance(error, ValueError)
    error.located(Origin("m.ini", 3, "fc"), "unit")
    error.located(Origin("other.ini", 9, "x"), "other")
    assert str(error) == "m.ini:3: [fc] unit: expected a positive integer, got -1"


def test_a_description_error_carries_every_fault() -> None:
    first, second = Fault("m.ini", 1, "a", "k", "x"), Fault("", 0, None, "", "y")
    error = DescriptionError([first, second]).located(Origin("m.ini", 7, "b"), "z")
    assert error.faults == [first, Fault("m.ini", 7, "b", "z", "y")]
    assert str(error) == "m.ini:1: [a] k: x\nm.ini:7: [b] z: y"


def test_faults_are_gathered_and_raised_in_order() -> None:
    faults = Faults()
    faults.raise_if_any()
    origin = Origin("m.ini", 5, "fc")
    with faults.gather(origin, "unit"):
        raise PropertyError("a positive integer", "0")
    faults.add("unknown", Origin("m.ini", 2, "model"), "epoch")
    faults.add("missing", Origin("m.ini"))
    faults.add("unknown", Origin("m.ini", 2, "model"), "epoch")
    faults.warn("ignored", origin, "type")
    assert len(faults) == 4
    assert faults
    with pytest.raises(DescriptionError) as caught:
        faults.raise_if_any()
    assert str(caught.value).splitlines() == [
        "m.ini:2: [model] epoch: unknown",
        "m.ini:5: [fc] unit: expected a positive integer, got '0'",
        "m.ini: missing",
    ]
    assert [str(n) for n in faults.notices] == ["warning: m.ini:5: [fc] type: ignored"]


def test_gathering_lets_foreign_errors_pass() -> None:
    faults = Faults()
    with pytest.raises(DataError), faults.gather():
        raise DataError("unreadable")
    with pytest.raises(ZeroDivisionError), faults.gather():
        raise ZeroDivisionError
    assert not faults


def test_numbers_of_things() -> None:
    assert [counted(number, "epoch") for number in (0, 1, 2)] == ["0 epochs", "1 epoch", "2 epochs"]
    assert counted(1, "batch", "batches") == "1 batch"
    assert counted(3, "batch", "batches") == "3 batches"


#: a number and a noun in a text, such as {count} samples; counted() gives both
_PLURAL = re.compile(
    r"(?<!of )\{[^{}\"':]+\} (?:epoch|step|sample|tensor|value|kernel|folder|prediction|input|output|label|file)s\b"
)


def test_no_message_counts_one_things() -> None:
    """Texts about runs, data and files number things through `counted`: "1 epochs" is told nowhere."""
    package = Path(errors.__file__).parent
    texts = {path.relative_to(package): path.read_text(encoding="utf-8") for path in package.rglob("*.py")}
    found = [
        f"{path}: {match[0]}"
        for path, text in texts.items()
        if path.parts[0] in ("cli", "data", "formats", "memory", "training")
        for line in text.splitlines()
        if 'f"' in line
        for match in _PLURAL.finditer(line)
    ]
    assert found == []
