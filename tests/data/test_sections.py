"""The dataset sections of an INI file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nntrainer_py.data.sections import SECTIONS, FileSection, OldDatasetSection, resolve
from nntrainer_py.data.sources import KINDS
from nntrainer_py.errors import DataError, Faults, Origin

WHERE = Origin("model.ini", 5, "train_set")


def section(kind, **texts):
    faults = Faults()
    found = SECTIONS[kind].from_texts([(key, text, WHERE) for key, text in texts.items()], faults, WHERE)
    return found, [str(fault) for fault in faults]


def open_(kind, folder, **texts):
    found, faults = section(kind, **texts)
    assert not faults
    return found.open(resolve(found.given_paths(), folder), origin=WHERE)


def test_every_kind_has_a_section():
    assert tuple(SECTIONS) == KINDS


def test_defaults():
    found, _ = section("file", path="a.dat")
    assert (found.buffer_size, found.drop_last, found.normalization) == (1, False, "none")
    assert [found.shuffled(role) for role in ("train", "valid", "test")] == [True, False, False]
    assert [section("csv", path="a", shuffle="false")[0].shuffled(role) for role in ("train", "valid")] == [
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("kind", "texts", "words"),
    [
        ("file", {}, "path: required"),
        ("file", {"path": "a", "buffer_size": "0"}, "buffer_size: expected"),
        ("file", {"path": "a", "BufferSize": "5"}, "BufferSize: unknown property of file; did you mean 'buffer_size'?"),
        ("csv", {"path": "a", "delimiter": "ab"}, "delimiter: expected one character, tab or space, got 'ab'"),
        ("csv", {"path": "a", "normalization": "standrad"}, "did you mean 'standard'"),
        ("npz", {"path": "a", "label_column": "x"}, "unknown property of npz"),
    ],
)
def test_faults(kind, texts, words):
    found, faults = section(kind, **texts)
    assert found is None
    assert len(faults) == 1
    assert faults[0].startswith("model.ini:5: [train_set]")
    assert words in faults[0]


@pytest.mark.parametrize("kind", ["file", "csv", "npz", "npy", "idx", "image_folder"])
def test_missing_data_is_named_with_section_key_and_path(tmp_path, kind):
    """U008 (sections)."""
    pytest.importorskip("PIL")
    with pytest.raises(DataError) as caught:
        open_(kind, tmp_path, path="no such/데이터 50%$x.bin")
    assert str(caught.value).startswith(
        f"model.ini:5: [train_set] path: {tmp_path}/no such/데이터 50%$x.bin: no such file"
    )


def test_label_path_is_named(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((2, 3)))
    with pytest.raises(DataError, match=r"^model.ini:5: \[train_set\] label_path: .*y\.npy: no such file"):
        open_("npy", tmp_path, path="x.npy", label_path="y.npy")


def test_options_arrive(tmp_path):
    (tmp_path / "a.csv").write_text("kind|p q\nb|1 \na|2\n")
    data = open_("csv", tmp_path, path="a.csv", label="kind", delimiter="|")
    assert data.class_names == ("a", "b")
    assert data.columns == ["p q", "kind"]
    assert len(open_("csv", tmp_path, path="a.csv", label_column="0", header="true", delimiter="|")) == 2
    np.savez(tmp_path / "a.npz", p=np.zeros((2, 3)), q=np.zeros((2, 1)))
    assert open_("npz", tmp_path, path="a.npz", inputs="p", labels="q").input_dims == [(1, 1, 3)]
    (tmp_path / "a.dat").write_bytes(np.array([1, 2, 0, 3, 4, 1], "<f4").tobytes())
    data = open_("file", tmp_path, path="a.dat", integer_labels="true")
    data.bind([(1, 1, 2)], [(1, 1, 2)])
    assert len(data) == 2


def test_absolute_paths_stay():
    assert resolve({"path": "/data/a.dat", "label_path": "b"}, Path("/ini")) == {
        "path": Path("/data/a.dat"),
        "label_path": Path("/ini/b"),
    }


def test_old_form():
    faults = Faults()
    texts = {"BufferSize": "10", "TrainData": "t.dat", "ValidData": "v.dat", "LabelData": "label.dat"}
    old = OldDatasetSection.from_texts([(k, v, WHERE) for k, v in texts.items()], faults, WHERE)
    assert not faults
    train, valid, test = (old.section(role) for role in ("train", "valid", "test"))
    assert isinstance(train, FileSection)
    assert (train.path, train.buffer_size, valid.path, test) == ("t.dat", 10, "v.dat", None)
    assert OldDatasetSection.from_texts([("ValidData", "v.dat", WHERE)], faults, WHERE) is None
    assert "traindata: required" in str(faults.faults[0])
