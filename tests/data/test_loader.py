"""The batch loader: every sample once, in the right order, with no thread and no memory left behind."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import tracemalloc

import numpy as np
import pytest

from nntrainer_py.data import ArrayDataset, BatchLoader, CallbackDataset, IterableDataset, MapDataset, RawFileDataset
from nntrainer_py.data.loader import Position, ring_bytes
from nntrainer_py.errors import DataError, ForkError
from nntrainer_py.tensor.rng import nntrainer_shuffle_bytes, permutation, permutation_bytes

DIMS = ([(1, 2, 3)], [(1, 1, 4)])
NNTRAINER_ORDER = [[0, 2, 1, 5, 9, 8, 4, 7, 6, 3], [0, 5, 6, 1, 4, 8, 9, 7, 2, 3]]  # recorded, seed 0, first two epochs


def samples(count):
    rng = np.random.default_rng(count)
    return rng.random((count, 1, 2, 3), dtype=np.float32), rng.integers(0, 4, count)


def arrays(count):
    data = ArrayDataset(*samples(count))
    data.bind(*DIMS)
    return data


def bound(data):
    data.bind(*DIMS)
    return data


def take(loader):
    """Copies of the batches of one epoch."""
    return [
        (batch.indices.copy(), batch.inputs[0][: batch.count].copy(), batch.labels[0][: batch.count].copy())
        for batch in loader
    ]


def order(loader):
    return np.concatenate([indices for indices, _, _ in take(loader)]).tolist()


def data_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("nntrainer_py-data")]


@pytest.fixture(autouse=True)
def no_thread_left():
    yield
    gc.collect()
    assert not data_threads()


@pytest.mark.parametrize("buffer_size", [0, 1, 2, 7])
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_sample_once_with_its_own_label(buffer_size, shuffle):
    x, y = samples(37)
    loader = BatchLoader(arrays(37), 8, shuffle=shuffle, seed=3, buffer_size=buffer_size)
    for epoch in range(3):
        batches = take(loader)
        assert [len(indices) for indices, _, _ in batches] == [8, 8, 8, 8, 5]
        indices = np.concatenate([b[0] for b in batches])
        expected = permutation(3, epoch, 37) if shuffle else np.arange(37)
        assert indices.tolist() == expected.tolist()
        np.testing.assert_array_equal(np.concatenate([b[1] for b in batches]), x[indices])
        np.testing.assert_array_equal(np.concatenate([b[2] for b in batches])[:, 0, 0], np.eye(4)[y[indices]])
    assert loader.position == Position(3, 0)


def test_nntrainer_order():
    loader = BatchLoader(arrays(10), 4, shuffle=True, shuffle_kind="nntrainer")
    assert [order(loader), order(loader)] == NNTRAINER_ORDER
    loader.seek(1)
    assert order(loader) == NNTRAINER_ORDER[1]
    loader.seek(0)
    assert order(loader) == NNTRAINER_ORDER[0]
    fresh = BatchLoader(arrays(10), 4, shuffle=True, shuffle_kind="nntrainer")
    fresh.seek(1, 1)
    assert order(fresh) == NNTRAINER_ORDER[1][4:]


@pytest.mark.parametrize("kind", ["counter", "nntrainer"])
@pytest.mark.parametrize("batch", [0, 1, 4])
def test_resume_in_the_middle_equals_the_run_that_went_on(kind, batch):
    def loader():
        return BatchLoader(arrays(33), 8, shuffle=True, seed=5, shuffle_kind=kind, buffer_size=3)

    whole = loader()
    epochs = [take(whole) for _ in range(3)]
    resumed = loader()
    resumed.seek(1, batch)
    rest = take(resumed)
    assert len(rest) == 5 - batch
    for mine, theirs in zip(rest, epochs[1][batch:], strict=True):
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(a, b)
    assert order(resumed) == np.concatenate([b[0] for b in epochs[2]]).tolist()


def test_position_counts_batches_handed_out():
    loader = BatchLoader(arrays(20), 8, buffer_size=2)
    seen = []
    for _ in loader:
        seen.append(loader.position)
    assert seen == [Position(0, 1), Position(0, 2), Position(0, 3)]
    assert loader.position == Position(1, 0)
    loader.seek(4, 3)  # stopped behind the last batch: nothing is left of epoch 4
    assert take(loader) == []
    assert loader.position == Position(5, 0)
    with pytest.raises(ValueError, match="does not exist"):
        loader.seek(0, 4)


def test_break_goes_on_behind_the_last_batch():
    loader = BatchLoader(arrays(20), 4, buffer_size=2)
    for batch in loader:
        if batch.indices[0] == 4:
            break
    assert not data_threads()
    assert order(loader) == list(range(8, 20))


def test_u016_batch_larger_than_data():
    """U016: 5 samples with batch 32 give one batch of 5; 33 samples two, all seen; drop_last with 5 is an error."""
    (batch,) = take(BatchLoader(arrays(5), 32))
    assert batch[0].tolist() == [0, 1, 2, 3, 4]
    batches = take(BatchLoader(arrays(33), 32, shuffle=True))
    assert [len(b[0]) for b in batches] == [32, 1]
    assert sorted(np.concatenate([b[0] for b in batches]).tolist()) == list(range(33))
    with pytest.raises(DataError, match="5 samples cannot fill one batch of 32"):
        BatchLoader(arrays(5), 32, drop_last=True)
    x, y = samples(5)
    stream = bound(IterableDataset(lambda: zip(x, y, strict=True)))
    with pytest.raises(DataError, match="5 samples cannot fill one batch of 32"):
        take(BatchLoader(stream, 32, drop_last=True))
    assert [len(b[0]) for b in take(BatchLoader(arrays(33), 32, drop_last=True))] == [32]


def test_u016_other_batch_size_after_first_use():
    data = arrays(33)
    for batch_size in (4, 32, 7, 100):
        assert order(BatchLoader(data, batch_size)) == list(range(33))


def test_u017_same_samples_through_every_path(tmp_path):
    """U017: the same samples through a raw file, arrays, generators, callbacks and map-style data are bit-equal."""
    x, y = samples(50)
    one_hot = np.eye(4, dtype=np.float32)[y]
    file = tmp_path / "data.dat"
    np.concatenate([x.reshape(50, -1), one_hot], axis=1).tofile(file)
    calls = iter(range(10**6))

    def callback():
        k = next(calls) % 50
        return x[k], y[k], k == 49

    sources = [
        RawFileDataset(file),
        ArrayDataset(x.astype(np.float64), one_hot),
        ArrayDataset(np.asfortranarray(x.reshape(50, 6)), y),
        IterableDataset(lambda: zip(x, y, strict=True)),
        IterableDataset(lambda: ((x[k : k + 7], one_hot[k : k + 7]) for k in range(0, 50, 7))),
        IterableDataset(zip(list(x) * 4, list(y) * 4, strict=True), samples_per_epoch=50),
        CallbackDataset(callback),
        MapDataset([(x[k], one_hot[k]) for k in range(50)]),
    ]
    reference = take(BatchLoader(arrays(50), 8))
    for data in sources:
        loader = BatchLoader(bound(data), 8, buffer_size=2)
        for _ in range(2):
            for mine, theirs in zip(take(loader), reference, strict=True):
                for a, b in zip(mine, theirs, strict=True):
                    np.testing.assert_array_equal(a, b, err_msg=data.kind)


class TestU020:
    """U020: generators through three epochs, failing and short ones end at once, with their text, no thread left."""

    def loader(self, source, **options):
        return BatchLoader(bound(IterableDataset(source, **options)), 4, buffer_size=3)

    def test_three_epochs(self):
        x, y = samples(10)
        loader = self.loader(lambda: zip(x, y, strict=True))
        for _ in range(3):
            assert [len(b[0]) for b in take(loader)] == [4, 4, 2]
            assert not data_threads()

    @pytest.mark.parametrize("item", [0, 1, 5, 9])
    def test_raising_generator(self, item):
        x, y = samples(10)

        def source():
            for k in range(10):
                if k == item:
                    raise RuntimeError("the sensor fell off")
                yield x[k], y[k]

        seen = 0

        def consume():
            nonlocal seen
            for batch in self.loader(source):
                seen += batch.count

        with pytest.raises(DataError, match=f"epoch 1, item {item}: RuntimeError: the sensor fell off") as caught:
            consume()
        assert seen == item // 4 * 4
        assert isinstance(caught.value.__cause__, RuntimeError)
        assert not data_threads()

    def test_fewer_than_promised(self):
        x, y = samples(10)
        with pytest.raises(DataError, match="ended after 10 samples, 12 were promised"):
            take(self.loader(lambda: zip(x, y, strict=True), samples_per_epoch=12))

    def test_more_than_promised(self):
        x, y = samples(10)
        assert order(self.loader(lambda: zip(x, y, strict=True), samples_per_epoch=6)) == list(range(6))

    def test_empty(self):
        with pytest.raises(DataError, match="no sample"):
            take(self.loader(lambda: iter(())))

    def test_one_shot_generator_is_refused_a_second_epoch(self):
        x, y = samples(10)
        loader = self.loader(zip(x, y, strict=True))
        assert len(take(loader)) == 3
        with pytest.raises(DataError, match="only once"):
            take(loader)

    def test_slow_consumer_and_slow_producer(self):
        x, y = samples(8)

        def source():
            for k in range(8):
                time.sleep(0.002)
                yield x[k], y[k]

        for _ in self.loader(source):
            time.sleep(0.005)

    def test_generator_is_closed_when_the_consumer_stops(self):
        x, y = samples(8)
        closed = threading.Event()

        def source():
            try:
                while True:
                    yield x[0], y[0]
            finally:
                closed.set()

        for _ in self.loader(source):
            break
        assert closed.is_set()

    def test_exit_of_the_generator_thread_is_reported(self):
        def source():
            raise SystemExit(3)
            yield

        with pytest.raises(SystemExit):
            take(self.loader(source))


def test_dropping_the_iterator_or_the_loader_ends_the_thread():
    loader = BatchLoader(arrays(100), 4, buffer_size=2)
    iterator = iter(loader)
    next(iterator)
    assert len(data_threads()) == 1
    del iterator, loader
    gc.collect()
    assert not data_threads()


def test_error_in_the_loop_body_ends_the_thread():
    def consume():
        with BatchLoader(arrays(100), 4, buffer_size=2) as loader:
            for batch in loader:
                raise ZeroDivisionError(batch.count)

    with pytest.raises(ZeroDivisionError):
        consume()
    assert not data_threads()


def test_close_in_the_loop_is_noticed():
    loader = BatchLoader(arrays(100), 4, buffer_size=2)
    iterator = iter(loader)
    next(iterator)
    loader.close()
    with pytest.raises(ValueError, match="closed"):
        next(iterator)


def test_two_loaders_read_one_data_set_at_once():
    data = arrays(64)
    pairs = zip(BatchLoader(data, 8, buffer_size=2), BatchLoader(data, 8, buffer_size=2), strict=True)
    x, _ = samples(64)
    for one, other in pairs:
        np.testing.assert_array_equal(one.inputs[0], x[one.indices])
        np.testing.assert_array_equal(other.inputs[0], x[other.indices])


def test_buffers_are_a_fixed_ring():
    loader = BatchLoader(arrays(64), 8, buffer_size=2)
    addresses = {batch.inputs[0].ctypes.data for _ in range(3) for batch in loader}
    assert len(addresses) == 3
    ring = ring_bytes(*DIMS, 8, 2)
    assert ring == 3 * 8 * (4 * 10 + 8)
    assert loader.buffer_bytes == ring + 20 * 8 == ring + loader.dataset.scratch_bytes(8, in_order=True)
    shuffled = BatchLoader(arrays(64), 8, buffer_size=2, shuffle=True)
    # and a number for each sample, and what it takes to draw them
    assert shuffled.buffer_bytes == ring + permutation_bytes(64) + shuffled.dataset.scratch_bytes(8)
    like_nntrainer = BatchLoader(arrays(64), 8, buffer_size=2, shuffle=True, shuffle_kind="nntrainer")
    assert like_nntrainer.buffer_bytes == ring + nntrainer_shuffle_bytes(64) + shuffled.dataset.scratch_bytes(8)


def test_what_reading_a_raw_file_takes_is_what_is_counted(tmp_path):
    count, width = 4000, 64
    path = tmp_path / "data.dat"
    rows = np.zeros((count, width + 10), "<f4")
    rows[:, width] = 1.0
    rows.tofile(path)
    data = RawFileDataset(path)
    data.bind([(1, 1, width)], [(1, 1, 10)])
    for shuffle, batch in [(True, 1), (True, 32), (False, 32), (True, 3000)]:
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        loader = BatchLoader(data, batch, shuffle=shuffle, buffer_size=1)
        batches = iter(loader)
        next(batches)
        held = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        batches.close()
        data.bind([(1, 1, width)], [(1, 1, 10)])  # lets go of the scratch
        drawing = (permutation_bytes(count) - 8 * count) * shuffle  # is over
        assert abs(loader.buffer_bytes - drawing - held) <= 64 * 1024
        features = (2 + shuffle) * batch * (4 * (width + 10) + 8)
        assert loader.buffer_bytes - drawing <= features + 8 * count * shuffle  # nothing else grows with the file


@pytest.mark.parametrize("kind", ["counter", "nntrainer"])
def test_what_reading_takes_at_any_moment_is_what_is_counted(tmp_path, kind):
    """Also while the order of the next epoch is made, and of many epochs after another when a run goes on."""
    count = 200_000
    path = tmp_path / "data.dat"
    np.zeros((count, 3), "<f4").tofile(path)
    data = RawFileDataset(path)
    data.bind([(1, 1, 2)], [(1, 1, 1)])
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        loader = BatchLoader(data, 32, shuffle=True, buffer_size=1, shuffle_kind=kind)
        for epoch in (0, 3):
            loader.seek(epoch)
            batches = iter(loader)
            next(batches)
            batches.close()
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert 8 * count <= peak <= loader.buffer_bytes + 64 * 1024
    assert loader.buffer_bytes <= 20 * count + 256 * 1024


@pytest.mark.parametrize("batch", [1, 7])
def test_samples_that_are_not_shuffled_come_in_order(batch):
    found = [index for chunk in BatchLoader(arrays(64), batch) for index in chunk.indices.tolist()]
    assert found == list(range(64))


def test_no_array_memory_taken_after_the_first_epochs():
    count = 4000
    data = ArrayDataset(np.zeros((count, 1, 2, 3), np.float32), np.zeros(count, np.int64))
    data.bind(*DIMS)
    loader = BatchLoader(data, 100, buffer_size=2)
    for _ in range(2):
        take(loader)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in loader:
            pass
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for _ in range(3):
            for _ in loader:
                pass
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert now - before < 2_000
    assert peak - before < 12_000  # a batch of inputs and labels has 4,000 bytes; threads and queues take the rest


def test_reading_unbound_or_into_wrong_arrays_is_refused():
    data = ArrayDataset(*samples(4))
    with pytest.raises(ValueError, match="bind"):
        BatchLoader(data, 2)
    data.bind(*DIMS)
    good = np.zeros((2, 1, 2, 3), np.float32), np.zeros((2, 1, 1, 4), np.float32)
    index = np.array([0, 1])
    data.read(index, [good[0]], [good[1]])
    with pytest.raises(ValueError, match="float32"):
        data.read(index, [good[0].astype(np.float64)], [good[1]])
    with pytest.raises(IndexError, match=r"0\.\.3"):
        data.read(np.array([0, 4]), [good[0]], [good[1]])
    with pytest.raises(IndexError, match=r"0\.\.3"):
        data.read(np.array([-1, 0]), [good[0]], [good[1]])


def test_interrupt_while_waiting_for_data():
    """Ctrl-C while the consumer waits: it gets out, and the thread ends when the source returns."""
    x, y = samples(4)

    def source():
        for k in range(4):
            time.sleep(0.3)
            yield x[k], y[k]

    loader = BatchLoader(bound(IterableDataset(source)), 2)
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        take(loader)
    timer.join()
    assert not data_threads()
    assert loader.position == Position(0, 0)


def test_source_that_never_returns(monkeypatch):
    """It cannot be stopped, but that is said, nothing waits for ever, and nobody else gets its buffers."""
    monkeypatch.setattr("nntrainer_py.data.passes._JOIN_SECONDS", 0.05)
    x, y = samples(4)
    free = threading.Event()

    def source():
        yield x[0], y[0]
        free.wait(60)

    loader = BatchLoader(bound(IterableDataset(source)), 1, buffer_size=2)
    iterator = iter(loader)
    next(iterator)
    with pytest.warns(RuntimeWarning, match="does not return"):
        iterator.close()
    with pytest.warns(RuntimeWarning, match="does not return"), pytest.raises(DataError, match="still reading"):
        next(iter(loader))
    free.set()
    for thread in data_threads():
        thread.join(5)
    loader.seek(0)
    assert len(take(loader)) == 1


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_child_gets_an_error_and_does_not_hang():
    loader = BatchLoader(arrays(100), 4, buffer_size=2)
    iterator = iter(loader)
    next(iterator)
    child = os.fork()
    if child == 0:
        try:
            next(iterator)
        except ForkError:
            loader.close()
            os._exit(7)
        os._exit(1)
    deadline = time.monotonic() + 20
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(ended[1]) == 7
    assert len(list(iterator)) == 24
