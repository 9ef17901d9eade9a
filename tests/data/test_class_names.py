"""Names and numbers for the classes: in one data set, and in one beside the training data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nntrainer_py.data import ArrayDataset, BatchLoader, CsvDataset, ImageDataset
from nntrainer_py.errors import DataError, Origin

WIDE = ([(1, 1, 2)], [(1, 1, 3)])  # one of three classes
NARROW = ([(1, 1, 2)], [(1, 1, 1)])  # one probability, or a number


def table(folder: Path, labels: list[Any], *, header: bool = False, name: str = "valid.csv") -> CsvDataset:
    """A file with the labels, two features before each."""
    lines = ["p,q,kind"] * header + [f"{k},{k + 0.5},{label}" for k, label in enumerate(labels)]
    (folder / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return CsvDataset(folder / name, origin=Origin("m.ini", 9, "valid_set"), key="path")


def classes(data: Any, dims: Any = WIDE, **options: Any) -> list[float]:
    """The label of each sample: the place of the 1 in its row, or the number."""
    data.bind(*dims, **options)
    (batch,) = BatchLoader(data, len(data), buffer_size=0)
    rows = batch.labels[0].reshape(batch.count, -1)
    return (rows.argmax(axis=1) if rows.shape[1] > 1 else rows[:, 0]).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("dims", [WIDE, NARROW])
def test_names_beside_numbers_are_refused(tmp_path: Path, header: bool, dims: Any) -> None:
    data = table(tmp_path, ["dog", "cat"], header=header)
    where = rf"^m\.ini:9: \[valid_set\] path: .*valid\.csv:{1 + header}: "
    with pytest.raises(DataError, match=where + "got the class name 'dog', but .* numbers .*write these numbers"):
        data.bind(*dims, class_names=())


@pytest.mark.parametrize("header", [False, True])
@pytest.mark.parametrize("dims", [WIDE, NARROW])
def test_numbers_beside_names_are_refused(tmp_path: Path, header: bool, dims: Any) -> None:
    data = table(tmp_path, [1, 0], header=header)
    where = rf"^m\.ini:9: \[valid_set\] path: .*valid\.csv:{1 + header}: "
    message = r"expected one of the class names that the model knows \(cat, dog\), got the number 1; write the names"
    with pytest.raises(DataError, match=where + message):
        data.bind(*dims, class_names=["cat", "dog"])


def test_the_first_stranger_is_named_with_its_line(tmp_path: Path) -> None:
    known = ["cat", "dog", "7"]
    with pytest.raises(DataError, match=r":4: expected one of the class names .*\(cat, dog, 7\), got 'cow'"):
        table(tmp_path, ["dog", "cat", "dog", "cow", "ant"]).bind(*WIDE, class_names=known)
    with pytest.raises(DataError, match=r":2: expected one of .*, got the number 8"):
        table(tmp_path, [7, 8, 9, 7]).bind(*WIDE, class_names=known)


def test_case_and_blanks(tmp_path: Path) -> None:
    assert classes(table(tmp_path, [" dog ", "cat"]), class_names=["cat", "dog", "x"]) == [1, 0]
    with pytest.raises(DataError, match=r":1: expected one of .*, got 'Dog'"):
        table(tmp_path, ["Dog"]).bind(*WIDE, class_names=["cat", "dog", "x"])


@pytest.mark.parametrize("spelling", ["{}", "{}.0", "{}e0", "+{}"])
def test_numbers_that_are_names_in_the_training_data(tmp_path: Path, spelling: str) -> None:
    """A word among the training labels makes names of its numbers; a file without it must mean the same classes."""
    train = table(tmp_path, ["10", "2", "none of them"], name="train.csv")
    assert train.class_names == ("10", "2", "none of them")
    valid = table(tmp_path, [spelling.format(k) for k in (2, 10, 2)])
    assert classes(valid, class_names=train.class_names) == [1, 0, 1]
    assert valid.class_names == train.class_names


def test_whole_numbers_in_any_spelling_are_one_class(tmp_path: Path) -> None:
    assert classes(table(tmp_path, ["1.0", "1", "0", "2.00"]), class_names=()) == [1, 1, 0, 2]
    assert classes(table(tmp_path, ["1.0", "1", "0"])) == [1, 1, 0]
    with pytest.raises(DataError, match=r"valid\.csv:2: expected a class index in 0\.\.2, got 1\.5"):
        table(tmp_path, [1, 1.5]).bind(*WIDE, class_names=())


def test_one_number_in_two_spellings_among_names(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r":4: the label '1\.0' is the same number as '1' in line 2, .* two classes"):
        table(tmp_path, ["x", "1", "y", "1.0", "x", "x"])
    assert table(tmp_path, ["x", "01", "y", "10", "x"]).class_names == ("01", "10", "x", "y")


def test_binding_again_with_other_names(tmp_path: Path) -> None:
    """A run binds first to see what fits, and again when it knows the names."""
    data = table(tmp_path, [2, 0, 2])
    assert classes(data) == [2, 0, 2]
    assert classes(data, class_names=["0", "1", "2"]) == [2, 0, 2]
    assert classes(data, class_names=["2", "x", "0"]) == [0, 2, 0]
    assert classes(data, class_names=["x", "0", "2"]) == [2, 1, 2]
    assert classes(data, class_names=()) == [2, 0, 2]
    assert data.class_names is None
    assert classes(data, NARROW) == [2, 0, 2]
    named = table(tmp_path, ["b", "a"])
    assert classes(named) == [1, 0]
    assert classes(named, class_names=["a", "x", "b"]) == [2, 0]
    assert classes(named, class_names=["b", "a", "x"]) == [0, 1]


def test_a_refused_file_stays_as_it_was(tmp_path: Path) -> None:
    data = table(tmp_path, [2, 0, 1])
    with pytest.raises(DataError, match="got the number 1"):
        data.bind(*WIDE, class_names=["2", "0", "x"])
    assert classes(data) == [2, 0, 1]


def test_without_labels_names_do_not_matter(tmp_path: Path) -> None:
    data = table(tmp_path, ["dog", "cat"])
    data.bind(WIDE[0], [], class_names=())
    data.bind(WIDE[0], [], class_names=["x", "y"])


def test_memory_of_names_is_counted(tmp_path: Path) -> None:
    numbers, names = table(tmp_path, [0, 1] * 500), table(tmp_path, ["a", "b"] * 500)
    assert numbers.resident_bytes == 1000 * (3 * 4 + 8)
    assert 4000 <= names.resident_bytes - numbers.resident_bytes <= 5000
    before = numbers.resident_bytes
    numbers.bind(*WIDE, class_names=["0", "1"])
    assert numbers.resident_bytes == before + 4000


def test_text_labels_in_arrays() -> None:
    x = np.zeros((3, 2), np.float32)
    data = ArrayDataset(x, np.array(["1", "0", "2.0"]))
    assert classes(data, class_names=()) == [1, 0, 2]
    with pytest.raises(DataError, match="sample 1: got the class name 'cat'"):
        ArrayDataset(x, np.array(["1", "cat", "2"])).bind(*WIDE, class_names=())
    assert classes(ArrayDataset(x, np.array([1, 0, 2])), class_names=["a", "b", "c"]) == [1, 0, 2]  # indices, as said


def _images(folder: Path, names: list[str]) -> Path:
    pillow = pytest.importorskip("PIL.Image")
    for name in names:
        (folder / name).mkdir(parents=True, exist_ok=True)
        pillow.fromarray(np.zeros((2, 2), np.uint8)).save(folder / name / "a.png")
    return folder


def test_images_in_folders_that_are_numbers(tmp_path: Path) -> None:
    dims = ([(1, 2, 2)], [(1, 1, 11)])
    folder = _images(tmp_path / "digits", ["0", "1", "2", "10"])
    assert sorted(classes(ImageDataset(folder), dims, class_names=())) == [0, 1, 2, 10]  # numbers in the training data
    names = tuple(map(str, range(11)))
    assert sorted(classes(ImageDataset(folder), dims, class_names=names)) == [0, 1, 2, 10]
    other = _images(tmp_path / "other", ["0", "cat"])
    with pytest.raises(DataError, match=r"cat.a\.png: got the class name 'cat', but"):
        ImageDataset(other).bind(*dims, class_names=())


def test_a_list_of_numbers_beside_folders(tmp_path: Path) -> None:
    dims = ([(1, 2, 2)], [(1, 1, 3)])
    _images(tmp_path, ["2", "10"])
    (tmp_path / "list.txt").write_text("2/a.png 2\n10/a.png 10\n", encoding="utf-8")
    data = ImageDataset(tmp_path / "list.txt")
    assert classes(data, dims, class_names=["10", "2", "x"]) == [1, 0]
    with pytest.raises(DataError, match=r"list\.txt:1: expected one of the class names .*cat, dog"):
        data.bind(*dims, class_names=["cat", "dog", "x"])


def test_a_name_too_many_is_told_as_what_it_is(tmp_path: Path) -> None:
    """Not as a class number of an innocent line."""
    labels = ["setosa", "setosa", "virginica", "versicolor", "virginica", "setossa", "setosa"]
    expected = (
        r"4 class names, but the model has 3 outputs: setosa \(3 times\), setossa \(once, {}\), "
        r"versicolor \(once, {}\), virginica \(2 times\); "
        r"correct a name that is misspelt, or give the last layer unit = 4$"
    )
    with pytest.raises(
        DataError, match=r"^m\.ini:9: \[valid_set\] path: .*valid\.csv: " + expected.format("line 7", "line 5")
    ):
        table(tmp_path, labels, header=True).bind(*WIDE)
    x = np.ones((7, 2), np.float32)
    with pytest.raises(DataError, match=r"^data: " + expected.format("sample 5", "sample 3")):
        ArrayDataset(x, np.array(labels), "data").bind(*WIDE)
    table(tmp_path, labels, header=True).bind(WIDE[0], [(1, 1, 4)])
    many = [f"n{k:02}" for k in range(20)] * 2 + ["slip"]
    with pytest.raises(DataError, match=r"21 class names, .*slip \(once, line 41\) and 11 that are no rarer"):
        table(tmp_path, many).bind(*WIDE)


def test_names_for_one_output(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"3 class names, but the model has 1 output for two classes: no \(once, line 2\), "
    ):
        table(tmp_path, ["yes", "no", "yse"]).bind(*NARROW, label_kinds=["probability"])
    assert classes(table(tmp_path, ["yes", "no", "yse"]), NARROW) == [1, 0, 2]


def test_classes_numbered_from_one(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"csv:3: expected a class index in 0\.\.2, got 3; class numbers begin at 0$"):
        table(tmp_path, [1, 2, 3]).bind(*WIDE)
    with pytest.raises(DataError, match=r"csv:2: .* between 0 and 1, got 2 at position 0; class numbers begin at 0$"):
        table(tmp_path, [1, 2, 1]).bind(*NARROW, label_kinds=["probability"])
    with pytest.raises(DataError, match=r"got 7$"):
        table(tmp_path, [1, 2, 7]).bind(*WIDE)


def test_more_outputs_than_names_are_told_once(tmp_path: Path) -> None:
    data, valid = table(tmp_path, ["a", "b", "a"]), table(tmp_path, ["b", "a"])
    for names in (None, None, ("a", "b")):  # as a run binds its training data
        data.bind(*WIDE, class_names=names)
        valid.bind(*WIDE, class_names=("a", "b"))
        (told,) = data.notices
        assert "2 class names, but the model has 3 outputs" in told
    assert not valid.notices
    data.bind(*WIDE, class_names=("a", "b", "c"))  # weights that know another
    assert not data.notices
    for dims in (NARROW, (WIDE[0], [(1, 1, 2)])):
        data.bind(*dims)
        assert not data.notices
    arrays = ArrayDataset(np.ones((2, 2), np.float32), np.array(["a", "b"]))
    arrays.bind(*WIDE)
    assert len(arrays.notices) == 1
