"""Data from the user's own code."""

from __future__ import annotations

import numpy as np
import pytest

from nntrainer_py.data import BatchLoader, CallbackDataset, IterableDataset, MapDataset, as_dataset
from nntrainer_py.data.generator import ItemParser
from nntrainer_py.errors import DataError, UsageError

DIMS = ([(1, 2, 3)], [(1, 1, 4)])


def parse(item, inputs=DIMS[0], labels=DIMS[1]):
    return [array.tolist() for part in ItemParser(inputs, labels).parse(item) for array in part]


X = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
FLAT = X.reshape(2, 6).tolist()
HOT = [0, 0, 1, 0]


@pytest.mark.parametrize(
    ("item", "rows"),
    [
        ((X[0], 2), [FLAT[:1], [[2]]]),
        ((X[0], HOT), [FLAT[:1], [HOT]]),
        ((X[:1], [HOT]), [FLAT[:1], [HOT]]),
        ((X[0].ravel(), np.array([2])), [FLAT[:1], [[2]]]),
        ((X[0].tolist(), 2), [FLAT[:1], [[2]]]),
        ((X, [1, 2]), [FLAT, [[1], [2]]]),
        ([X[:, None], np.array([HOT, HOT])], [FLAT, [HOT, HOT]]),
        ((X.reshape(2, 6), np.array([[1], [2]])), [FLAT, [[1], [2]]]),
    ],
)
def test_samples_and_batches(item, rows):
    assert parse(item) == rows


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (X, "expected a pair"),
        ((X, 1, 2), "expected a pair .*tuple of 3"),
        ((X[0, 0], 1), r"input 0: got 3 values \(shape \(3,\)\), the model takes 6 \(1:2:3\)"),
        ((X, [1, 2, 3]), "label 0 has 3 values for 2 samples"),
        ((X[0].T, 1), r"shape \(3, 2\), the model takes 1:2:3"),
        ((X[0] * 1j, 1), "real numbers"),
        ((X[0], "cat"), "real numbers"),
    ],
)
def test_items_that_do_not_fit(item, words):
    with pytest.raises(ValueError, match=words):
        parse(item)


def test_several_inputs_and_labels():
    dims = [(1, 1, 2), (1, 1, 3)], [(1, 1, 1), (1, 1, 2)]
    item = (([1, 2], [3, 4, 5]), ([6], 1))
    assert parse(item, *dims) == [[[1, 2]], [[3, 4, 5]], [[6]], [[1]]]
    assert parse(([1, 2], [3, 4, 5]), dims[0], []) == [[[1, 2]], [[3, 4, 5]]]
    with pytest.raises(ValueError, match="expected a tuple of 2 inputs"):
        parse((np.ones(2), ([6], 1)), *dims)


def test_without_labels():
    assert parse(X, labels=[]) == [FLAT]
    assert parse((X, [1, 2]), labels=[]) == [FLAT]


class Tensor:
    """Stands for another library's tensor on another device: no array before detach and cpu."""

    def __init__(self, values, steps=()):
        self.values, self.steps = values, steps

    def detach(self):
        return Tensor(self.values, (*self.steps, "detach"))

    def cpu(self):
        return Tensor(self.values, (*self.steps, "cpu"))

    def __array__(self, dtype=None, copy=None):
        assert self.steps == ("detach", "cpu")
        return np.asarray(self.values, dtype)


class Loader:
    """The face of a torch DataLoader: iterable again and again, len() counts batches, no item access."""

    dataset = range(5)

    def __iter__(self):
        for k in range(0, 5, 2):
            count = min(2, 5 - k)
            yield [Tensor(np.full((count, 1, 2, 3), k)), Tensor(np.arange(k, k + count) % 4)]

    def __len__(self):
        return 3


def test_torch_style_data_loader():
    data = as_dataset(Loader())
    data.bind(*DIMS)
    loader = BatchLoader(data, 3)
    for _ in range(2):
        batches = [
            (b.inputs[0][: b.count, 0, 0, 0].tolist(), b.labels[0][: b.count].argmax(-1).ravel().tolist())
            for b in loader
        ]
        assert batches == [([0, 0, 2], [0, 1, 2]), ([2, 4], [3, 0])]


def test_torch_style_map_data_set():
    class Images:
        def __getitem__(self, index):
            return Tensor(np.full((1, 2, 3), index)), index % 4

        def __len__(self):
            return 6

    data = as_dataset(Images())
    assert isinstance(data, MapDataset)
    data.bind(*DIMS)
    (batch,) = BatchLoader(data, 6, shuffle=True, seed=1)
    np.testing.assert_array_equal(batch.inputs[0][:, 0, 0, 0], batch.indices)
    np.testing.assert_array_equal(batch.labels[0].argmax(-1).ravel(), batch.indices % 4)


def test_map_style_error_names_the_sample():
    class Broken:
        def __getitem__(self, index):
            if index == 3:
                raise OSError("disk gone")
            return X[0], 1

        def __len__(self):
            return 6

    data = MapDataset(Broken())
    data.bind(*DIMS)
    with pytest.raises(DataError, match="sample 3: OSError: disk gone"):
        list(BatchLoader(data, 2))


def epochs_of(source):
    """A fresh loader over the data that ``source()`` makes."""
    data = source()
    data.bind([(1, 1, 1)], [])
    return BatchLoader(data, 4, buffer_size=2)


def take(loader):
    return [batch.inputs[0][: batch.count].ravel().tolist() for batch in loader]


def flat(batches):
    return [value for batch in batches for value in batch]


def callback_source():
    state = iter(range(10**6))

    def callback():
        k = next(state)
        return k % 10 + 100 * (k // 10), (), k % 10 == 9  # another value in every epoch

    return CallbackDataset(callback)


def factory_source():
    def factory(epoch):
        yield from (100 * epoch + k for k in range(10))

    return IterableDataset(factory)


def one_shot_source():
    return IterableDataset(
        iter([np.arange(100 * e + k, 100 * e + k + 5.0) for e in range(9) for k in (0, 5)]), samples_per_epoch=10
    )


@pytest.mark.parametrize("source", [callback_source, factory_source, one_shot_source])
@pytest.mark.parametrize("batch", [0, 1, 2, 3])
def test_resume_of_streams(source, batch):
    whole = epochs_of(source)
    epochs = [take(whole) for _ in range(4)]
    assert [value for part in epochs[3] for value in part] == list(range(300, 310))
    resumed = epochs_of(source)
    resumed.seek(2, batch)
    assert take(resumed) == epochs[2][batch:]
    assert take(resumed) == epochs[3]


def test_one_shot_items_that_cross_the_end_of_an_epoch():
    data = IterableDataset(iter([np.arange(k, k + 7.0) for k in range(0, 70, 7)]), samples_per_epoch=10)
    data.bind([(1, 1, 1)], [])
    loader = BatchLoader(data, 4)
    assert [flat(take(loader)) for _ in range(7)] == [list(range(k, k + 10)) for k in range(0, 70, 10)]
    with pytest.raises(DataError, match="ended after 0 samples, 10 were promised"):
        take(loader)


def test_interrupted_callback_epoch_is_played_out():
    loader = epochs_of(callback_source)
    for _ in loader:
        break
    loader.seek(1)
    assert take(loader)[0] == [100, 101, 102, 103]


def test_resume_behind_the_end():
    loader = epochs_of(factory_source)
    loader.seek(0, 50)
    with pytest.raises(DataError, match="ended after 10 samples, before the place to resume from"):
        take(loader)


@pytest.mark.parametrize(
    ("answer", "words"),
    [(5, r"expected \(inputs, labels, last\), got int"), ((1, 2), "got tuple"), (([], (), True), "got 0 values")],
)
def test_callback_with_a_wrong_answer(answer, words):
    data = CallbackDataset(lambda: answer)
    data.bind([(1, 1, 1)], [])
    with pytest.raises(DataError, match=f"epoch 1, item 0: .*{words}"):
        list(BatchLoader(data, 1))


def test_callback_with_promised_samples():
    def source(promised):
        calls = iter(range(100))
        data = CallbackDataset(lambda: (k := next(calls), (), k % 10 == 9), samples_per_epoch=promised)
        data.bind([(1, 1, 1)], [])
        return BatchLoader(data, 4)

    assert [len(part) for part in take(source(10))] == [4, 4, 2]
    with pytest.raises(DataError, match="ended after 10 samples, 12 were promised"):
        take(source(12))
    with pytest.raises(DataError, match="sample 7 is the last one promised, but came without last"):
        take(source(7))


def test_factory_that_fails():
    def factory():
        raise ConnectionError("no sensor")

    with pytest.raises(DataError, match="epoch 1 could not be started: ConnectionError: no sensor"):
        take(epochs_of(lambda: IterableDataset(factory)))


def test_shuffling_a_stream_is_said_to_do_nothing():
    data = factory_source()
    data.bind([(1, 1, 1)], [])
    loader = BatchLoader(data, 4, shuffle=True)
    assert flat(take(loader)) == list(range(10))
    assert "not shuffled" in loader.notices[0]


def test_as_dataset(tmp_path):
    x, y = np.zeros((3, 6)), np.zeros(3, int)
    np.savez(tmp_path / "a.npz", x=x, y=y)
    (tmp_path / "a.csv").write_text("1,2,0\n")
    (tmp_path / "a.dat").write_bytes(bytes(40))
    kinds = {
        "arrays": [((x, y), None), (x, y), (x, None), (x.tolist(), y.tolist()), ([x, x], [y])],
        "npz": [(tmp_path / "a.npz", None)],
        "csv": [(str(tmp_path / "a.csv"), None)],
        "file": [(tmp_path / "a.dat", None)],
        "generator": [(iter([]), None), (lambda: iter([]), None), (Loader(), None)],
        "map": [([(x[0], 1)], None), ({0: (x[0], 1)}, None)],
    }
    for kind, cases in kinds.items():
        for data, labels in cases:
            assert as_dataset(data, labels).kind == kind
    found = as_dataset(x, y)
    assert as_dataset(found) is found
    with pytest.raises(UsageError, match="expected arrays"):
        as_dataset(5)
    with pytest.raises(UsageError, match="its own labels"):
        as_dataset(found, y)
