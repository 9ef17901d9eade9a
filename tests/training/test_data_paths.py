"""The same samples in another container are the same run (U017)."""

from __future__ import annotations

import numpy as np
import pytest
from small_models import CLASSES, Recorder, classifier, data, weights

from nntrainer_py.data.arrays import ArrayDataset
from nntrainer_py.data.generator import IterableDataset, MapDataset


@pytest.mark.parametrize("kind", ["file", "npz", "generator", "batches", "map", "one-hot", "float64"])
def test_u017_losses_are_bit_equal(tmp_path, kind):
    """U017: file, npz, arrays and generator with shuffle off: the loss of each of 20 steps is bit-equal."""
    x, y = data(40)
    one_hot = np.eye(CLASSES, dtype=np.float32)[y]
    expected, straight = Recorder(), classifier()
    straight.train(x, y, epochs=4, shuffle=False, callbacks=[expected])
    assert len(expected.losses) == 20
    if kind == "file":
        np.concatenate([x, one_hot], axis=1).tofile(tmp_path / "data.dat")
        source = tmp_path / "data.dat"
    elif kind == "npz":
        np.savez(tmp_path / "data.npz", x=x, y=y)
        source = tmp_path / "data.npz"
    elif kind == "generator":
        source = IterableDataset(lambda: zip(x, y, strict=True))
    elif kind == "batches":
        source = IterableDataset(lambda: ((x[i : i + 7], y[i : i + 7]) for i in range(0, 40, 7)))
    elif kind == "map":
        source = MapDataset(list(zip(x, one_hot, strict=True)))
    elif kind == "one-hot":
        source = (x, one_hot)
    else:
        source = ArrayDataset(x.astype(np.float64), one_hot.astype(np.float64))
    found, model = Recorder(), classifier()
    model.train(source, epochs=4, shuffle=False, callbacks=[found])
    assert found.losses == expected.losses
    assert weights(model) == weights(straight)


def test_shuffled_is_another_order_each_epoch_and_the_same_each_run():
    def orders(seed):
        found = []

        class Note(Recorder):
            def batch_end(self, run, batch):
                found.append(batch.loss)

        model = classifier(optimizer="sgd", seed=seed, dropout=0.0)
        model.train(*data(16), batch_size=4, epochs=2, callbacks=[Note()])
        return found

    assert orders(0) == orders(0)
    assert orders(0) != orders(1)
    assert orders(0)[:4] != orders(0)[4:]


@pytest.mark.peers
@pytest.mark.parametrize("kind", ["loader", "map", "workers"])
def test_u017_pytorch(kind):
    """PyTorch's own DataLoader and TensorDataset, as they are: the same losses as from arrays."""
    torch = pytest.importorskip("torch")
    x, y = data(40)
    expected, found = Recorder(), Recorder()
    classifier().train(x, y, epochs=3, shuffle=False, callbacks=[expected])
    source = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    if kind != "map":
        workers = 2 if kind == "workers" else 0
        source = torch.utils.data.DataLoader(source, batch_size=7, num_workers=workers)
    classifier().train(source, epochs=3, shuffle=False, callbacks=[found])
    assert found.losses == expected.losses
