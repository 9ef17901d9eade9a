"""Long short-term memory over all steps, and its way back through time.

Gates stand in the order i, f, g, o. ``projection`` is ``x W + b`` of all steps; the forward pass leaves the
activated gates, the backward pass turns them into derivatives by their arguments.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.recurrent import (
    AT,
    HIDDEN,
    LIMIT,
    RECURRENT,
    REVERSE,
    activate,
    add,
    add_product,
    clear,
    drop,
    incoming,
    moment,
    multiply_by,
    multiply_packed,
    pack_matrix,
    product,
    slope,
    take,
)

Array = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


@kernel()
def _cell(gates: Array, q: int, cell: Array, at: int, before: Array, earlier: int, units: int) -> None:
    """``c = f c' + i g``; ``earlier`` -1: there is no state before."""
    product(cell, at, gates, q, gates, q + 2 * units, units)
    if earlier >= 0:
        add_product(cell, at, gates, q + units, before, earlier, units)


@kernel()
def forward_part(
    part: int, parts: int, projection: Array, weight: Array, hidden0: Array, cell0: Array, hidden: Array, cell: Array,
    gates: Array, options: Int64, counters: Int64, scale: float, packed: Array,
) -> None:  # fmt: skip
    """The samples of one part. ``gates`` [N, T, 4u] may be the memory of ``projection``; ``hidden``, ``cell`` [N, T,
    u].
    """
    batch, steps, units = hidden.shape
    first, last = part * batch // parts, (part + 1) * batch // parts
    rec, act, reverse = options[RECURRENT], options[HIDDEN], options[REVERSE]
    flat_h, flat_c, q_all = hidden.reshape(-1), cell.reshape(-1), gates.reshape(-1)
    if projection.ctypes.data != gates.ctypes.data:
        take(q_all, first * steps * 4 * units, projection.reshape(-1), first * steps * 4 * units,
             (last - first) * steps * 4 * units)  # fmt: skip
    for s in range(steps):
        t = moment(s, steps, reverse)
        t0 = moment(s - 1, steps, reverse)
        at = q_all.ctypes.data + 4 * (first * steps + t) * 4 * units
        if s > 0:
            before = flat_h.ctypes.data + 4 * (first * steps + t0) * units
            multiply_packed(last - first, 4 * units, units, before, steps * units, packed.ctypes.data, at,
                            steps * 4 * units, at, steps * 4 * units)  # fmt: skip
        elif hidden0.size:
            before = hidden0.ctypes.data + 4 * first * units
            multiply_packed(last - first, 4 * units, units, before, units, packed.ctypes.data, at,
                            steps * 4 * units, at, steps * 4 * units)  # fmt: skip
        for n in range(first, last):
            q, place = (n * steps + t) * 4 * units, (n * steps + t) * units
            activate(rec, q_all, q, 2 * units)
            activate(act, q_all, q + 2 * units, units)
            activate(rec, q_all, q + 3 * units, units)
            if s > 0:
                _cell(q_all, q, flat_c, place, flat_c, (n * steps + t0) * units, units)
            else:
                _cell(q_all, q, flat_c, place, cell0, n * units if cell0.size else -1, units)
            take(flat_h, place, flat_c, place, units)
            activate(act, flat_h, place, units)
            multiply_by(flat_h, place, q_all, q + 3 * units, units)
            if options[LIMIT] >= 0:
                drop(options, counters, scale, n, t * units, flat_h, place, units)


@kernel(forks=True)
def forward(
    projection: Array, weight: Array, hidden0: Array, cell0: Array, hidden: Array, cell: Array, gates: Array,
    options: Int64, counters: Int64, scale: float, packed: Array, parts: int,
) -> None:  # fmt: skip
    """All samples; ``weight`` [u, 4u] (empty: none is needed), initial states [N * u] (empty: zero)."""
    if weight.size:
        fork_join(pack_matrix, parts, (weight, 0, weight.shape[1], 0, packed))
    arguments = (projection, weight, hidden0, cell0, hidden, cell, gates, options, counters, scale, packed)
    fork_join(forward_part, parts, arguments)


@kernel()
def _step_back(
    q_all: Array, q: int, units: int, rec: int, act: int, work: Array, dh: int, dc: int, u: int, v: int, before: Array,
    earlier: int,
) -> None:  # fmt: skip
    """Derivatives of one sample and step over its gates; ``work`` holds dh, dc, ``u`` = act(c) and free space ``v``."""
    i, f, g, o = q, q + units, q + 2 * units, q + 3 * units
    product(work, v, work, dh, q_all, o, units)  # to the cell through the hidden state
    slope(act, work, u, work, v, units)
    add(work, dc, work, v, units)
    product(work, v, work, dh, work, u, units)
    slope(rec, q_all, o, work, v, units)
    take(q_all, o, work, v, units)
    product(work, v, work, dc, q_all, i, units)
    product(work, u, work, dc, q_all, g, units)
    slope(act, q_all, g, work, v, units)
    slope(rec, q_all, i, work, u, units)
    take(q_all, g, work, v, units)
    take(q_all, i, work, u, units)
    if earlier >= 0:
        product(work, v, work, dc, before, earlier, units)
        slope(rec, q_all, f, work, v, units)
    else:
        clear(work, v, units)
    multiply_by(work, dc, q_all, f, units)
    take(q_all, f, work, v, units)


@kernel()
def backward_part(
    part: int, parts: int, gates: Array, cell: Array, cell0: Array, g: Array, gc: Array, out: Array, dhidden0: Array,
    dcell0: Array, options: Int64, counters: Int64, scale: float, packed: Array, work_all: Array,
) -> None:  # fmt: skip
    """The samples of one part. ``out`` [N, T, 4u] may be the memory of ``gates``; ``work_all`` has 4 N u floats."""
    batch, steps, units = cell.shape
    first, last = part * batch // parts, (part + 1) * batch // parts
    rec, act, reverse, at_step = options[RECURRENT], options[HIDDEN], options[REVERSE], options[AT]
    q_all, flat_c = out.reshape(-1), cell.reshape(-1)
    if gates.ctypes.data != out.ctypes.data:
        take(q_all, first * steps * 4 * units, gates.reshape(-1), first * steps * 4 * units,
             (last - first) * steps * 4 * units)  # fmt: skip
    size = batch * units  # of each of dh, dc, u, v
    mine = (last - first) * units
    clear(work_all, first * units, mine)
    if gc.size:
        take(work_all, size + first * units, gc, first * units, mine)
    else:
        clear(work_all, size + first * units, mine)
    for s in range(steps - 1, -1, -1):
        t = moment(s, steps, reverse)
        t0 = moment(s - 1, steps, reverse)
        for n in range(first, last):
            dh = n * units
            place, q = (n * steps + t) * units, (n * steps + t) * 4 * units
            incoming(g, at_step, n, t, units, steps, work_all, dh)
            if options[LIMIT] >= 0:
                drop(options, counters, scale, n, t * units, work_all, dh, units)
            take(work_all, 2 * size + dh, flat_c, place, units)
            activate(act, work_all, 2 * size + dh, units)
            if s > 0:
                _step_back(q_all, q, units, rec, act, work_all, dh, size + dh, 2 * size + dh, 3 * size + dh, flat_c,
                           (n * steps + t0) * units)  # fmt: skip
            else:
                _step_back(q_all, q, units, rec, act, work_all, dh, size + dh, 2 * size + dh, 3 * size + dh, cell0,
                           dh if cell0.size else -1)  # fmt: skip
        at = q_all.ctypes.data + 4 * (first * steps + t) * 4 * units
        if s > 0:
            multiply_packed(last - first, units, 4 * units, at, steps * 4 * units, packed.ctypes.data,
                            work_all.ctypes.data + 4 * first * units, units, 0, 0)  # fmt: skip
        elif dhidden0.size:
            multiply_packed(last - first, units, 4 * units, at, steps * 4 * units, packed.ctypes.data,
                            dhidden0.ctypes.data + 4 * first * units, units, 0, 0)  # fmt: skip
    if dcell0.size:
        take(dcell0, first * units, work_all, size + first * units, (last - first) * units)


@kernel(forks=True)
def backward(
    gates: Array, cell: Array, weight: Array, cell0: Array, g: Array, gc: Array, out: Array, dhidden0: Array,
    dcell0: Array, options: Int64, counters: Int64, scale: float, packed: Array, work: Array, parts: int,
) -> None:  # fmt: skip
    """All samples: ``g`` by the hidden states (of all steps, or of step ``options[AT]``), ``gc`` by the last cell
    state.
    """
    if weight.size:
        fork_join(pack_matrix, parts, (weight, 0, weight.shape[1], 1, packed))
    arguments = (gates, cell, cell0, g, gc, out, dhidden0, dcell0, options, counters, scale, packed, work)
    fork_join(backward_part, parts, arguments)
