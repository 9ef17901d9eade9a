"""U028: a frozen backbone keeps every tensor, running statistics too, and gives in training what it gives alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nntrainer_py import Model, UsageError

BACKBONE = """\
[picture]
type = input
input_shape = 1:6:6

[conv]
type = conv2d
filters = 3
kernel_size = 3,3
padding = same

[norm]
type = batch_normalization
activation = relu

[pool]
type = pooling2d
pooling = average
pool_size = 2,2
stride = 2,2
"""
TOP = """\
[Model]
loss = cross
batch_size = 8

[Optimizer]
type = adam
learning_rate = 0.01

[body]
backbone = backbone.ini
{trainable}

[flat]
type = flatten

[head]
type = fully_connected
unit = 3
activation = softmax
"""


def _model(folder: Path, trainable: str) -> Model:
    (folder / "backbone.ini").write_text(BACKBONE, encoding="utf-8")
    (folder / "top.ini").write_text(TOP.format(trainable=trainable), encoding="utf-8")
    return Model.from_ini(folder / "top.ini").compile(threads=1)


def _batch(step: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(step)
    y = random.integers(0, 3, 8)
    return (random.normal(size=(8, 1, 6, 6)) + y[:, None, None, None]).astype(np.float32), y


def _bytes(model: Model) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in model.weights().items()}


def _is_head(name: str) -> bool:
    return name.startswith("head:")


def test_u028_a_frozen_backbone_keeps_its_tensors_for_100_steps(tmp_path: Path) -> None:
    """First trained, so that the running statistics are not their start values; then frozen, then unfrozen."""
    free = _model(tmp_path, "")
    for step in range(20):
        free.train_on_batch(*_batch(step))
    free.save(tmp_path / "body.bin")
    assert not np.array_equal(free.weights()["norm:moving_mean"], np.zeros_like(free.weights()["norm:moving_mean"]))

    frozen = _model(tmp_path, "trainable = false")
    frozen.load(tmp_path / "body.bin")
    before = _bytes(frozen)
    x, y = _batch(1000)
    losses = []
    for step in range(100):
        if step in (0, 57):
            # what the frozen body gives in a training step is what it gives in inference: no batch statistics
            alone = -np.log(frozen.predict(x).reshape(8, 3)[np.arange(8), y].astype(np.float64)).mean()
            assert abs(frozen.train_on_batch(x, y) - alone) < 1e-5 * max(1.0, alone)
        else:
            losses.append(frozen.train_on_batch(*_batch(step)))
    after = _bytes(frozen)
    assert {name for name in before if before[name] != after[name]} == {n for n in before if _is_head(n)}
    assert len([name for name in before if not _is_head(name)]) == 6
    assert np.mean(losses[-10:]) < np.mean(losses[:10])
    frozen.save(tmp_path / "frozen.bin")

    # unfreezing needs no new model: the same one goes on
    kept = _bytes(frozen)
    frozen.set_trainable(True, "conv", "norm")
    assert _bytes(frozen) == kept
    frozen.train_on_batch(*_batch(0))
    assert {name for name, value in _bytes(frozen).items() if value != kept[name]} == set(kept)
    free_losses = [frozen.train_on_batch(*_batch(step)) for step in range(30)]
    assert np.isfinite(free_losses).all()
    # and frozen again the body stands still
    frozen.set_trainable(False, "conv", "norm")
    kept = _bytes(frozen)
    frozen.train_on_batch(*_batch(0))
    assert {name for name, value in _bytes(frozen).items() if value != kept[name]} == {n for n in kept if _is_head(n)}


def test_u028_freezing_by_name_is_freezing_in_the_description(tmp_path: Path) -> None:
    """Ten steps frozen, with the word in the INI and by a call, give the same bytes."""
    described = _model(tmp_path, "trainable = false")
    one = _model(tmp_path, "").set_trainable(False, "conv", "norm")
    for step in range(10):
        assert described.train_on_batch(*_batch(step)) == one.train_on_batch(*_batch(step))
    assert _bytes(described) == _bytes(one)
    x, _ = _batch(99)
    np.testing.assert_array_equal(described.predict(x), one.predict(x))
    one.set_trainable(True)
    np.testing.assert_array_equal(described.predict(x), one.predict(x))
    with pytest.raises(UsageError, match=r"no layer 'nrm'.*'norm'"):
        one.set_trainable(False, "nrm")


def test_u028_statistics_of_a_batch_do_not_reach_a_frozen_normalization(tmp_path: Path) -> None:
    """The loss of a sample is the same whatever else is in the batch."""
    frozen = _model(tmp_path, "trainable = false")
    x, y = _batch(1)
    far = x.copy()
    far[1:] += 100
    weights = _bytes(frozen)
    np.testing.assert_array_equal(frozen.predict(x)[0], frozen.predict(far)[0])
    alone = frozen.train_on_batch(x[:1], y[:1])
    for name, array in frozen.weights().items():
        array[...] = np.frombuffer(weights[name], np.float32).reshape(array.shape)
    twice = frozen.train_on_batch(np.concatenate([x[:1], x[:1] + 50]), np.array([y[0], y[0]]))
    for name, array in frozen.weights().items():
        array[...] = np.frombuffer(weights[name], np.float32).reshape(array.shape)
    other = frozen.train_on_batch(x[:1] + 50, y[:1])
    assert abs(twice - (alone + other) / 2) < 1e-5
