"""positional_encoding: sines and cosines of the position added to a sequence."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import positive_int


@lru_cache(maxsize=4)
def table(steps: int, width: int) -> NDArray[np.float32]:
    """``angle = t / 10000^(2 floor(j / 2) / width)``: sine for even j, cosine for odd (Vaswani et al., 2017).

    One table for the plans of all modes and batch sizes.
    """
    t, j = np.arange(steps)[:, None], np.arange(width)[None]
    angle = t / 10000.0 ** (2 * (j // 2) / width)
    return np.where(j % 2 == 0, np.sin(angle), np.cos(angle)).astype(np.float32)


class PositionalEncoding(BuiltinLayer):
    """Add a fixed table to ``(N, C, T, W)``, the same for every sample and channel; T is at most ``max_timestep``."""

    keyword = "positional_encoding"

    max_timestep = positive_int(doc="Largest number of time steps.")

    def finalize(self, ctx: FinalizeContext) -> None:
        (x,) = ctx.inputs
        if x.height > self.max_timestep:
            raise ValueError(f"max_timestep: expected at least the {x.height} time steps, got {self.max_timestep}")
        ctx.output(x)

    def forward(self, ctx: LayerEmitter) -> None:
        (x,) = ctx.inputs
        encoding = ctx.constant("table", table(x.shape[2], x.shape[3])[None, None])
        ctx.output(ctx.run("binary", a=x, b=encoding, function="add"))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        ctx.derivative(0, ctx.incoming[0])
