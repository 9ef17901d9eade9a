"""A user's layer that says it is pure may be computed again: less memory will do, and no bit changes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from nntrainer_py import Layer, Model, register_layer
from nntrainer_py.errors import PlanError
from nntrainer_py.layers.context import RunContext
from nntrainer_py.layers.fully_connected import FullyConnected
from nntrainer_py.layers.input import Input
from nntrainer_py.memory.recompute import candidates
from nntrainer_py.registry import LAYERS

BATCH, WIDTH = 256, 64


class Kept(Layer):
    """``x * tanh(x)``; what tanh gives is left for the way back."""

    keyword = "kept"
    reads_outputs = False
    calls = 0

    def forward(self, ctx: RunContext) -> None:
        type(self).calls += 1
        ctx.saved["tanh"] = np.tanh(ctx.inputs[0])
        np.multiply(ctx.inputs[0], ctx.saved["tanh"], out=ctx.outputs[0])

    def calc_derivative(self, ctx: RunContext) -> None:
        t = ctx.saved["tanh"]
        ctx.derivatives[0][...] = ctx.incoming[0] * (t + ctx.inputs[0] * (1 - t * t))


class Pure(Kept):
    keyword = "pure"
    pure = True


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    for cls in (Kept, Pure):
        register_layer(cls.keyword)(cls)
    yield
    for cls in (Kept, Pure):
        LAYERS.unregister(cls.keyword)


def model(layer: type[Layer]) -> Model:
    layers: list[Any] = [("in", Input(input_shape=f"1:1:{WIDTH}"))]
    for k in range(4):
        layers += [(f"dense{k}", FullyConnected(unit=WIDTH)), (f"mine{k}", layer())]
    layers.append(("out", FullyConnected(unit=3, activation="softmax")))
    return Model.build(layers, model={"loss": "cross", "batch_size": BATCH}, optimizer="sgd")


def smallest(layer: type[Layer]) -> int:
    """The least budget, without a swap file."""
    with pytest.raises(PlanError) as refused:
        model(layer).compile(threads=1, memory_budget=1000, swap=False)
    return refused.value.smallest


def trained(layer: type[Layer], **options: Any) -> tuple[dict[str, bytes], int, int]:
    """Weights after three steps, calls of forward in the last of them, operations that are computed again."""
    made = model(layer).compile(threads=1, **options)
    random = np.random.default_rng(0)
    for _ in range(3):
        layer.calls = 0  # type: ignore[attr-defined]
        labels = np.eye(3, dtype=np.float32)[random.integers(0, 3, BATCH)]
        made.train_on_batch(random.normal(size=(BATCH, WIDTH)).astype(np.float32), labels)
    again = sum(operation.recomputed for operation in made.compiled.plan("train", BATCH).operations)
    return {name: array.tobytes() for name, array in made.weights().items()}, layer.calls, again  # type: ignore[attr-defined]


def test_only_a_pure_layer_may_be_computed_again() -> None:
    def mine(layer: type[Layer]) -> list[str]:
        found = candidates(model(layer).lowered("train").operations)
        return [value.name for value in found if value.name.startswith("mine")]

    assert mine(Kept) == []
    assert len(mine(Pure)) == 4


def test_less_memory_will_do_and_no_bit_changes() -> None:
    least = smallest(Pure)
    assert least < smallest(Kept)
    expected, calls, _ = trained(Kept)
    assert calls == 4
    found, calls, again = trained(Pure, memory_budget=least, swap=False)
    assert found == expected
    assert again > 0
    assert calls > 4
