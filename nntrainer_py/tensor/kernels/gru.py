"""Gated recurrent units over all steps, and their way back through time.

Gates stand in the order z, r, g; ``h = z h' + (1 - z) g``. ``inner`` keeps what a step needs once more: with the reset
after the product ``h' U_g + b_g``, else ``r h'``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.recurrent import (
    AFTER,
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
    negative,
    pack_matrix,
    product,
    rest_product,
    slope,
    take,
)

Array = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]


@kernel()
def _product(
    rows: int, columns: int, units: int, before: int, stride: int, packed: Array, target: Array, start: int, ldc: int,
    bias: Array, first: int,
) -> None:  # fmt: skip
    """target[rows, columns] = h' U + bias[first:]; ``before`` 0: h' is zero, ``bias`` may be empty."""
    init = bias.ctypes.data + 4 * first if bias.size else 0
    if before != 0:
        place = target.ctypes.data + 4 * start
        multiply_packed(rows, columns, units, before, stride, packed.ctypes.data, place, ldc, init, 0)
        return
    for n in range(rows):
        if bias.size:
            take(target, start + n * ldc, bias, first, columns)
        else:
            clear(target, start + n * ldc, columns)


@kernel()
def _mix(flat: Array, place: int, gates: Array, q: int, before: Array, earlier: int, units: int) -> None:
    """``h = z h' + (1 - z) g``; ``earlier`` -1: h' is zero."""
    rest_product(flat, place, gates, q, gates, q + 2 * units, units)
    if earlier >= 0:
        add_product(flat, place, gates, q, before, earlier, units)


@kernel()
def forward_part(
    part: int, parts: int, projection: Array, bias: Array, hidden0: Array, hidden: Array, gates: Array, inner: Array,
    options: Int64, counters: Int64, scale: float, packed_zr: Array, packed_g: Array, work: Array,
) -> None:  # fmt: skip
    """The samples of one part. ``gates`` [N, T, 3u] may be the memory of ``projection``; ``work`` has 2 N u floats."""
    batch, steps, u = hidden.shape
    first, last = part * batch // parts, (part + 1) * batch // parts
    rows, rec, act, reverse, after = last - first, options[RECURRENT], options[HIDDEN], options[REVERSE], options[AFTER]
    flat, q_all, keep = hidden.reshape(-1), gates.reshape(-1), inner.reshape(-1)
    if projection.ctypes.data != gates.ctypes.data:
        take(q_all, first * steps * 3 * u, projection.reshape(-1), first * steps * 3 * u, rows * steps * 3 * u)
    for s in range(steps):
        t = moment(s, steps, reverse)
        if s > 0:
            source, leap, shift = flat, steps * u, moment(s - 1, steps, reverse) * u
        else:
            source, leap, shift = hidden0, u, 0
        before = source.ctypes.data + 4 * (first * leap + shift) if source.size else 0
        _product(rows, 2 * u, u, before, leap, packed_zr, work, first * 2 * u, 2 * u, bias, 0)
        place = (first * steps + t) * u
        if after:
            _product(rows, u, u, before, leap, packed_g, keep, place, steps * u, bias, 2 * u)
        for n in range(first, last):
            q, at, earlier = (n * steps + t) * 3 * u, (n * steps + t) * u, n * leap + shift
            add(q_all, q, work, n * 2 * u, 2 * u)
            activate(rec, q_all, q, 2 * u)
            if after:
                add_product(q_all, q + 2 * u, q_all, q + u, keep, at, u)
            elif before != 0:
                product(keep, at, q_all, q + u, source, earlier, u)
            else:
                clear(keep, at, u)
        if not after:
            _product(rows, u, u, keep.ctypes.data + 4 * place if before != 0 else 0, steps * u, packed_g, work,
                     first * 2 * u, 2 * u, bias, 2 * u)  # fmt: skip
            for n in range(first, last):
                add(q_all, (n * steps + t) * 3 * u + 2 * u, work, n * 2 * u, u)
        for n in range(first, last):
            q, at = (n * steps + t) * 3 * u, (n * steps + t) * u
            activate(act, q_all, q + 2 * u, u)
            _mix(flat, at, q_all, q, source, n * leap + shift if before != 0 else -1, u)
            if options[LIMIT] >= 0:
                drop(options, counters, scale, n, t * u, flat, at, u)


@kernel(forks=True)
def forward(
    projection: Array, weight: Array, bias: Array, hidden0: Array, hidden: Array, gates: Array, inner: Array,
    options: Int64, counters: Int64, scale: float, packed_zr: Array, packed_g: Array, work: Array, parts: int,
) -> None:  # fmt: skip
    """All samples; ``weight`` [u, 3u], ``bias`` of the recurrent product [3u] (or empty), initial state [N * u] (or
    empty).
    """
    u = weight.shape[0]
    fork_join(pack_matrix, parts, (weight, 0, 2 * u, 0, packed_zr))
    fork_join(pack_matrix, parts, (weight, 2 * u, u, 0, packed_g))
    arguments = (
        projection, bias, hidden0, hidden, gates, inner, options, counters, scale, packed_zr, packed_g, work,
    )  # fmt: skip
    fork_join(forward_part, parts, arguments)


@kernel()
def _gates_back(
    q_all: Array, q: int, u: int, rec: int, act: int, work: Array, dh: int, v: int, before: Array, earlier: int
) -> None:
    """Derivatives by the arguments of z and g in place of these gates; dh becomes its share through z alone."""
    negative(work, v, q_all, q + 2 * u, u)
    if earlier >= 0:
        add(work, v, before, earlier, u)
    multiply_by(work, v, work, dh, u)  # dz = dh (h' - g)
    slope(rec, q_all, q, work, v, u)
    dg = v + u
    rest_product(work, dg, q_all, q, work, dh, u)
    slope(act, q_all, q + 2 * u, work, dg, u)
    multiply_by(work, dh, q_all, q, u)
    take(q_all, q, work, v, u)
    take(q_all, q + 2 * u, work, dg, u)


@kernel()
def _reset_back(
    q_all: Array, q: int, u: int, rec: int, work: Array, v: int, factor: Array, at: int, through: Array, to: int
) -> None:
    """Derivative by the argument of r in place of r, from the derivative ``through`` by r's product with ``factor``."""
    product(work, v, through, to, factor, at, u)
    slope(rec, q_all, q + u, work, v, u)
    take(q_all, q + u, work, v, u)


@kernel()
def backward_part(
    part: int, parts: int, gates: Array, inner: Array, hidden: Array, hidden0: Array, g: Array, out: Array,
    dinner: Array, dhidden0: Array, options: Int64, counters: Int64, scale: float, packed_zr: Array, packed_g: Array,
    work: Array,
) -> None:  # fmt: skip
    """The samples of one part. ``out`` [N, T, 3u], ``dinner`` [N, T, u] may be gates and inner; ``work``: 4 N u
    floats.
    """
    batch, steps, u = hidden.shape
    first, last = part * batch // parts, (part + 1) * batch // parts
    rows, rec, act, reverse, after = last - first, options[RECURRENT], options[HIDDEN], options[REVERSE], options[AFTER]
    flat, q_all, keep, ds = hidden.reshape(-1), out.reshape(-1), inner.reshape(-1), dinner.reshape(-1)
    if gates.ctypes.data != out.ctypes.data:
        take(q_all, first * steps * 3 * u, gates.reshape(-1), first * steps * 3 * u, rows * steps * 3 * u)
    size = batch * u  # of dh, of drh, and twice of free space
    dh_at, drh_at = work.ctypes.data + 4 * first * u, work.ctypes.data + 4 * (size + first * u)
    clear(work, first * u, rows * u)
    for s in range(steps - 1, -1, -1):
        t = moment(s, steps, reverse)
        if s > 0:
            source, leap, shift = flat, steps * u, moment(s - 1, steps, reverse) * u
        else:
            source, leap, shift = hidden0, u, 0
        exists = source.size > 0
        row_q = q_all.ctypes.data + 4 * (first * steps + t) * 3 * u
        for n in range(first, last):
            q, at, dh, v = (n * steps + t) * 3 * u, (n * steps + t) * u, n * u, 2 * size + 2 * n * u
            incoming(g, options[AT], n, t, u, steps, work, dh)
            if options[LIMIT] >= 0:
                drop(options, counters, scale, n, t * u, work, dh, u)
            _gates_back(q_all, q, u, rec, act, work, dh, v, source, n * leap + shift if exists else -1)
            if after:
                product(work, v + u, q_all, q + 2 * u, q_all, q + u, u)  # by h' U_g + b_g
                _reset_back(q_all, q, u, rec, work, v, keep, at, q_all, q + 2 * u)
                take(ds, at, work, v + u, u)
        if not after:
            if exists:
                multiply_packed(rows, u, u, row_q + 4 * 2 * u, steps * 3 * u, packed_g.ctypes.data, drh_at, u, 0, 0)
            for n in range(first, last):
                q, drh = (n * steps + t) * 3 * u, size + n * u
                if exists:
                    product(work, 2 * size + 2 * n * u + u, work, drh, q_all, q + u, u)
                    add(work, n * u, work, 2 * size + 2 * n * u + u, u)
                    _reset_back(q_all, q, u, rec, work, 2 * size + 2 * n * u, source, n * leap + shift, work, drh)
                else:
                    clear(q_all, q + u, u)
        if exists:
            multiply_packed(rows, u, 2 * u, row_q, steps * 3 * u, packed_zr.ctypes.data, dh_at, u, dh_at, u)
            if after:
                at_ds = ds.ctypes.data + 4 * (first * steps + t) * u
                multiply_packed(rows, u, u, at_ds, steps * u, packed_g.ctypes.data, dh_at, u, dh_at, u)
    if dhidden0.size:
        take(dhidden0, first * u, work, first * u, rows * u)


@kernel(forks=True)
def backward(
    gates: Array, inner: Array, hidden: Array, weight: Array, hidden0: Array, g: Array, out: Array, dinner: Array,
    dhidden0: Array, options: Int64, counters: Int64, scale: float, packed_zr: Array, packed_g: Array, work: Array,
    parts: int,
) -> None:  # fmt: skip
    """All samples; ``dinner`` is empty where the reset comes before the product."""
    u = weight.shape[0]
    fork_join(pack_matrix, parts, (weight, 0, 2 * u, 1, packed_zr))
    fork_join(pack_matrix, parts, (weight, 2 * u, u, 1, packed_g))
    arguments = (
        gates, inner, hidden, hidden0, g, out, dinner, dhidden0, options, counters, scale, packed_zr, packed_g, work,
    )  # fmt: skip
    fork_join(backward_part, parts, arguments)
