"""time_dist: another layer applied to every step of a sequence."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from nntrainer_py.errors import UsageError, counted
from nntrainer_py.layers.base import BuiltinLayer, Layer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.layers.opaque import OpaqueAdapter
from nntrainer_py.tensor.operations.record import Value

#: layers that treat every sample by itself and draw no random numbers: all steps are one larger batch for them
_SAMPLE_BY_SAMPLE = frozenset({
    "activation", "cast", "channel_shuffle", "conv1d", "conv2d", "conv2dtranspose", "cos", "depthwiseconv2d",
    "embedding", "flatten", "fully_connected", "gru", "identity", "layer_normalization", "lstm", "negative", "permute",
    "pooling2d", "pow", "preprocess_l2norm", "reduce_mean", "reduce_sum", "reshape", "rmsnorm", "rnn", "sin", "slice",
    "sqrt", "tan", "transpose", "upsample2d",
})  # fmt: skip


class TimeDist(BuiltinLayer):
    """Apply a layer to each step with the same weights; written as ``distribute = true`` in the layer's own section.

    Input ``(N, 1, T, W)``: the inner layer sees ``(N, 1, 1, W)`` for each step, its outputs of one channel are
    stacked on the height. All steps contribute to the gradients. The steps are handed over as one batch of N T
    samples where that cannot be told from step by step; else (statistics of the batch, random numbers, users'
    layers) one after the other. The weights are those of the inner layer, under their own names.
    """

    keyword = "time_dist"

    #: the layer that is applied, and whether it gets all steps at once
    inner: Layer | None = None
    folded: bool = False

    @classmethod
    def wrap(cls, layer: Layer) -> Layer:
        """The layer applied to every step. A loss needs no wrapping: it takes every step of a sequence by itself."""
        if layer.is_loss:
            return layer
        if layer.needs_label:
            raise UsageError(f"a {layer.keyword} layer takes a label and cannot be applied to every step")
        own = cls.properties()
        made = cls(**{key: value for key, value in layer.explicit().items() if key in own and key != "distribute"})
        made.inner = layer
        vars(made)["supports_derivative"] = layer.supports_derivative
        return made

    def finalize(self, ctx: FinalizeContext) -> None:
        if self.inner is None:
            raise ValueError("write distribute = true in the section of the layer that is to be applied to every step")
        if len(ctx.inputs) != 1:
            raise ValueError(f"{counted(len(ctx.inputs), 'input')}, a layer that is applied to every step takes one")
        (x,) = ctx.inputs
        if x.channel != 1:
            raise ValueError(
                f"input is {x}, a sequence has 1 channel, its steps in the height, its features in the width"
            )
        self.inner = inner = self._own_copy(self.inner)
        dropping = any(float(getattr(inner, key, 0.0) or 0.0) > 0.0 for key in ("dropout_rate",))
        self.folded = inner.emits and inner.keyword in _SAMPLE_BY_SAMPLE and not dropping
        self.steps = x.height
        dim = x.replace(height=1, batch=x.batch * self.steps if self.folded else x.batch)
        inside = FinalizeContext(inner, (dim,), ctx.training, 1, shared=ctx.shared)
        inner.finalize(inside)
        ctx.weights.extend(inside.weights)
        if len(inside.outputs) != 1 or inside.outputs[0].channel != 1:
            made = ", ".join(map(str, inside.outputs))
            raise ValueError(
                f"a {inner.keyword} layer makes {made} of each step; steps are stacked with one channel only"
            )
        self.made = inside.outputs[0]
        ctx.output(x.replace(height=self.steps * self.made.height, width=self.made.width))

    def _own_copy(self, inner: Layer) -> Layer:
        """The inner layer with what was set for all layers since it was wrapped."""
        made = copy.copy(inner)
        vars(made)["_explicit"] = dict(vars(inner).get("_explicit", {}))
        for key, value in self.explicit().items():
            setattr(made, key, value)
        return made

    @contextmanager
    def _step(self, ctx: LayerEmitter, index: int) -> Iterator[None]:
        """Operations of one step are named, and draw their random numbers, by the step."""
        emitter = ctx.emitter
        before = emitter.layer
        if not self.folded:
            emitter.layer = f"{before}/{index}"
        try:
            yield
        finally:
            emitter.layer = before

    def _methods(self) -> Any:
        assert self.inner is not None
        return self.inner if self.inner.emits else OpaqueAdapter(self.inner)

    def _pieces(self, ctx: LayerEmitter, value: Value, height: int, width: int) -> list[Value]:
        """A sequence as what each run of the inner layer gets of it."""
        n = value.shape[0]
        if self.folded:
            return [ctx.view(value, (n * self.steps, 1, height, width))]
        return [ctx.run("slice", x=value, axis=2, start=t * height, stop=(t + 1) * height) for t in range(self.steps)]

    def _joined(self, ctx: LayerEmitter, pieces: list[Value]) -> Value:
        """The way back from `_pieces`."""
        if self.folded or self.steps == 1:
            (piece,) = pieces
            n = ctx.inputs[0].shape[0]
            return ctx.view(piece, (n, 1, piece.shape[0] * piece.shape[2] // n, piece.shape[3]))
        made: Value = ctx.run("concat", axis=2, **{f"x{i}": piece for i, piece in enumerate(pieces)})
        return made

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        assert self.inner is not None
        self.inner.weights = self.weights
        runs: list[LayerEmitter] = []
        for index, piece in enumerate(self._pieces(ctx, x, 1, x.shape[3])):
            inside = LayerEmitter(
                ctx.emitter, self.inner, [piece], training=ctx.training, seed=ctx.seed, output_dims=(self.made,),
                convolution=ctx.convolution,
            )  # fmt: skip
            with self._step(ctx, index):
                self._methods().forward(inside)
            runs.append(inside)
        ctx.saved["runs"] = runs
        ctx.output(self._joined(ctx, [run.outputs[0] for run in runs]))

    def _runs(self, ctx: LayerEmitter) -> Iterator[tuple[int, LayerEmitter]]:
        """The runs of the inner layer with their derivatives, the last step first."""
        (g,) = ctx.incoming
        assert g is not None
        runs: list[LayerEmitter] = ctx.saved["runs"]
        pieces = self._pieces(ctx, g, self.made.height, self.made.width)
        for index in range(len(runs) - 1, -1, -1):
            run = runs[index]
            run.incoming, run.targets, run.derivative_wanted = [pieces[index]], ctx.targets, (True,)
            yield index, run

    def calc_gradient(self, ctx: LayerEmitter) -> None:
        for index, run in self._runs(ctx):
            with self._step(ctx, index):
                self._methods().calc_gradient(run)

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        for index, run in self._runs(ctx):
            with self._step(ctx, index):
                self._methods().calc_derivative(run)
        pieces = [run.derivatives.get(0) for run in ctx.saved["runs"]]
        if all(piece is None for piece in pieces):
            return
        shape = ctx.saved["runs"][0].inputs[0].shape
        ctx.derivative(0, self._joined(ctx, [ctx.zeros(shape) if piece is None else piece for piece in pieces]))
