"""positional_encoding: sines and cosines of the position added to a sequence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nntrainer_py.layers.base import BuiltinLayer
from nntrainer_py.layers.context import FinalizeContext, LayerEmitter
from nntrainer_py.properties import positive_int

_BLOCK = 1 << 14  # angles computed at a time, in float64; even, so that a block begins with a sine


def sinusoids(out: NDArray[Any]) -> None:
    """``angle = t / 10000^(2 floor(j / 2) / width)``: sine for even j, cosine for odd (Vaswani et al., 2017).

    ``out`` has the shape (1, 1, steps, width). An angle is that of a sine and of the cosine beside it.
    """
    _, _, steps, width = out.shape
    for left in range(0, width, 2 * _BLOCK):
        part = out[0, 0, :, left : left + 2 * _BLOCK]
        divisors = 10000.0 ** (np.arange(left, left + part.shape[1], 2) / width)
        rows = max(1, _BLOCK // divisors.size)
        for top in range(0, steps, rows):
            block = part[top : top + rows]
            angle = np.arange(top, top + block.shape[0])[:, None] / divisors
            block[:, 0::2] = np.sin(angle)
            block[:, 1::2] = np.cos(angle[:, : part.shape[1] // 2])


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
        encoding = ctx.constant("table", (1, 1, *x.shape[2:]), sinusoids)
        ctx.output(ctx.run("binary", a=x, b=encoding, function="add"))

    def calc_derivative(self, ctx: LayerEmitter) -> None:
        ctx.derivative(0, ctx.incoming[0])
