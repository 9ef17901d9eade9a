"""Labels that a loss cannot mean are refused with sample and value."""

from __future__ import annotations

import numpy as np
import pytest

from nntrainer_py.data import ArrayDataset, BatchLoader, IterableDataset, MapDataset
from nntrainer_py.data.labels import check_classes, check_labels
from nntrainer_py.errors import DataError, Origin

GOOD = np.array([[1, 0, 0], [0.25, 0.25, 0.5], [0, 0, 1]], np.float32)


def spoiled(row, values):
    rows = GOOD.copy()
    rows[row] = values
    return rows


@pytest.mark.parametrize("shape", [(3, 3), (3, 1, 1, 3)])
def test_soft_rows_are_legal(shape):
    check_labels("distribution", GOOD.reshape(shape))


def test_soft_rows_made_in_float32():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(64, 50_000)).astype(np.float32)
    exp = np.exp(logits)
    check_labels("distribution", exp / exp.sum(axis=1, keepdims=True))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0, 0, 0], "sample 11: a one-hot or soft label row must sum to 1, got a sum of 0"),
        ([1, 1, 0], "sample 11: .* got a sum of 2"),
        ([2, -1, 0], "sample 11: the label of a class must be finite and not negative, got -1 at position 1"),
        ([np.nan, 0, 1], "sample 11: .* got nan at position 0"),
        ([0, np.inf, 1], "sample 11: .* got inf at position 1"),
        ([0.5, 0.4, 0], "sample 11: .* got a sum of 0.9"),
    ],
)
def test_u013_rows_that_are_no_distribution(values, words):
    """U013: one-hot rows with sum 0 or 2, negative, NaN: the sample index and the value are named."""
    with pytest.raises(DataError, match=words) as caught:
        check_labels("distribution", spoiled(1, values), 10)
    assert caught.value.exit_code == 3


def test_other_kinds():
    check_labels("probability", np.array([[0, 1, 0.5]], np.float32))
    check_labels("finite", np.array([[-7, 1e30]], np.float32))
    check_labels("any", np.array([[np.nan]], np.float32))
    with pytest.raises(DataError, match=r"sample 1: a label must lie between 0 and 1, got 1\.5 at position 0"):
        check_labels("probability", np.array([[0], [1.5]], np.float32))
    with pytest.raises(DataError, match=r"sample 0: a label must be finite, got -inf at position 1"):
        check_labels("finite", np.array([[0, -np.inf]], np.float32))
    with pytest.raises(ValueError, match="expected one of"):
        check_labels("onehot", GOOD)


def test_the_last_sample_of_many_is_found():
    rows = np.tile(np.eye(3, dtype=np.float32), (300_000, 1))
    rows[-1] = 0
    with pytest.raises(DataError, match=f"sample {len(rows) - 1}: "):
        check_labels("distribution", rows)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int16, np.float32, np.float64])
def test_u013_integer_labels(dtype):
    """U013: class indices equal to the number of classes, -1 and 255."""
    check_classes(np.array([0, 2, 1], dtype), 3)
    for value in (3, -1, 255):
        if value < 0 and np.dtype(dtype).kind == "u":
            continue
        with pytest.raises(
            DataError, match=rf"sample 2: expected a class index in 0\.\.2, got {value}(; class numbers begin at 0)?$"
        ):
            check_classes(np.array([0, 1, value], dtype), 3)


@pytest.mark.parametrize("value", [3, -1, 255])
@pytest.mark.parametrize("form", ["arrays", "map", "generator", "batches"])
def test_u013_through_every_path(form, value):
    x = np.zeros((20, 2), np.float32)
    y = np.zeros(20, np.int64)
    y[13] = value
    data = {
        "arrays": lambda: ArrayDataset(x, y),
        "map": lambda: MapDataset(list(zip(x, y, strict=True))),
        "generator": lambda: IterableDataset(lambda: zip(x, y, strict=True)),
        "batches": lambda: IterableDataset(lambda: ((x[k : k + 6], y[k : k + 6]) for k in (0, 6, 12, 18))),
    }[form]()
    data.origin, data.key = Origin("m.ini", 7, "train_set"), "path"

    def use():
        data.bind([(1, 1, 2)], [(1, 1, 3)])
        list(BatchLoader(data, 4))

    with pytest.raises(DataError, match=rf"m\.ini:7: \[train_set\] path: .*sample 13: expected .* 0\.\.2, got {value}"):
        use()


@pytest.mark.parametrize("shuffle", [False, True])
def test_bad_rows_are_named_by_their_number_in_the_data(shuffle):
    rows = np.tile(np.eye(3, dtype=np.float32), (10, 1))
    rows[17] = 0.5
    data = MapDataset([(np.zeros(2), row) for row in rows])
    data.bind([(1, 1, 2)], [(1, 1, 3)], label_kinds=["distribution"])
    with pytest.raises(DataError, match=r"sample 17: .*sum of 1\.5"):
        list(BatchLoader(data, 4, shuffle=shuffle))


def test_array_labels_are_checked_when_bound():
    with pytest.raises(DataError, match=r"sample 1: .*sum of 0"):
        ArrayDataset(np.zeros((3, 2)), spoiled(1, 0)).bind([(1, 1, 2)], [(1, 1, 3)], label_kinds=["distribution"])


def test_class_indices_for_each_step_of_a_sequence():
    y = np.array([[0, 2], [1, 1]])
    data = ArrayDataset(np.zeros((2, 4)), y)
    data.bind([(1, 2, 2)], [(1, 2, 3)])
    (batch,) = BatchLoader(data, 2)
    np.testing.assert_array_equal(batch.labels[0][:, 0], np.eye(3)[y])


def test_one_output_takes_the_value_itself():
    data = ArrayDataset(np.zeros((2, 4)), np.array([5, -3]))
    data.bind([(1, 2, 2)], [(1, 1, 1)])
    (batch,) = BatchLoader(data, 2)
    assert batch.labels[0].ravel().tolist() == [5, -3]


def test_values_beyond_float32_are_an_error_and_not_infinity():
    x = np.array([[1.0, 2.0], [3.0, 1e39]])
    for data in (ArrayDataset(x), MapDataset(x), IterableDataset(lambda: iter(x))):
        data.bind([(1, 1, 2)], [])
        with pytest.raises(DataError, match="too large for float32"):
            list(BatchLoader(data, 2))


@pytest.mark.filterwarnings("ignore:overflow")
def test_overflow_inside_the_users_code_is_the_users_business():
    def source():
        yield np.minimum(np.exp(np.array([1.0, 1000.0])), 9)

    data = IterableDataset(source)
    data.bind([(1, 1, 2)], [])
    (batch,) = BatchLoader(data, 2)
    assert batch.inputs[0][0].max() == 9
