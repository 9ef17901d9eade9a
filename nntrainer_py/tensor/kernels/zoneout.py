"""zoneout: an element keeps its old value instead of the new one, by counter-based random numbers or a given mask."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.random import OFFSET, STEP, philox

Array = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]
f32 = np.float32
_LOW = np.uint64(0xFFFFFFFF)


@kernel()
def draw_mask(key: np.uint64, counters: Int64, draw: int, threshold: int, mask: Array) -> None:
    """``mask`` [samples, features] = 0 where the element's bits are below ``threshold`` (0 to 2^32), else 1."""
    step, number, limit = np.uint64(counters[STEP]) & _LOW, np.uint64(draw) & _LOW, np.uint64(threshold)
    for row in range(mask.shape[0]):
        sample = np.uint64(counters[OFFSET] + row) & _LOW
        for group in range((mask.shape[1] + 3) // 4):
            words = philox(np.uint64(group) & _LOW, sample, step, number, key)
            for element in range(4 * group, min(4 * group + 4, mask.shape[1])):
                mask[row, element] = f32(0.0) if words[element - 4 * group] < limit else f32(1.0)


@kernel()
def mix(mask: Array, new: Array, old: Array, out: Array) -> None:
    """``out = mask * new + (1 - mask) * old``, flat; a mask of 0 or 1 chooses, whatever the other value is."""
    for i in range(out.size):
        m = mask[i]
        blend = m * new[i] + (f32(1.0) - m) * old[i]
        out[i] = new[i] if m == f32(1.0) else old[i] if m == f32(0.0) else blend


@kernel()
def share(mask: Array, g: Array, dnew: Array, dold: Array) -> None:
    """``dnew = mask * g``, ``dold = (1 - mask) * g``, flat."""
    for i in range(g.size):
        v, m = g[i], mask[i]
        dnew[i] = v if m == f32(1.0) else f32(0.0) if m == f32(0.0) else m * v
        dold[i] = f32(0.0) if m == f32(1.0) else v if m == f32(0.0) else (f32(1.0) - m) * v


@kernel()
def mix_drawn(
    key: np.uint64, counters: Int64, draw: int, threshold: int, mask: Array, new: Array, old: Array, out: Array
) -> None:
    """`mix` with a mask that is drawn into ``mask`` [samples, features]."""
    draw_mask(key, counters, draw, threshold, mask)
    mix(mask.reshape(-1), new, old, out)


@kernel()
def share_drawn(
    key: np.uint64, counters: Int64, draw: int, threshold: int, mask: Array, g: Array, dnew: Array, dold: Array
) -> None:
    """`share` with the mask that `mix_drawn` drew."""
    draw_mask(key, counters, draw, threshold, mask)
    share(mask.reshape(-1), g, dnew, dold)
