"""A budget that a refusal names works as it stands, in the same sequence of calls; data that we hold counts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nntrainer_py import Model
from nntrainer_py.errors import PlanError
from nntrainer_py.layers.batch_normalization import BatchNormalization
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input

FEATURES = 24
INI = """
[Model]
loss = cross
batch_size = 16

[Optimizer]
type = adam

[in]
type = input
input_shape = 1:1:24

[a]
type = fully_connected
unit = 96
activation = relu

[b]
type = fully_connected
unit = 96
activation = relu

[out]
type = fully_connected
unit = 5
activation = softmax
"""


def build(batch: int = 16, norm: bool = False, **settings: object) -> Model:
    layers = [
        Input(input_shape=f"1:1:{FEATURES}"),
        FullyConnected(unit=96, activation="relu"),
        *([BatchNormalization()] if norm else []),
        FullyConnected(unit=96, activation="relu"),
        FullyConnected(unit=5, activation="softmax"),
    ]
    return Model.build(layers, model={"loss": "cross", "batch_size": batch, **settings}, optimizer="adam")


def arrays(count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(count)
    return random.normal(size=(count, FEATURES)).astype(np.float32), random.integers(0, 5, count)


def smallest(call) -> int:
    with pytest.raises(PlanError) as caught:
        call()
    assert caught.value.smallest > 0
    assert f"({caught.value.smallest} bytes)" in str(caught.value)
    return caught.value.smallest


@pytest.mark.parametrize("splits", [False, True])
@pytest.mark.parametrize("norm", [False, True])
def test_the_smallest_budget_is_accepted(splits: bool, norm: bool, tmp_path: Path) -> None:
    def compiled(budget: int) -> Model:
        made = build(batch=100, norm=norm, micro_batches=splits)
        return made.compile(threads=1, memory_budget=budget, swap_folder=str(tmp_path))

    least = smallest(lambda: compiled(1))
    assert smallest(lambda: compiled(least - 1)) == least
    assert compiled(least).compiled.memory("predict", 1)


@pytest.mark.parametrize("mode", ["predict", "evaluate", "train"])
@pytest.mark.parametrize("batch", [64, 200, 450])
def test_the_budget_named_for_a_larger_batch_works(mode: str, batch: int, tmp_path: Path) -> None:
    x, y = arrays(500)

    def sequence(budget: int) -> None:
        made = build().compile(threads=1, memory_budget=budget, swap_folder=str(tmp_path))
        if mode == "train":
            made.train(x, y, epochs=1, batch_size=batch)
        elif mode == "evaluate":
            made.evaluate(x, y, batch_size=batch)
        else:
            made.predict(x, batch_size=batch)

    least = smallest(lambda: build().compile(threads=1, memory_budget=1, swap_folder=str(tmp_path)))
    named = smallest(lambda: sequence(least))
    assert named > least
    sequence(named)


@pytest.mark.parametrize("began", [False, True])
@pytest.mark.parametrize("splits", [False, True])
def test_data_that_was_unpacked_counts(began: bool, splits: bool, tmp_path: Path) -> None:
    x, y = arrays(5000)
    path = tmp_path / "large.npz"
    np.savez_compressed(path, x=x, y=y)
    unpacked = x.nbytes + y.nbytes

    def opened(budget: int) -> Model:
        made = build(micro_batches=splits).compile(threads=1, memory_budget=budget, swap_folder=str(tmp_path))
        if began:
            made.predict(x[:3])
        return made

    made = opened(400_000)
    weights = {name: array.copy() for name, array in made.weights().items()} if began else {}
    with pytest.raises(
        PlanError, match=rf"needed \([^)]*\): data of .*large.npz {unpacked / 2**10:.2f} KiB, "
    ) as caught:
        made.train(str(path), epochs=1)
    assert "What helps: data that stays on disk" in str(caught.value)
    for name, array in weights.items():
        np.testing.assert_array_equal(made.weights()[name], array)
    assert caught.value.smallest > unpacked
    assert smallest(lambda: made.evaluate(str(path))) > unpacked
    assert made.predict(x[:50]).shape == (50, 1, 1, 5)  # what the caller holds is the caller's
    made.train(x[:200], y[:200], epochs=1)
    opened(caught.value.smallest).train(str(path), epochs=1)
    assert smallest(lambda: opened(unpacked).train(str(path), epochs=1)) <= caught.value.smallest


def test_a_budget_of_the_description_counts_data_as_well(tmp_path: Path) -> None:
    x, y = arrays(5000)
    np.savez_compressed(tmp_path / "large.npz", x=x, y=y)
    (tmp_path / "m.ini").write_text(INI, encoding="utf-8")

    def train(budget: int) -> None:
        model = Model.from_ini(tmp_path / "m.ini", overrides=[f"model.memory_budget={budget}"])
        model.train(str(tmp_path / "large.npz"), epochs=1)

    least = smallest(lambda: train(200_000))
    assert least > x.nbytes
    assert smallest(lambda: train(least - 1)) == least
    train(least)


def test_data_is_given_back_to_the_budget(tmp_path: Path) -> None:
    x, y = arrays(5000)
    np.savez_compressed(tmp_path / "large.npz", x=x, y=y)
    made = build().compile(threads=1, memory_budget=1_800_000, swap_folder=str(tmp_path))
    made.train(str(tmp_path / "large.npz"), epochs=1)
    made.predict(x, batch_size=1500)  # takes what the data took


def test_the_place_of_a_budget_is_told_whoever_needs_it(tmp_path: Path) -> None:
    (tmp_path / "m.ini").write_text(INI.replace("[Model]", "[Model]\nmemory_budget = 40KB"), encoding="utf-8")
    x, y = arrays(64)
    for call in (
        lambda made: made.compile(),
        lambda made: made.train(x, y),
        lambda made: made.predict(x),
        lambda made: made.weights(),
        lambda made: made.train_on_batch(x, y),
    ):
        with pytest.raises(PlanError, match=r"m.ini:3: \[Model\] memory_budget: nothing fits"):
            call(Model.from_ini(tmp_path / "m.ini"))
    with pytest.raises(PlanError, match=r"^memory_budget: nothing fits"):
        Model.from_ini(tmp_path / "m.ini").compile(memory_budget=41)


def test_advice_is_given_where_it_helps(tmp_path: Path) -> None:
    def text(model: Model) -> str:
        with pytest.raises(PlanError) as caught:
            model.compile(threads=1, memory_budget=1, swap=False, recompute=False)
        return str(caught.value)

    assert text(build(batch=512)).endswith("What helps: a smaller batch_size, micro_batches = true")
    assert text(build(batch=512, norm=True)).endswith("What helps: a smaller batch_size")
    assert "What helps" not in text(build(batch=1))


def test_direct_convolutions_are_advised_where_winograds_method_takes_the_memory(tmp_path: Path) -> None:
    """The layers are wide enough for it, and the batch so small that its work space is what stands in the way."""
    path = tmp_path / "m.ini"
    layers = "".join(f"[c{k}]\ntype = conv2d\nfilters = 32\nkernel_size = 3,3\npadding = same\n" for k in range(3))
    head = "[Model]\ntype = NeuralNetwork\nloss = mse\nconvolution = {}\n[Optimizer]\ntype = sgd\n[in]\ntype = input\n"
    smallest = {}
    for word in ("winograd4", "direct"):
        path.write_text(f"{head.format(word)}input_shape = 32:16:16\n{layers}", encoding="utf-8")
        with pytest.raises(PlanError) as caught:
            Model.from_ini(path).compile(1, threads=1, memory_budget=1, data_buffers=0)
        smallest[word] = caught.value.smallest
        assert ("convolution = direct in [Model]" in str(caught.value)) == (word != "direct")
    assert smallest["direct"] < smallest["winograd4"]
