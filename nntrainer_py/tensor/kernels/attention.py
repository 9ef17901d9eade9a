"""Scaled dot-product attention in blocks of query rows: the whole matrix of scores never exists.

For each sample and head the keys and values are packed once; then ``BLOCK`` query rows at a time get their scores,
softmax and result. Of each row two numbers are kept (its largest score and the reciprocal of its sum), from which
the way back makes the same probabilities again. A sample's numbers depend on that sample only.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.exponential import exp
from nntrainer_py.tensor.kernels.fork_join import fork_join
from nntrainer_py.tensor.kernels.matmul import multiply_rows, pack_columns, pack_transposed
from nntrainer_py.tensor.kernels.micro_kernel import ADD_ROWS, COLUMNS, ROWS
from nntrainer_py.tensor.kernels.recurrent import LIMIT, OPTIONS, add, drop, multiply_packed, take

Array = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]
f32 = np.float32
i32 = np.int32

BLOCK = 4 * ROWS  # query rows at a time

# Places in ``options`` behind those of dropout (see recurrent.py).
HEADS, MASK_HEADS, CAUSAL, AFTER_DROPOUT = range(OPTIONS, OPTIONS + 4)
ALL_OPTIONS = OPTIONS + 4

_SIGN = i32(0x7FFFFFFF)
_LOWEST = f32(-np.inf)


def whole_panels(columns: int) -> int:
    """``columns`` rounded up to whole panels."""
    return -(-columns // COLUMNS) * COLUMNS


def forward_floats(keys: int, key_width: int, value_width: int) -> int:
    """Work space of one part of `forward`."""
    return whole_panels(keys) * (key_width + BLOCK) + whole_panels(value_width) * keys


def backward_floats(keys: int, key_width: int, value_width: int) -> int:
    """Work space of one part of `backward`."""
    panels = whole_panels(keys) * (key_width + value_width + 2 * BLOCK) + whole_panels(key_width) * keys
    return panels + (whole_panels(key_width) + whole_panels(value_width)) * BLOCK


@kernel()
def _pack_rows_of(source: int, stride: int, rows: int, columns: int, target: int) -> None:
    """Panels [panel, rows, COLUMNS] of a matrix [rows, columns]."""
    for j in range(0, columns, COLUMNS):
        pack_columns(source + 4 * j, stride, rows, min(COLUMNS, columns - j), f32(1.0), target + 4 * rows * j)


@kernel()
def _pack_transpose_of(source: int, stride: int, rows: int, columns: int, target: int) -> None:
    """Panels [panel, columns, COLUMNS] of the transpose of a matrix [rows, columns]."""
    for j in range(0, rows, COLUMNS):
        pack_transposed(source + 4 * j * stride, stride, columns, min(COLUMNS, rows - j), target + 4 * columns * j)


@kernel()
def _largest(x: Array) -> np.float32:
    """The largest element; bits are compared as integers in the order of the floats (see softmax.py)."""
    best = i32(-0x80000000)
    for j in range(x.size):
        bits = np.float32(x[j]).view(np.int32)
        ordered = i32(bits ^ i32(i32(bits >> i32(31)) & _SIGN))
        best = ordered if ordered > best else best
    return np.int32(best ^ i32(i32(best >> i32(31)) & _SIGN)).view(np.float32)


@kernel()
def _sum(x: Array) -> np.float32:
    total = f32(0.0)
    for j in range(x.size):
        total += x[j]
    return total


@kernel()
def _inner(x: Array, y: Array) -> np.float32:
    total = f32(0.0)
    for j in range(x.size):
        total += x[j] * y[j]
    return total


@kernel()
def _scores(row: Array, mask: Array, at: int, scale: float) -> None:
    """``row = row * scale + mask[at:]``."""
    factor = f32(scale)
    if mask.size:
        added = mask[at : at + row.size]
        for j in range(row.size):
            row[j] = row[j] * factor + added[j]
    else:
        for j in range(row.size):
            row[j] *= factor


@kernel()
def _exponentials(row: Array, top: np.float32) -> None:
    for j in range(row.size):
        row[j] = exp(row[j] - top)


@kernel()
def _times(row: Array, factor: np.float32) -> None:
    for j in range(row.size):
        row[j] *= factor


@kernel()
def _through_softmax(p: Array, g: Array, inner: np.float32) -> None:
    """``g = p (g - inner)``."""
    for j in range(p.size):
        g[j] = p[j] * (g[j] - inner)


@kernel()
def _fill(row: Array, value: np.float32) -> None:
    for j in range(row.size):
        row[j] = value


@kernel()
def _mask_row(options: Int64, n: int, head: int, i: int, queries: int, keys: int) -> int:
    """Where a row of the mask [N, heads or 1, queries, keys] begins."""
    layers = int(options[MASK_HEADS])
    return ((n * layers + (head if layers > 1 else 0)) * queries + i) * keys


@kernel()
def forward_part(
    part: int, parts: int, q: Array, k: Array, v: Array, mask: Array, out: Array, statistics: Array, weights: Array,
    options: Int64, counters: Int64, scale: float, scratch: Array,
) -> None:  # fmt: skip
    """The samples and heads of one part; q, k, v, out [N, T, heads * width], statistics [N, heads, Tq, 2] flat."""
    batch, queries, keys, heads = q.shape[0], q.shape[1], k.shape[1], options[HEADS]
    ldk, ldv = q.shape[2], v.shape[2]
    dk, dv = ldk // heads, ldv // heads
    wide = (keys + COLUMNS - 1) // COLUMNS * COLUMNS
    base = part * (scratch.size // parts)
    at_k = scratch.ctypes.data + 4 * base
    scores = scratch[base + wide * dk : base + wide * (dk + BLOCK)]
    at_s = scores.ctypes.data
    at_v = at_s + 4 * wide * BLOCK
    for unit in range(part * batch * heads // parts, (part + 1) * batch * heads // parts):
        n, head = unit // heads, unit % heads
        _pack_transpose_of(k.ctypes.data + 4 * (n * keys * ldk + head * dk), ldk, keys, dk, at_k)
        _pack_rows_of(v.ctypes.data + 4 * (n * keys * ldv + head * dv), ldv, keys, dv, at_v)
        for i0 in range(0, queries, BLOCK):
            rows = min(BLOCK, queries - i0)
            source = q.ctypes.data + 4 * ((n * queries + i0) * ldk + head * dk)
            multiply_packed(rows, keys, dk, source, ldk, at_k, at_s, wide, 0, 0)
            for r in range(rows):
                i = i0 + r
                seen = min(keys, i + 1) if options[CAUSAL] else keys
                row = scores[r * wide : r * wide + seen]
                _scores(row, mask, _mask_row(options, n, head, i, queries, keys), scale)
                top = _largest(row)
                factor = f32(0.0)  # all are masked: no weight anywhere
                if top != _LOWEST:
                    _exponentials(row, top)
                    factor = f32(1.0) / _sum(row)
                    _times(row, factor)
                else:
                    _fill(row, f32(0.0))
                place = 2 * (unit * queries + i)
                statistics[place], statistics[place + 1] = top, factor
                _fill(scores[r * wide + seen : r * wide + keys], f32(0.0))
                element = (head * queries + i) * keys
                if weights.size and not options[AFTER_DROPOUT]:
                    take(weights, (unit * queries + i) * keys, scores, r * wide, keys)
                if options[LIMIT] >= 0:
                    drop(options, counters, dropped_scale(options), n, element, scores, r * wide, keys)
                if weights.size and options[AFTER_DROPOUT]:
                    take(weights, (unit * queries + i) * keys, scores, r * wide, keys)
            target = out.ctypes.data + 4 * ((n * queries + i0) * ldv + head * dv)
            multiply_packed(rows, dv, keys, at_s, wide, at_v, target, ldv, 0, 0)


@kernel()
def dropped_scale(options: Int64) -> float:
    """``1 / (1 - rate)`` from the threshold of the bits; 0 where all are dropped."""
    kept = 4294967296 - options[LIMIT]
    return 0.0 if kept <= 0 else 4294967296.0 / kept


@kernel(forks=True)
def forward(
    q: Array, k: Array, v: Array, mask: Array, out: Array, statistics: Array, weights: Array, options: Int64,
    counters: Int64, scale: float, scratch: Array, parts: int,
) -> None:  # fmt: skip
    """``out = softmax(q k^T scale + mask) v`` for all samples and heads; ``mask`` and ``weights`` may be empty."""
    fork_join(forward_part, parts, (q, k, v, mask, out, statistics, weights, options, counters, scale, scratch))


@kernel()
def _add_transposed(
    rows: int, keys: int, wide: int, block: int, panels: int, width: int, target: int, ld: int, first: int
) -> None:
    """target[keys, width] (+)= block[rows, keys]^T B, B packed [panel, rows, COLUMNS]."""
    mode = 0 if first else ADD_ROWS
    for j in range(0, width, COLUMNS):
        for i in range(0, keys, ROWS):
            c = target + 4 * (i * ld + j)
            multiply_rows(
                min(ROWS, keys - i), min(COLUMNS, width - j), rows, block + 4 * i, 1, wide, panels + 4 * rows * j,
                COLUMNS, c, ld, c, ld, mode,
            )  # fmt: skip


@kernel()
def _row_back(
    n: int, head: int, i: int, queries: int, keys: int, mask: Array, statistics: Array, gw: Array, dmask: Array,
    p_all: Array, d_all: Array, start: int, options: Int64, counters: Int64, scale: float,
) -> None:  # fmt: skip
    """One query: ``p_all[start:]`` from products to dropped weights, ``d_all[start:]`` from derivatives by these to
    those by the products.
    """
    seen = min(keys, i + 1) if options[CAUSAL] else keys
    p, d = p_all[start : start + seen], d_all[start : start + seen]
    row, element = (n * options[HEADS] + head) * queries + i, (head * queries + i) * keys
    _scores(p, mask, _mask_row(options, n, head, i, queries, keys), scale)
    if statistics[2 * row] != _LOWEST:
        _exponentials(p, statistics[2 * row])
        _times(p, statistics[2 * row + 1])
    else:
        _fill(p, f32(0.0))
    _fill(p_all[start + seen : start + keys], f32(0.0))
    if gw.size and options[AFTER_DROPOUT]:
        add(d_all, start, gw, row * keys, seen)
    if options[LIMIT] >= 0:
        drop(options, counters, dropped_scale(options), n, element, d_all, start, keys)
    if gw.size and not options[AFTER_DROPOUT]:
        add(d_all, start, gw, row * keys, seen)
    _through_softmax(p, d, _inner(p, d))
    _fill(d_all[start + seen : start + keys], f32(0.0))
    if dmask.size:
        take(dmask, row * keys, d_all, start, keys)
    _times(d, f32(scale))
    if options[LIMIT] >= 0:
        drop(options, counters, dropped_scale(options), n, element, p_all, start, keys)


@kernel()
def backward_part(
    part: int, parts: int, q: Array, k: Array, v: Array, mask: Array, statistics: Array, g: Array, gw: Array,
    dq: Array, dk_all: Array, dv_all: Array, dmask: Array, options: Int64, counters: Int64, scale: float,
    scratch: Array,
) -> None:  # fmt: skip
    """The samples and heads of one part; dq, dk, dv may be the memory of q, k, v."""
    batch, queries, keys, heads = q.shape[0], q.shape[1], k.shape[1], options[HEADS]
    ldk, ldv = q.shape[2], v.shape[2]
    dk, dv = ldk // heads, ldv // heads
    wide = (keys + COLUMNS - 1) // COLUMNS * COLUMNS
    wide_k = (dk + COLUMNS - 1) // COLUMNS * COLUMNS
    base = part * (scratch.size // parts)
    p_all, d_all = scratch[base : base + wide * BLOCK], scratch[base + wide * BLOCK : base + 2 * wide * BLOCK]
    at_p, at_d = p_all.ctypes.data, d_all.ctypes.data
    at_kt = at_d + 4 * wide * BLOCK
    at_vt = at_kt + 4 * wide * dk
    at_k = at_vt + 4 * wide * dv
    at_q = at_k + 4 * wide_k * keys
    at_g = at_q + 4 * wide_k * BLOCK
    for unit in range(part * batch * heads // parts, (part + 1) * batch * heads // parts):
        n, head = unit // heads, unit % heads
        k_at, v_at = 4 * (n * keys * ldk + head * dk), 4 * (n * keys * ldv + head * dv)
        _pack_transpose_of(k.ctypes.data + k_at, ldk, keys, dk, at_kt)
        _pack_transpose_of(v.ctypes.data + v_at, ldv, keys, dv, at_vt)
        _pack_rows_of(k.ctypes.data + k_at, ldk, keys, dk, at_k)
        for i0 in range(0, queries, BLOCK):
            rows = min(BLOCK, queries - i0)
            q_at, g_at = 4 * ((n * queries + i0) * ldk + head * dk), 4 * ((n * queries + i0) * ldv + head * dv)
            multiply_packed(rows, keys, dk, q.ctypes.data + q_at, ldk, at_kt, at_p, wide, 0, 0)
            multiply_packed(rows, keys, dv, g.ctypes.data + g_at, ldv, at_vt, at_d, wide, 0, 0)
            _pack_rows_of(q.ctypes.data + q_at, ldk, rows, dk, at_q)
            _pack_rows_of(g.ctypes.data + g_at, ldv, rows, dv, at_g)
            for r in range(rows):
                _row_back(
                    n, head, i0 + r, queries, keys, mask, statistics, gw, dmask, p_all, d_all, r * wide, options,
                    counters, scale,
                )  # fmt: skip
            first = 1 if i0 == 0 else 0
            _add_transposed(rows, keys, wide, at_p, at_g, dv, dv_all.ctypes.data + v_at, ldv, first)
            _add_transposed(rows, keys, wide, at_d, at_q, dk, dk_all.ctypes.data + k_at, ldk, first)
            multiply_packed(rows, dk, keys, at_d, wide, at_k, dq.ctypes.data + q_at, ldk, 0, 0)


@kernel(forks=True)
def backward(
    q: Array, k: Array, v: Array, mask: Array, statistics: Array, g: Array, gw: Array, dq: Array, dk: Array, dv: Array,
    dmask: Array, options: Int64, counters: Int64, scale: float, scratch: Array, parts: int,
) -> None:  # fmt: skip
    """Derivatives by q, k, v and, unless ``dmask`` is empty, the mask; ``gw`` by the weights may be empty."""
    arguments = (
        q, k, v, mask, statistics, g, gw, dq, dk, dv, dmask, options, counters, scale, scratch,
    )  # fmt: skip
    fork_join(backward_part, parts, arguments)
