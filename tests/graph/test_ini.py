"""INI text <-> sections: lexical rules by table and by files, faults with their lines, and what users reported."""

from __future__ import annotations

import configparser
import json
import os
import re
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared import shared_files

from nntrainer_py.errors import DescriptionError, Faults
from nntrainer_py.graph.ini import (
    LARGEST_FILE,
    LONGEST_JOINED,
    LONGEST_LINE,
    Entry,
    IniFile,
    Section,
    dump,
    parse,
    read,
)

FILES = Path(__file__).parent.parent / "ini" / "lexical"


def _content(file: IniFile) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(s.name, [(e.key, e.value) for e in s.entries]) for s in file.sections]


def _value(text: str) -> str:
    (section,) = parse(f"[s]\nkey ={text}\n").sections
    (entry,) = section.entries
    return entry.value


@pytest.mark.parametrize("path", sorted((FILES / "good").glob("*.ini")), ids=lambda p: p.stem)
def test_good_files(path: Path) -> None:
    file = read(path)
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert [[s.name, s.line, [[e.key, e.value, e.line] for e in s.entries]] for s in file.sections] == expected
    assert file.path == str(path)


@pytest.mark.parametrize("path", sorted((FILES / "bad").glob("*.ini")), ids=lambda p: p.stem)
def test_bad_files_report_every_fault_with_its_line(path: Path) -> None:
    expected = re.findall(r"^# expect (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    with pytest.raises(DescriptionError) as caught:
        read(path)
    assert str(caught.value).splitlines() == [f"{path}:{line}" for line in expected]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1", "1"),
        ("  a b\t", "a b"),
        ("a#b", "a"),
        ("a ;b", "a"),
        ("'a#b'", "a#b"),
        ('"a;b" # c', "a;b"),
        ('" a "', " a "),
        ("'a\"b'", 'a"b'),
        ('"it\'s"', "it's"),
        (r'"a\"b"', 'a"b'),
        (r'"a\\b"', r"a\b"),
        (r'"a\b"', r"a\b"),
        ("a=b", "a=b"),
        ("a\tb", "a\tb"),
        ("%(x)s ${y} %", "%(x)s ${y} %"),
        ("it's", "it's"),
        ("\ud55c\uae00/e\u0301\U0001f642", "\ud55c\uae00/e\u0301\U0001f642"),
        ("a\u00a0b\u2028c\x85d\x0ce", "a\u00a0b\u2028c\x85d\x0ce"),
        ("1,\\\n2,\\ \n3", "1,2,3"),
        ("1\\\n", "1"),
    ],
)
def test_values(written: str, value: str) -> None:
    assert _value(written) == value


def test_a_backslash_at_the_very_end_is_a_value() -> None:
    assert parse("[s]\nkey = a\\").sections[0].entries[0].value == "a\\"


def test_keys_and_sections_compare_without_case_and_keep_their_spelling() -> None:
    file = parse("[Conv1]\nUnit = A\n", "m.ini")
    section = file.get("CONV1")
    assert section is not None
    assert (section.name, section.title) == ("conv1", "Conv1")
    entry = section.get("UNIT")
    assert entry is not None
    assert (entry.key, entry.value) == ("unit", "A")
    assert section.get("nothing") is None
    assert file.get("nothing") is None
    assert [(k, v, str(o)) for k, v, o in file.items(section)] == [("unit", "A", "m.ini:2: [Conv1]")]
    assert str(file.origin(section)) == "m.ini:1: [Conv1]"


@pytest.mark.parametrize(
    ("text", "notices"),
    [
        ("[s]\na = run#1\n", ["2: [s] a: the value ends before '#'; a value that holds it needs quotes"]),
        ("[s]\na = 1 # c\nb = 'x#y'#c\n", []),
        ("[s]\na = 'q' rest ; c\n", ["2: [s] a: the text 'rest' after the closing quote is ignored"]),
        (
            "[s]\n# c \\\nb = 1\na = 2\n",
            ["3: [s] the comment on line 2 ends in a backslash, so this line is part of it"],
        ),
        (
            "[s]\na = 1 ; c \\\nb = 1\n",
            ["3: [s] the comment on line 2 ends in a backslash, so this line is part of it"],
        ),
        ("[s]\na = 1, \\\n2 # c\n# d \\\n\n", []),
    ],
)
def test_what_is_read_with_a_warning(text: str, notices: list[str]) -> None:
    file = parse(text, "m.ini")
    assert [str(n) for n in file.notices] == [f"warning: m.ini:{n}" for n in notices]


def test_faults_may_be_gathered_with_those_of_others() -> None:
    faults = Faults()
    faults.warn("earlier")
    file = parse("[a]\nb\nc = 1 | d = 2\ne = 'x' y\n", "m.ini", faults)
    assert _content(file) == [("a", [("c", "1"), ("d", "2"), ("e", "x")])]
    assert len(faults) == len(file.notices) == 1


# --- files that are no text, or too much of it


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("[a]\nb = 1\n".encode("utf-16"), "encoded as UTF-16 or UTF-32; save the file as UTF-8"),
        ("[a]\nb = 1\n".encode("utf-16-le"), "encoded as UTF-16 or UTF-32; save the file as UTF-8"),
        ("[a]\nb = 1\n".encode("utf-16-be"), "encoded as UTF-16 or UTF-32; save the file as UTF-8"),
        ("[a]\nb = 1\n".encode("utf-32"), "encoded as UTF-16 or UTF-32; save the file as UTF-8"),
        (b"[a]\nb = 1\nc = x\0y\n", ":3: [a] expected text, got a NUL byte"),
        (b"[a]\nb = 1\nc = \xe9.bin\n", ":3: [a] c: expected UTF-8 text; save the file as UTF-8"),
        (b"[\xe9]\nb = 1\n", ":1: [\\udce9] expected [name], got '[\\udce9]'"),
        (b"[a]\n\xe9 = 1\n", ":2: [a] expected 'key = value', a [section] or a comment, got '\\udce9 = 1'"),
        (b"[a]\nb = " + b"1" * LONGEST_LINE, f":2: [a] expected a line of at most {LONGEST_LINE} characters"),
        (b"[a]\nb = \\\n" + b"1,\\\n" * LONGEST_JOINED, f"expected a line of at most {LONGEST_JOINED} characters"),
        (b"#" * (LARGEST_FILE + 1), f"larger than {LARGEST_FILE} bytes, which no model file is"),
    ],
    ids=["utf-16", "utf-16-le", "utf-16-be", "utf-32", "nul", "latin-1", "section", "key", "line", "joined", "file"],
)
def test_data_that_is_no_model_file(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "m.ini"
    path.write_bytes(data)
    started = time.perf_counter()
    with pytest.raises(DescriptionError) as caught:
        read(path)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert time.perf_counter() - started < 2


def test_bytes_of_another_encoding_may_stand_in_comments(tmp_path: Path) -> None:
    path = tmp_path / "m.ini"
    path.write_bytes("# 학습\n[a] ; 층\nb = 1 # 값\n".encode("euc-kr"))
    assert _content(read(path)) == [("a", [("b", "1")])]


def test_what_cannot_be_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.ini")
    for name, reason in [
        ("missing.ini", "cannot be read: No such file or directory"),
        (".", "not a regular file"),
        ("pipe.ini", "not a regular file"),
        ("a\0b.ini", "cannot be read: "),
        ("n" * 300, "cannot be read: File name too long"),
    ]:
        with pytest.raises(DescriptionError) as caught:
            read(os.path.join(tmp_path, name))
        assert reason in str(caught.value)
        assert caught.value.exit_code == 2


def test_an_empty_file_has_no_sections(tmp_path: Path) -> None:
    (tmp_path / "m.ini").touch()
    assert read(tmp_path / "m.ini").sections == []


# --- reports of users

PLAIN = """[Model]
Type = NeuralNetwork
save_path = "run#1.bin"
fsu_path = 'a;b'
[fc]
type = fully_connected
unit = 10
kernel_size = 3, 3
"""


def _variants_of_line_ends() -> dict[str, bytes]:
    mixed = "".join(line + end for line, end in zip(PLAIN.splitlines(), ["\r\n", "\r", "\n"] * 3, strict=False))
    return {
        "crlf": PLAIN.replace("\n", "\r\n").encode(),
        "cr": PLAIN.replace("\n", "\r").encode(),
        "mixed": mixed.encode(),
        "no final newline": PLAIN.rstrip("\n").replace("\n", "\r\n").encode(),
        "bom": b"\xef\xbb\xbf" + PLAIN.encode(),
        "bom and crlf": b"\xef\xbb\xbf" + PLAIN.replace("\n", "\r\n").encode(),
        "blank lines": PLAIN.replace("\n", "\n \t\n\n").encode(),
        "indented": PLAIN.replace("\n", "\n\t ").encode(),
    }


@pytest.mark.parametrize("variant", _variants_of_line_ends())
def test_u002_line_ends(tmp_path: Path, variant: str) -> None:
    path = tmp_path / "m.ini"
    path.write_bytes(_variants_of_line_ends()[variant])
    assert _content(read(path)) == _content(parse(PLAIN))


@pytest.mark.parametrize("ending", ["\t# note = 7 ; x", " ;x", "\t;", "  # [section] | key = 'v"])
def test_u004_trailing_comments(ending: str) -> None:
    commented = "".join(f"{line}{ending}\n" for line in PLAIN.splitlines())
    file = parse(commented)
    assert _content(file) == _content(parse(PLAIN))
    assert file.get("model").get("save_path").value == "run#1.bin"  # type: ignore[union-attr]
    assert file.notices == []


def test_u005_writing_is_idempotent() -> None:
    once = dump(parse(PLAIN).sections)
    twice = dump(parse(once).sections)
    assert once == twice
    assert _content(parse(once)) == _content(parse(PLAIN))
    assert once == (
        '[Model]\ntype = NeuralNetwork\nsave_path = "run#1.bin"\nfsu_path = "a;b"\n\n'
        "[fc]\ntype = fully_connected\nunit = 10\nkernel_size = 3, 3\n"
    )


def test_u005_duplicates_name_both_lines() -> None:
    with pytest.raises(DescriptionError) as caught:
        parse("[a]\nunit = 1\nUNIT = 2\n[b]\nc = 1\n[A]\nunit = 1\n", "m.ini")
    assert str(caught.value).splitlines() == [
        "m.ini:3: [a] unit: set on line 2 already",
        "m.ini:6: [A] the section stands on line 1 already",
    ]


def test_u007_percent_and_dollar_are_ordinary() -> None:
    text = "# 100 % sure, $HOME\n[model]\nsave_path = out/60% keyboard/$x/m.bin ; %(y)s\n"
    assert _content(parse(text)) == [("model", [("save_path", "out/60% keyboard/$x/m.bin")])]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_u061_names_of_every_script(tmp_path: Path, form: str) -> None:
    folder = tmp_path / unicodedata.normalize(form, "한글 é🙂 'quote\"")
    folder.mkdir()
    name = unicodedata.normalize(form, "모델 é")
    path = folder / (name + "x" * (246 - len(name.encode())) + ".ini")
    value = unicodedata.normalize(form, "데이터/é 🙂.dat")
    path.write_text(f"[train_set]\npath = {value}\noops\n", encoding="utf-8")
    faults = Faults()
    file = read(path, faults)
    assert file.sections[0].entries[0].value == value
    assert str(faults.faults[0]).startswith(f"{path}:3: [train_set] ")


# --- writing


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("3,3", "3,3"),
        ('it\'s a [1] "b" 60%', 'it\'s a [1] "b" 60%'),
        ("a#b", '"a#b"'),
        ("a|b", '"a|b"'),
        (" a", '" a"'),
        ("'a'", "\"'a'\""),
        ('"', '"\\""'),
        ("a\\", '"a\\\\"'),
        ("a\\b", "a\\b"),
    ],
)
def test_values_are_quoted_where_they_need_it(value: str, written: str) -> None:
    text = dump([Section("s", entries=[Entry("key", value)])])
    assert text == f"[s]\nkey = {written}\n"
    assert _content(parse(text)) == [("s", [("key", value)])]


def test_long_values_are_continued() -> None:
    value = ",".join(f"layer{i}({i})" for i in range(2000))
    text = dump([Section("s", entries=[Entry("input_layers", value)])])
    assert max(map(len, text.splitlines())) <= LONGEST_LINE
    assert _content(parse(text)) == [("s", [("input_layers", value)])]


@pytest.mark.parametrize(
    "section",
    [
        Section("s"),
        Section("a]b", entries=[Entry("key", "a")]),
        Section("a\nb", entries=[Entry("key", "a")]),
        Section(" a", entries=[Entry("key", "a")]),
        Section("s", entries=[Entry("key", "")]),
        Section("s", entries=[Entry("key", " ")]),
        Section("s", entries=[Entry("key", "a\nb")]),
        Section("s", entries=[Entry("key", "a\0b")]),
        Section("s", entries=[Entry("", "a")]),
        Section("s", entries=[Entry("a=b", "a")]),
        Section("s", entries=[Entry("[a", "a")]),
    ],
    ids=repr,
)
def test_what_cannot_be_written_is_refused(section: Section) -> None:
    with pytest.raises(DescriptionError, match="cannot be written"):
        dump([section])


_LINE = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=3000)


@settings(max_examples=200, deadline=None)
@given(st.lists(_LINE.filter(lambda text: text.strip(" \t\v\f") != ""), min_size=1, max_size=4))
def test_any_value_survives_writing_and_reading(values: list[str]) -> None:
    sections = [Section("s", entries=[Entry(f"key{i}", value) for i, value in enumerate(values)])]
    text = dump(sections)
    file = parse(text)
    assert [e.value for e in file.sections[0].entries] == values
    assert dump(file.sections) == text


_PIECES = st.sampled_from(
    ["[", "]", "a", "=", "#", ";", "|", '"', "'", "\\", "\n", "\r", " ", "\t", "[a]\n", "b = 1\n", "\ud800"]
)


@settings(max_examples=500, deadline=None)
@given(st.lists(_PIECES, max_size=60).map("".join))
def test_any_text_is_a_file_or_a_description_error(text: str) -> None:
    faults = Faults()
    file = parse(text, "", faults)
    assert all(0 < fault.line <= text.count("\n") + text.count("\r") + 1 for fault in [*faults, *faults.notices])
    if not faults:
        assert _content(parse(dump(file.sections))) == _content(file)


@pytest.mark.parametrize("path", shared_files("ini/*.ini"), ids=lambda p: p.stem)
def test_public_files_are_read_whole_and_survive(path: Path) -> None:
    file = read(path)
    assert _content(parse(dump(file.sections))) == _content(file)
    # the standard library's reader agrees on files this plain; it knows neither quotes nor a section without a name
    reference = configparser.ConfigParser(interpolation=None, delimiters="=", inline_comment_prefixes=("#", ";"))
    reference.read_string(path.read_text(encoding="utf-8").replace("[]", "[no name]"))
    expected = [(s, [(k, v.strip("\"'")) for k, v in reference.items(s)]) for s in reference.sections()]
    assert _content(file) == [("" if s == "no name" else s.lower(), entries) for s, entries in expected]
