"""Promises of a user's layer that do not hold are found: copies, not views; pure; sample by sample."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nntrainer_py import Layer
from nntrainer_py.layers.context import FinalizeContext, RunContext
from nntrainer_py.plugins import load_plugin
from nntrainer_py.registry import LAYERS, LOSSES
from nntrainer_py.tensor.dim import TensorDim
from nntrainer_py.training.gradient_check import Verdict, check_gradients

CUSTOM = Path(__file__).resolve().parents[3] / "examples" / "custom"


def data() -> np.ndarray[Any, Any]:
    return np.random.default_rng(3).normal(size=(4, 1, 2, 8)).astype(np.float32)


class Square(Layer):
    """Keeps a copy of its input; right."""

    def forward(self, ctx: RunContext) -> None:
        ctx.saved["x"] = self.kept(ctx)
        ctx.outputs[0][...] = ctx.inputs[0] ** 2

    def kept(self, ctx: RunContext) -> np.ndarray[Any, Any]:
        return ctx.inputs[0].copy()

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = 2 * ctx.incoming[0] * ctx.saved["x"]


class ViewOfInput(Square):
    def kept(self, ctx: RunContext) -> np.ndarray[Any, Any]:
        return ctx.inputs[0]


class ViewOfOutput(Layer):
    """Says that it does not read its outputs, and keeps them."""

    reads_outputs = False

    def forward(self, ctx: RunContext) -> None:
        self.y = ctx.outputs[0]
        np.tanh(ctx.inputs[0], out=self.y)

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = ctx.incoming[0] * (1 - self.y**2)


@pytest.mark.parametrize("cls", [ViewOfInput, ViewOfOutput])
def test_views_that_are_kept(cls: type[Layer]) -> None:
    (row,) = check_gradients(cls(), data()).failed
    assert row.tensor == "memory"
    assert "instead of copies" in row.reason
    assert f"{Path(__file__).name}:" in row.place
    assert check_gradients(Square(), data()).ok


class Mean(Layer):
    """Subtracts the mean over the batch; right."""

    def forward(self, ctx: RunContext) -> None:
        ctx.outputs[0][...] = ctx.inputs[0] - ctx.inputs[0].mean(axis=0, keepdims=True)

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = ctx.incoming[0] - ctx.incoming[0].mean(axis=0, keepdims=True)


class Scaled(Layer):
    """A gradient that is a mean and not a sum, of which the way forward knows: a weight for a batch of any size."""

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        ctx.weight("w", TensorDim(width=x.width))
        ctx.output(x)

    def forward(self, ctx: RunContext) -> None:
        ctx.outputs[0][...] = ctx.inputs[0] * ctx.weights["w"]

    def calc_gradient(self, ctx: RunContext) -> None:
        ctx.gradients["w"][0, 0, 0] = (ctx.incoming[0] * ctx.inputs[0]).sum(axis=(0, 1, 2))

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = ctx.incoming[0] * ctx.weights["w"]


def test_sample_by_sample() -> None:
    assert check_gradients(Mean(), data()).ok
    promising = type("PromisingMean", (Mean,), {"sample_by_sample": True})
    (row,) = check_gradients(promising(), data()).failed
    assert (row.tensor, row.verdict) == ("sample_by_sample", Verdict.FAILED)
    assert "its outputs depend on other samples" in row.reason
    assert check_gradients(type("PromisingScaled", (Scaled,), {"sample_by_sample": True})(), data()).ok


class Largest(Layer):
    """A loss of the worst sample alone, which promises that every sample counts by itself."""

    is_loss = True
    sample_by_sample = True

    def forward(self, ctx: RunContext) -> float:
        ctx.outputs[0][...] = ctx.inputs[0]
        return float(((ctx.inputs[0] - ctx.labels[0]) ** 2).sum(axis=(1, 2, 3)).max())

    def calc_derivative(self, ctx: RunContext) -> None:
        d = ctx.inputs[0] - ctx.labels[0]
        ctx.derivatives[0][...] = 0.0
        worst = int((d**2).sum(axis=(1, 2, 3)).argmax())
        ctx.derivatives[0][worst] = 2 * d[worst]


def test_a_loss_of_other_samples() -> None:
    (row,) = check_gradients(Largest(), data()).failed
    assert row.tensor == "sample_by_sample"
    module = load_plugin(CUSTOM / "log_cosh.py")  # it runs once a process, and then may be registered no more
    try:
        assert check_gradients(module.LogCosh(), data()).ok
    finally:
        if "log_cosh" in LOSSES:
            LOSSES.unregister("log_cosh")


class Counting(Layer):
    """Another factor each time, of which it says that it is always the same."""

    pure = True
    calls = 0

    def forward(self, ctx: RunContext) -> None:
        self.calls += 1
        ctx.outputs[0][...] = ctx.inputs[0] * self.calls

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = ctx.incoming[0] * self.calls


class Masked(Layer):
    """Draws for each sample; that a batch may be in pieces it may say."""

    sample_by_sample = True

    def finalize(self, ctx: FinalizeContext) -> None:
        self.random = np.random.default_rng(1)
        super().finalize(ctx)

    def forward(self, ctx: RunContext) -> None:
        ctx.saved["mask"] = self.random.random(ctx.inputs[0].shape) > 0.5
        ctx.outputs[0][...] = ctx.inputs[0] * ctx.saved["mask"]

    def calc_derivative(self, ctx: RunContext) -> None:
        ctx.derivatives[0][...] = ctx.incoming[0] * ctx.saved["mask"]


def test_pure() -> None:
    (row,) = check_gradients(Counting(), data()).failed
    assert row.tensor == "pure"
    assert check_gradients(type("Honest", (Counting,), {"pure": False})(), data()).ok
    assert check_gradients(Masked(), data()).ok


def test_the_example() -> None:
    load_plugin(CUSTOM / "scale.py")
    try:
        assert check_gradients(LAYERS.load("scale")(), data()).ok
    finally:
        LAYERS.unregister("scale")
