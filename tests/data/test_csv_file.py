"""CSV files: what is read, and what is refused with which line."""

from __future__ import annotations

import numpy as np
import pytest

from nntrainer_py.data import BatchLoader, CsvDataset
from nntrainer_py.errors import DataError, Origin

DIMS = ([(1, 1, 2)], [(1, 1, 3)])


def write(tmp_path, text, name="a.csv"):
    file = tmp_path / name
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file


def rows(data, dims=DIMS, **options):
    data.bind(*dims, **options)
    (batch,) = BatchLoader(data, len(data), buffer_size=0)
    return [a.reshape(batch.count, -1).tolist() for a in (*batch.inputs, *batch.labels)]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize("last", ["", "\n", "\n\n  \n"])
def test_u002_line_ends_byte_order_mark_and_blank_lines(tmp_path, end, start, last):
    """U002 (data): CR LF, lone CR and a byte order mark change nothing, nor do blank lines."""
    text = (start + "a,b,kind\n\n1,2,x\n 3 , 4 ,z\n\n5,6,y" + last).replace("\n", end)
    data = CsvDataset(write(tmp_path, text))
    assert data.class_names == ("x", "y", "z")
    assert data.columns == ["a", "b", "kind"]
    assert rows(data) == [[[1, 2], [3, 4], [5, 6]], [[1, 0, 0], [0, 0, 1], [0, 1, 0]]]
    assert data.where(1) == f"{data.path}:4"


def test_mixed_line_ends(tmp_path):
    data = CsvDataset(write(tmp_path, "1,2,0\r\n3,4,1\r5,6,2\n7,8,0"))
    assert rows(data)[0] == [[1, 2], [3, 4], [5, 6], [7, 8]]
    assert data.where(3).endswith(":4")


@pytest.mark.parametrize("separator", [",", ";", "\t", " ", "   "])
def test_delimiters(tmp_path, separator):
    text = "\n".join(separator.join(line.split()) for line in ["1 2 0", "-3.5 4e-1 2", "5 6 1"])
    assert rows(CsvDataset(write(tmp_path, text))) == [
        [[1, 2], [-3.5, np.float32(0.4)], [5, 6]],
        [[1, 0, 0], [0, 0, 1], [0, 1, 0]],
    ]


def test_one_hot_columns_at_the_end(tmp_path):
    data = CsvDataset(write(tmp_path, "p,q,a,b,c\n1,2,0,1,0\n3,4,0.25,0.25,0.5\n"))
    assert rows(data, label_kinds=["distribution"])[1] == [[0, 1, 0], [0.25, 0.25, 0.5]]


def test_label_columns_by_name_and_number(tmp_path):
    file = write(tmp_path, "kind,p,q\n1,5,6\n2,7,8\n")
    for labels in (["kind"], [0], ["0"], [-3]):
        assert rows(CsvDataset(file, labels=labels)) == [[[5, 6], [7, 8]], [[0, 1, 0], [0, 0, 1]]]
    one_hot = write(tmp_path, "a,p,b,q,c\n1,5,0,6,0\n0,7,0,8,1\n", "b.csv")
    assert rows(CsvDataset(one_hot, labels=["a", "b", "c"])) == [[[5, 6], [7, 8]], [[1, 0, 0], [0, 0, 1]]]
    with pytest.raises(DataError, match=r":1: there is no column 'kin'; did you mean 'kind'"):
        CsvDataset(file, labels=["kin"])
    with pytest.raises(DataError, match="there is no column 7"):
        CsvDataset(file, labels=[7])
    with pytest.raises(DataError, match="named twice"):
        CsvDataset(file, labels=["kind", 0])


def test_regression_target(tmp_path):
    data = CsvDataset(write(tmp_path, "1,2,0.5\n3,4,-7\n"))
    assert rows(data, ([(1, 1, 2)], [(1, 1, 1)])) == [[[1, 2], [3, 4]], [[0.5], [-7]]]


def test_without_labels(tmp_path):
    plain = CsvDataset(write(tmp_path, "1,2\n3,4\n"), labels=[])
    assert rows(plain, ([(1, 1, 2)], [])) == [[[1, 2], [3, 4]]]
    labelled = CsvDataset(write(tmp_path, "1,2,x\n3,4,y\n"))
    assert rows(labelled, ([(1, 1, 2)], [])) == [[[1, 2], [3, 4]]]


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("1,2,0\n3,4,1\n", False),
        ("a,b,c\n3,4,1\n", True),
        ("1,2,cat\n3,4,dog\n", False),
        ("0,1,label\n3,4,1\n", True),
        ('"x 1","x, 2",c\n3,4,1\n', True),
    ],
)
def test_header_is_recognised(tmp_path, text, header):
    assert len(CsvDataset(write(tmp_path, text))) == 2 - header


def test_class_names_of_the_training_data(tmp_path):
    train = CsvDataset(write(tmp_path, "1,2,b\n3,4,a\n5,6,c\n"))
    rows(train)
    valid = CsvDataset(write(tmp_path, "7,8,c\n9,9,b\n", "v.csv"))
    assert valid.class_names == ("b", "c")
    assert rows(valid, class_names=train.class_names)[1] == [[0, 0, 1], [0, 1, 0]]
    assert valid.class_names == ("a", "b", "c")
    stranger = CsvDataset(
        write(tmp_path, "7,8,c\n\n9,9,d\n", "s.csv"), origin=Origin("m.ini", 4, "valid_set"), key="path"
    )
    with pytest.raises(
        DataError, match=r"^m.ini:4: \[valid_set\] path: .*s\.csv:3: expected one of .*a, b, c\), got 'd'"
    ):
        rows(stranger, class_names=train.class_names)


def test_class_names_that_look_like_numbers(tmp_path):
    data = CsvDataset(write(tmp_path, "1,2,7\n3,4,A\n5,6,7\n"))
    assert data.class_names == ("7", "A")
    assert rows(data, ([(1, 1, 2)], [(1, 1, 2)]))[1] == [[1, 0], [0, 1], [1, 0]]


def _labelled(labels):
    return "".join(f"1,2,{label}\n" for label in labels)


def test_a_slip_among_numbers_makes_no_names_of_them(tmp_path):
    """All classes would be numbered anew: 10 comes before 2 in the order of text."""
    file = write(tmp_path, _labelled([*range(8), "1O", 8, 9, 10]))
    with pytest.raises(DataError, match=r"a\.csv:9: expected a number, as 11 of 12 .*, got '1O'; .*class_1"):
        CsvDataset(file)
    with pytest.raises(DataError, match=r":3: expected a number, as 18 of 20 samples have .*, got 'x'"):
        CsvDataset(write(tmp_path, _labelled([0.5, 1.5, "x", "y", *range(16)])))


def test_numbers_and_words_are_told(tmp_path):
    data = CsvDataset(write(tmp_path, _labelled(["7", "A", "7", "B"])))
    assert data.class_names == ("7", "A", "B")
    assert [line.split(":", 1)[1] for line in data.notices] == [
        "2: the label 'A' is no number, so that all labels are names of classes, in the order of text"
    ]
    assert CsvDataset(write(tmp_path, _labelled(["A", "B"]))).notices == []
    assert CsvDataset(write(tmp_path, _labelled([1, 0]))).notices == []


@pytest.mark.parametrize("label", ["inf", "-Infinity", "1e999"])
def test_labels_that_are_not_finite(tmp_path, label):
    with pytest.raises(DataError, match=rf":4: expected a finite number, got '{label}'"):
        CsvDataset(write(tmp_path, _labelled([0, 1, 2, label])))
    assert CsvDataset(write(tmp_path, _labelled([label, "sup"]))).class_names == tuple(sorted([label, "sup"]))


@pytest.mark.parametrize("text", ["1,2,0\n1,2,1\0\n", "1,2,a\n\0,2,b\n", "1 2 0\n1\0 2 1\n"])
def test_nul_bytes(tmp_path, text):
    with pytest.raises(DataError, match=":2: there is a NUL byte in the line"):
        CsvDataset(write(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2,0\n\n3,,1\n", r":3: column 2: the value is missing, got ''"),
        ("1,2,0\n3,NA,1\n", r":2: column 2: the value is missing, got 'NA'"),
        ("1,2,0\n3,nan,1\n", r":2: column 2: the value is missing, got 'nan'"),
        ("p,q,y\n1,2,0\n3,?,1\n", r":3: column 2 \(q\): the value is missing"),
        ("1,2,0\n3,4,\n", r":2: column 3: the value is missing"),
        ("1,2,0\n3,4 5,1\n", r":2: column 2: expected a number, got '4 5'"),
        ("1,2,0\n3,1_0,1\n", r":2: column 2: expected a number, got '1_0'"),
        ("1,2,0\n3,inf,1\n", r":2: column 2: expected a number, got 'inf'"),
        ("1,2,0\n3,1e39,1\n", r":2: column 2: '1e39' is too large"),
        ("1,2,0\n3,4\n", r":2: expected 3 values as in the first line, got 2"),
        ("1,2,0\n3,4,1,5\n", r":2: expected 3 values as in the first line, got 4"),
        ("1,x,0\n3,4,1\n", r":1: expected a number, got 'x'; if the line is a header"),
        ('1,2,0\n3,"4,1\n', r":2: unexpected end of data"),
        ("a,b,c\n", r"there is no sample"),
        ("\n \n", r"there is no sample"),
        ("1,2,0\n3,0x10,1\n", r":2: column 2: expected a number"),
    ],
)
def test_refused_with_file_and_line(tmp_path, text, words):
    with pytest.raises(DataError, match=words) as caught:
        CsvDataset(write(tmp_path, text))
    assert str(tmp_path / "a.csv") in str(caught.value)
    assert caught.value.exit_code == 3


def test_errors_after_quoted_line_breaks_name_the_right_line(tmp_path):
    with pytest.raises(DataError, match=r":4: column 2 .*: expected a number"):
        CsvDataset(write(tmp_path, '"a","b\nb","c"\n1,2,0\n3,x,1\n'))


@pytest.mark.parametrize(("value", "shown"), [("3", "3"), ("-1", "-1"), ("255", "255"), ("1.5", "1.5")])
def test_u013_class_index_out_of_range(tmp_path, value, shown):
    """U013 (csv): named with file, line and value, before the first step."""
    data = CsvDataset(write(tmp_path, f"1,2,0\n\n3,4,{value}\n"))
    with pytest.raises(DataError, match=rf"a\.csv:3: expected a class index in 0\.\.2, got {shown}"):
        data.bind(*DIMS)


def test_a_sample_of_another_size(tmp_path):
    data = CsvDataset(write(tmp_path, "1,2,3,4,5,6,0\n"))
    with pytest.raises(DataError, match=r"a\.csv: a sample has 7 values, the model takes 5 values \(inputs 1:1:2 \+"):
        data.bind(*DIMS)


def test_text_that_is_not_utf8(tmp_path):
    with pytest.raises(DataError, match="not UTF-8"):
        CsvDataset(write(tmp_path, "a,b,c\n1,2,é\n".encode("latin-1")))
    with pytest.raises(DataError, match="not UTF-8"):
        CsvDataset(write(tmp_path, "1,2,0\n".encode("utf-16")))


def test_logistic_regression_file_of_nntrainer(tmp_path):
    """Text data of NNTrainer's application: two features and a label a line, blanks between."""
    data = CsvDataset(write(tmp_path, "   1.5 -2.0   1\n0.5 3.25 0\n", "dataset1.txt"))
    assert rows(data, ([(1, 1, 2)], [(1, 1, 1)])) == [[[1.5, -2], [0.5, 3.25]], [[1], [0]]]


def test_a_quarter_million_values_are_read_quickly(tmp_path):
    rng = np.random.default_rng(0)
    values = rng.random((1000, 250)).astype(np.float32)
    text = "\n".join(",".join(map(repr, row)) + ",1" for row in values.astype(np.float64).tolist())
    data = CsvDataset(write(tmp_path, text))
    x, _ = rows(data, ([(1, 1, 250)], [(1, 1, 2)]))
    np.testing.assert_array_equal(np.array(x, np.float32), values)


def test_one_hot_columns_name_the_classes(tmp_path):
    data = CsvDataset(write(tmp_path, "p,q,cat,dog,ant\n1,2,0,1,0\n"))
    rows(data)
    assert data.class_names == ("cat", "dog", "ant")
    assert rows(data, class_names=["cat", "dog", "ant"])[1] == [[0, 1, 0]]
    with pytest.raises(DataError, match="label columns are cat, dog, ant, in the training data they are ant, cat, dog"):
        rows(data, class_names=["ant", "cat", "dog"])
