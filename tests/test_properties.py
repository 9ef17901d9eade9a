"""Properties: syntax tables written by hand, tests generated from the examples of each kind, and `Configurable`."""

from __future__ import annotations

import enum as python_enum
import math
import struct
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nntrainer_py.errors import DescriptionError, Faults, Origin, PropertyError, UsageError
from nntrainer_py.properties import (
    Configurable,
    Connection,
    Property,
    boolean,
    connection,
    connections,
    dtype,
    enum,
    int_list,
    integer,
    name,
    number,
    number_list,
    padding1d,
    padding2d,
    path,
    positive_int,
    shape,
    shapes,
    string,
    unsigned_int,
)

WORDS = ("relu", "Sigmoid_GELU", "none")
KINDS: dict[str, Property[Any]] = {
    "boolean": boolean(doc="d"),
    "positive_int": positive_int(doc="d"),
    "positive_int to 10": positive_int(doc="d", maximum=10),
    "unsigned_int": unsigned_int(doc="d"),
    "integer": integer(doc="d"),
    "integer -5..3": integer(doc="d", minimum=-5, maximum=3),
    "number": number(doc="d"),
    "number >= 0": number(doc="d", minimum=0),
    "number in (0, 1)": number(doc="d", above=0, below=1),
    "number in [0, 1]": number(doc="d", minimum=0, maximum=1),
    "number != 0": number(doc="d", nonzero=True),
    "enum": enum(WORDS, doc="d", aliases={"quick_gelu": "Sigmoid_GELU"}),
    "dtype": dtype(doc="d"),
    "string": string(doc="d"),
    "path": path(doc="d"),
    "name": name(doc="d"),
    "connection": connection(doc="d"),
    "connections": connections(doc="d"),
    "shape": shape(doc="d"),
    "shape with batch": shape(doc="d", keep_batch=True),
    "shapes": shapes(doc="d"),
    "2 positive integers": int_list(doc="d", length=2),
    "1 or 3 unsigned": int_list(doc="d", length=(1, 3), sign="unsigned"),
    "integers": int_list(doc="d", sign="any"),
    "numbers": number_list(doc="d"),
    "2 numbers >= 0": number_list(doc="d", length=2, minimum=0),
    "padding2d": padding2d(doc="d"),
    "padding1d": padding1d(doc="d"),
}
GOOD = [(kind, text) for kind, declared in KINDS.items() for text in declared.good_examples()]
BAD = [(kind, text) for kind, declared in KINDS.items() for text in declared.bad_examples()]


def _ids(cases: list[tuple[str, str]]) -> list[str]:
    return [f"{kind}-{number}" for number, (kind, _) in enumerate(cases)]


@pytest.mark.parametrize(("kind", "text"), GOOD, ids=_ids(GOOD))
def test_good_examples_are_accepted_and_survive_a_round_trip(kind: str, text: str) -> None:
    declared = KINDS[kind]
    value = declared.parse(text)
    written = declared.format(value)
    assert declared.parse(written) == value
    assert declared.format(declared.parse(written)) == written
    assert declared.check(value) == value
    assert declared.check(text) == value


@pytest.mark.parametrize(("kind", "text"), BAD, ids=_ids(BAD))
def test_bad_examples_are_refused_with_expectation_and_finding(kind: str, text: str) -> None:
    for accept in (KINDS[kind].parse, KINDS[kind].check):
        with pytest.raises(PropertyError) as caught:
            accept(text)
        assert caught.value.found == text
        assert caught.value.message.startswith(f"expected {caught.value.expectation}, got '")
        assert len(caught.value.message) < 500


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_describes_itself_and_has_both_examples(kind: str) -> None:
    assert KINDS[kind].describe()
    assert KINDS[kind].good_examples()
    assert KINDS[kind].bad_examples()
    for foreign in (None, object(), b"1", {"a": 1}, {1}):
        with pytest.raises(PropertyError):
            KINDS[kind].kind.check(foreign)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("boolean", "TRUE", True),
        ("boolean", "False", False),
        ("positive_int", "[ 1 0 ]", 10),
        ("positive_int", "+7", 7),
        ("positive_int", "007", 7),
        ("positive_int", "4294967295", 4294967295),
        ("integer", "-12", -12),
        ("number", "1e-4", 0.0001),
        ("number", ".5", 0.5),
        ("number", "5.", 5.0),
        ("number", "-2E+3", -2000.0),
        ("number", "[0. 25]", 0.25),
        ("enum", "SIGMOID_gelu", "Sigmoid_GELU"),
        ("enum", "quick_GELU", "Sigmoid_GELU"),
        ("dtype", "fp32", "FP32"),
        ("dtype", "q4_k", "Q4_K"),
        ("path", "out/60% keyboard/$x/[1] 'm'.bin", "out/60% keyboard/$x/[1] 'm'.bin"),
        ("path", "C:\\a=b|c", "C:\\a=b|c"),
        ("name", "Block/Conv-1.A_b", "block/conv-1.a_b"),
        ("connection", "Split(1)", Connection("split", 1)),
        ("connection", "a", Connection("a", 0)),
        ("connection", "a(0)", Connection("a", 0)),
        ("connections", "a, b (2)", (Connection("a"), Connection("b", 2))),
        ("shape", "10", (1, 1, 1, 10)),
        ("shape", "2:10", (1, 1, 2, 10)),
        ("shape", "3:2:10", (1, 3, 2, 10)),
        ("shape", "1:3:2:10", (1, 3, 2, 10)),
        ("shape with batch", "4:3:2:10", (4, 3, 2, 10)),
        ("shapes", "1:1:2, 3:4:5", ((1, 1, 1, 2), (1, 3, 4, 5))),
        ("2 positive integers", "[3, 3]", (3, 3)),
        ("1 or 3 unsigned", "0,1,2", (0, 1, 2)),
        ("integers", "-1,0,1", (-1, 0, 1)),
        ("numbers", "0.1, 1e-3", (0.1, 0.001)),
        ("padding2d", "valid", (0, 0, 0, 0)),
        ("padding2d", "Same", "same"),
        ("padding2d", "1", (1, 1, 1, 1)),
        ("padding2d", "1,2", (1, 1, 2, 2)),
        ("padding2d", "1,2,3,4", (1, 2, 3, 4)),
        ("padding1d", "causal", "causal"),
        ("padding1d", "2", (2, 2)),
        ("padding1d", "2,0", (2, 0)),
    ],
)
def test_text_syntax(kind: str, text: str, value: object) -> None:
    parsed = KINDS[kind].parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


class Colour(python_enum.Enum):
    RELU = "relu"
    BLUE = "blue"


class Dim:
    batch, channel, height, width = 1, 3, 4, 5


class Named:
    name = "Conv1"


@pytest.mark.parametrize(
    ("kind", "given_value", "value"),
    [
        ("boolean", np.True_, True),
        ("positive_int", np.int64(3), 3),
        ("number", 2, 2.0),
        ("number", np.float64(0.1), 0.1),
        ("number", np.float32(0.5), 0.5),
        ("enum", Colour.RELU, "relu"),
        ("path", PurePosixPath("a/b"), "a/b"),
        ("connection", ("a", 1), Connection("a", 1)),
        ("connection", Named(), Connection("conv1")),
        ("connections", ("a", 1), (Connection("a", 1),)),
        ("connections", ["a", ("b", 2)], (Connection("a"), Connection("b", 2))),
        ("connections", Connection("a"), (Connection("a"),)),
        ("shape", 10, (1, 1, 1, 10)),
        ("shape", [3, 4], (1, 1, 3, 4)),
        ("shape", Dim(), (1, 3, 4, 5)),
        ("shapes", (3, 4, 5), ((1, 3, 4, 5),)),
        ("shapes", [(3, 4, 5), "7"], ((1, 3, 4, 5), (1, 1, 1, 7))),
        ("shapes", Dim(), ((1, 3, 4, 5),)),
        ("2 positive integers", np.array([3, 4]), (3, 4)),
        ("numbers", [1, 0.5], (1.0, 0.5)),
        ("padding2d", 2, (2, 2, 2, 2)),
        ("padding2d", [1, 2], (1, 1, 2, 2)),
        ("padding1d", (1, 2), (1, 2)),
    ],
)
def test_python_values(kind: str, given_value: object, value: object) -> None:
    assert KINDS[kind].check(given_value) == value


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("boolean", 1),
        ("positive_int", True),
        ("positive_int", 1.0),
        ("positive_int", 0),
        ("positive_int", 10**5000),
        ("unsigned_int", -1),
        ("number", math.nan),
        ("number", math.inf),
        ("number", True),
        ("number", 1j),
        ("number", 10**400),
        ("enum", Colour.BLUE),
        ("enum", 3),
        ("name", 3),
        ("path", 3),
        ("connection", ("a", -1)),
        ("connections", []),
        ("shape", [1, 2, 3, 4, 5]),
        ("shape", []),
        ("shape", [3, 0]),
        ("shape", [2.0]),
        ("2 positive integers", 3),
        ("2 positive integers", [3]),
        ("2 positive integers", [3, 0]),
        ("padding2d", [1, 2, 3]),
        ("padding2d", -1),
        ("padding1d", [1, 2, 3]),
    ],
    ids=lambda value: str(value)[:20] if not isinstance(value, int) else "",
)
def test_python_values_that_do_not_fit(kind: str, value: object) -> None:
    with pytest.raises(PropertyError):
        KINDS[kind].check(value)


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("2 positive integers", "5", "expected 2 positive integers, got '5'"),
        ("2 positive integers", "5,0", "expected 2 positive integers, got '5,0', where '0' does not fit"),
        ("positive_int", "-1", "expected a positive integer, got '-1'"),
        (
            "positive_int",
            "4294967296",
            "expected a positive integer, got '4294967296'; it must lie between 1 and 4294967295",
        ),
        ("positive_int to 10", "0", "expected a positive integer up to 10, got '0'"),
        ("integer", "x", "expected an integer, got 'x'"),
        ("integer -5..3", "9", "expected an integer from -5 to 3, got '9'; it must lie between -5 and 3"),
        ("unsigned_int", "-1", "expected a non-negative integer, got '-1'"),
        ("number", "nan", "expected a finite number, got 'nan'"),
        ("number in (0, 1)", "1", "expected a number above 0 and below 1, got '1'"),
        ("number in [0, 1]", "2", "expected a number of at least 0 and of at most 1, got '2'"),
        ("number != 0", "0.0", "expected a number other than 0, got '0.0'"),
        ("enum", "rellu", "expected one of relu, Sigmoid_GELU, none, got 'rellu'; did you mean 'relu'?"),
        ("boolean", "yes", "expected true or false, got 'yes'"),
        ("padding2d", "1,2,3", "expected valid, same, or 1, 2 or 4 non-negative integers, got '1,2,3'"),
    ],
)
def test_messages(kind: str, text: str, message: str) -> None:
    with pytest.raises(PropertyError) as caught:
        KINDS[kind].parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("kind", "text", "value", "warning"),
    [
        ("number", "1e-4f", 1e-4, "the suffix 'f' of '1e-4f' is ignored; write 1e-4"),
        ("numbers", "1.5F,2", (1.5, 2.0), "the suffix 'F' of '1.5F' is ignored; write 1.5"),
        (
            "shape",
            "32:3:2:1",
            (1, 3, 2, 1),
            "the batch 32 of the shape 32:3:2:1 is ignored; the batch size is set by batch_size",
        ),
    ],
)
def test_what_is_accepted_with_a_warning(kind: str, text: str, value: object, warning: str) -> None:
    heard: list[str] = []
    assert KINDS[kind].parse(text, heard.append) == value
    assert heard == [warning]
    with pytest.warns(UserWarning, match="ignored"):
        assert KINDS[kind].check(text) == value


@settings(max_examples=300, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_survive_to_the_last_bit(value: float) -> None:
    declared = KINDS["number"]
    assert struct.pack("<d", declared.parse(declared.format(declared.check(value)))) == struct.pack("<d", value)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(KINDS)), st.text(max_size=40))
def test_any_text_is_a_value_or_a_property_error(kind: str, text: str) -> None:
    declared = KINDS[kind]
    try:
        value = declared.parse(text, lambda message: None)
    except PropertyError:
        return
    assert declared.parse(declared.format(value)) == value


class Base(Configurable):
    keyword = "base"
    unit = positive_int(doc="Width.", aliases=("units",))
    rate = number(0.5, doc="Rate.", minimum=0, maximum=1)
    bias = boolean(None, doc="Bias.")


class Derived(Base):
    keyword = "derived"
    rate = number(0.25, doc="Another default.")  # type: ignore[assignment]
    kernel_size = int_list((1, 1), doc="Kernel.", length=2)
    save_path = path(None, doc="File.")


class Without(Derived):
    rate = None  # type: ignore[assignment]


def test_declarations_are_inherited_in_order_and_may_be_replaced_or_dropped() -> None:
    assert list(Base.properties()) == ["unit", "rate", "bias"]
    assert list(Derived.properties()) == ["unit", "rate", "bias", "kernel_size", "save_path"]
    assert list(Without.properties()) == ["unit", "bias", "kernel_size", "save_path"]
    assert (Base(unit=1).rate, Derived(unit=1).rate) == (0.5, 0.25)
    assert [p.describe_default() for p in Derived.properties().values()] == [
        "required",
        "0.25",
        "unset",
        "1,1",
        "unset",
    ]
    with pytest.raises(UsageError, match="unknown property"):
        Without(unit=1, rate=0.5)


def test_constructor_takes_values_and_texts_and_knows_what_was_given() -> None:
    thing = Derived(units="5", kernel_size=[3, 4], bias=None)
    assert (thing.unit, thing.kernel_size, thing.bias, thing.save_path) == (5, (3, 4), None, None)
    assert dict(thing.explicit()) == {"unit": 5, "kernel_size": (3, 4)}
    assert thing.texts() == {"unit": "5", "kernel_size": "3,4"}
    assert repr(thing) == "Derived(unit=5, kernel_size=(3, 4))"
    assert Derived(**thing.texts()).explicit() == thing.explicit()


def test_assignment_checks() -> None:
    thing = Base(unit=1)
    thing.rate = 1
    assert thing.rate == 1.0
    assert isinstance(thing.rate, float)
    with pytest.raises(PropertyError, match=r"rate: expected a number of at least 0 and of at most 1, got 2"):
        thing.rate = 2
    assert thing.rate == 1.0
    assert Base(unit=2).rate == 0.5


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "unit: required, expected a positive integer"),
        ({"unit": 1, "kernel": 2}, "kernel: unknown property of derived; did you mean 'kernel_size'?"),
        ({"unit": 1, "zzz": 2}, "zzz: unknown property of derived"),
        ({"unit": 1, "units": 2}, "unit: given twice, also as 'units'"),
        ({"unit": None}, "unit: expected a positive integer, got None"),
        ({"unit": 1, "kernel_size": 3}, "kernel_size: expected 2 positive integers, got 3"),
    ],
)
def test_constructor_errors(properties: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Derived(**properties)
    assert str(caught.value) == message


def test_a_required_property_without_value_cannot_be_read() -> None:
    with pytest.raises(UsageError, match="unit: required"):
        _ = Base.__new__(Base).unit


def test_a_property_cannot_hide_what_every_configurable_has() -> None:
    # Python 3.11 wraps what __set_name__ raises, 3.12 does not
    with pytest.raises((TypeError, RuntimeError)) as caught:
        type("Bad", (Configurable,), {"explicit": boolean(False, doc="d")})
    assert "a property cannot be called explicit" in f"{caught.value} {caught.value.__cause__}"


def test_a_default_must_fit_its_own_declaration() -> None:
    with pytest.raises(PropertyError):
        positive_int(0, doc="d")
    with pytest.raises(ValueError, match="enum needs"):
        enum(("a", "A"), doc="d")
    with pytest.raises(ValueError, match="enum needs"):
        enum(("a",), doc="d", aliases={"b": "c"})


def _at(line: int) -> Origin:
    return Origin("m.ini", line, "FC")


def test_every_fault_of_a_section_comes_at_once_with_its_line() -> None:
    faults = Faults()
    entries = [
        ("UNIT", "0", _at(2)),
        ("units", "4", _at(3)),
        ("kernel_size", "5", _at(4)),
        ("unitt", "3", _at(5)),
        ("rate", "0.5f", _at(6)),
        ("bias", "maybe", _at(7)),
    ]
    assert Derived.from_texts(entries, faults, _at(1)) is None
    assert [str(f) for f in faults] == [
        "m.ini:2: [FC] unit: expected a positive integer, got '0'",
        "m.ini:3: [FC] units: set on line 2 already, as 'UNIT'",
        "m.ini:4: [FC] kernel_size: expected 2 positive integers, got '5'",
        "m.ini:5: [FC] unitt: unknown property of derived; did you mean 'unit'?",
        "m.ini:7: [FC] bias: expected true or false, got 'maybe'",
    ]
    assert [str(n) for n in faults.notices] == [
        "warning: m.ini:6: [FC] rate: the suffix 'f' of '0.5f' is ignored; write 0.5"
    ]


def test_a_missing_property_is_reported_at_the_section() -> None:
    faults = Faults()
    assert Derived.from_texts([], faults, _at(1)) is None
    assert [str(f) for f in faults] == ["m.ini:1: [FC] unit: required, expected a positive integer"]


def test_a_section_without_fault_gives_the_thing() -> None:
    faults = Faults()
    thing = Derived.from_texts([("Units", "4", _at(2)), ("kernel_size", "[2, 3]", _at(3))], faults, _at(1))
    assert thing is not None
    assert (thing.unit, thing.kernel_size) == (4, (2, 3))
    assert not faults


class Bounds(Configurable):
    low = number(0.0, doc="d")
    high = number(1.0, doc="d")

    def validate(self) -> None:
        if self.low > self.high:
            raise PropertyError("a number of at least low", self.high, key="high")


def test_properties_can_be_checked_against_each_other() -> None:
    with pytest.raises(UsageError, match="high: expected a number of at least low"):
        Bounds(low=2)
    faults = Faults()
    assert Bounds.from_texts([("low", "2", _at(2))], faults, _at(1)) is None
    with pytest.raises(DescriptionError, match=r"m.ini:1: \[FC\] high: expected a number of at least low, got 1.0"):
        faults.raise_if_any()


def test_mypy_sees_the_types_of_values(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    script = tmp_path / "typed.py"
    script.write_text(
        "from nntrainer_py.properties import Configurable, enum, int_list, number, positive_int\n"
        "class A(Configurable):\n"
        "    unit = positive_int(doc='d')\n"
        "    rate = number(None, doc='d')\n"
        "    size = int_list((1, 1), length=2, doc='d')\n"
        "    word = enum(('a', 'b'), default='a', doc='d')\n"
        "reveal_type(A().unit)\nreveal_type(A().rate)\nreveal_type(A().size)\nreveal_type(A().word)\n"
    )
    out, _, _ = api.run([str(script), "--strict", "--cache-dir", str(tmp_path / "cache"), "--follow-imports=silent"])
    revealed = [line.split('"')[1] for line in out.splitlines() if "Revealed type" in line]
    assert [r.replace("builtins.", "") for r in revealed] == ["int", "float | None", "tuple[int, ...]", "str"], out
