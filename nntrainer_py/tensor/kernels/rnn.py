"""A plain recurrent layer over all steps, ``h = act(projection + h' U)``, and its way back through time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.recurrent import (
    AT,
    HIDDEN,
    LIMIT,
    REVERSE,
    activate,
    clear,
    drop,
    incoming,
    moment,
    multiply_packed,
    pack_matrix,
    scaled,
    slope,
    take,
)

Array = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]
f32 = np.float32


@kernel()
def forward_part(
    part: int, parts: int, projection: Array, hidden0: Array, hidden: Array, options: Int64, counters: Int64,
    scale: float, packed: Array,
) -> None:  # fmt: skip
    """The samples of one part; ``hidden`` [N, T, u] may be the memory of ``projection``."""
    batch, steps, units = hidden.shape
    first, last = part * batch // parts, (part + 1) * batch // parts
    act, reverse = options[HIDDEN], options[REVERSE]
    flat, start = hidden.reshape(-1), first * steps * units
    if projection.ctypes.data != hidden.ctypes.data:
        take(flat, start, projection.reshape(-1), start, (last - first) * steps * units)
    for s in range(steps):
        t = moment(s, steps, reverse)
        at = flat.ctypes.data + 4 * (first * steps + t) * units
        before, stride = 0, steps * units
        if s > 0:
            before = flat.ctypes.data + 4 * (first * steps + moment(s - 1, steps, reverse)) * units
        elif hidden0.size:
            before, stride = hidden0.ctypes.data + 4 * first * units, units
        if before != 0:
            multiply_packed(last - first, units, units, before, stride, packed.ctypes.data, at, steps * units, at,
                            steps * units)  # fmt: skip
        for n in range(first, last):
            place = (n * steps + t) * units
            activate(act, flat, place, units)
            if options[LIMIT] >= 0:
                drop(options, counters, scale, n, t * units, flat, place, units)


@kernel(forks=True)
def forward(
    projection: Array, weight: Array, hidden0: Array, hidden: Array, options: Int64, counters: Int64, scale: float,
    packed: Array, parts: int,
) -> None:  # fmt: skip
    """All samples; ``weight`` [u, u], initial state [N * u] (empty: zero)."""
    fork_join(pack_matrix, parts, (weight, 0, weight.shape[1], 0, packed))
    fork_join(forward_part, parts, (projection, hidden0, hidden, options, counters, scale, packed))


@kernel()
def backward_part(
    part: int, parts: int, hidden: Array, g: Array, out: Array, dhidden0: Array, options: Int64, counters: Int64,
    scale: float, packed: Array, work: Array,
) -> None:  # fmt: skip
    """The samples of one part. ``out`` [N, T, u] may be the memory of ``g``; ``work`` has 2 N u floats.

    With dropout the activation's result is had back from the hidden state by dividing by the scale.
    """
    batch, steps, units = hidden.shape
    first, last = part * batch // parts, (part + 1) * batch // parts
    act, reverse = options[HIDDEN], options[REVERSE]
    flat_h, flat_out, size = hidden.reshape(-1), out.reshape(-1), batch * units
    shrink = f32(1.0)
    if options[LIMIT] >= 0 and scale > 0.0:
        shrink = f32(1.0 / scale)
    clear(work, first * units, (last - first) * units)
    for s in range(steps - 1, -1, -1):
        t = moment(s, steps, reverse)
        for n in range(first, last):
            dh, y, place = n * units, size + n * units, (n * steps + t) * units
            incoming(g, options[AT], n, t, units, steps, work, dh)
            if options[LIMIT] >= 0:
                drop(options, counters, scale, n, t * units, work, dh, units)
            scaled(work, y, flat_h, place, units, shrink)
            slope(act, work, y, work, dh, units)
            take(flat_out, place, work, dh, units)
        at = flat_out.ctypes.data + 4 * (first * steps + t) * units
        if s > 0:
            multiply_packed(last - first, units, units, at, steps * units, packed.ctypes.data,
                            work.ctypes.data + 4 * first * units, units, 0, 0)  # fmt: skip
        elif dhidden0.size:
            multiply_packed(last - first, units, units, at, steps * units, packed.ctypes.data,
                            dhidden0.ctypes.data + 4 * first * units, units, 0, 0)  # fmt: skip


@kernel(forks=True)
def backward(
    hidden: Array, weight: Array, g: Array, out: Array, dhidden0: Array, options: Int64, counters: Int64, scale: float,
    packed: Array, work: Array, parts: int,
) -> None:  # fmt: skip
    """All samples: ``g`` by the hidden states (of all steps, or of step ``options[AT]``)."""
    fork_join(pack_matrix, parts, (weight, 0, weight.shape[1], 1, packed))
    fork_join(backward_part, parts, (hidden, g, out, dhidden0, options, counters, scale, packed, work))
