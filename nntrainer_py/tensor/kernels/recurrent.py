"""What the recurrent kernels share: packed products of a step, gate functions on short runs, dropout of a hidden state.

A step multiplies the hidden states of all samples by the recurrent matrix, which is packed once for all steps. Gate
functions stand in loops over few arrays each, which are slices: a loop over many arrays, or over indices that might be
negative, would not become vector code. A
sample's numbers depend on that sample only, so that threads may share the batch in any way.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nntrainer_py.tensor.kernels.activation import SELU_NEGATIVE, SELU_SCALE
from nntrainer_py.tensor.kernels.compile import kernel
from nntrainer_py.tensor.kernels.exponential import exp, expm1, sigmoid_of, softplus_of, tanh_of
from nntrainer_py.tensor.kernels.matmul import DEPTH, multiply_rows, pack_columns, pack_transposed
from nntrainer_py.tensor.kernels.micro_kernel import ADD_ROWS, COLUMNS, ROWS
from nntrainer_py.tensor.kernels.random import OFFSET, STEP, philox

Array = npt.NDArray[np.float32]
Int64 = npt.NDArray[np.int64]
f32 = np.float32

#: gate functions by code; each derivative is had from the function's own result
FUNCTIONS = ("none", "sigmoid", "tanh", "relu", "leaky_relu", "softplus", "elu", "selu")
_SIGMOID, _TANH, _RELU, _LEAKY, _SOFTPLUS, _ELU, _SELU = range(1, 8)

# Places in ``options``: what a call of a recurrent kernel does, fixed when it is bound.
RECURRENT, HIDDEN, REVERSE, AT, AFTER, KEY, LIMIT = range(7)
OPTIONS = 7

_LOW = np.uint64(0xFFFFFFFF)


def packed_floats(depth: int, columns: int) -> int:
    """Floats of a packed matrix [depth, columns]."""
    return depth * -(-columns // COLUMNS) * COLUMNS


@kernel()
def pack_matrix(part: int, parts: int, matrix: Array, first: int, columns: int, transpose: int, packed: Array) -> None:
    """A share of the panels [panel, depth, COLUMNS] of ``matrix[:, first : first + columns]`` or of its transpose."""
    depth, width = (columns, matrix.shape[0]) if transpose else (matrix.shape[0], columns)
    stride = matrix.shape[1]
    panels = (width + COLUMNS - 1) // COLUMNS
    source, target = matrix.ctypes.data + 4 * first, packed.ctypes.data
    for q in range(part * panels // parts, (part + 1) * panels // parts):
        j = q * COLUMNS
        place = target + 4 * depth * j
        if transpose:
            pack_transposed(source + 4 * j * stride, stride, depth, min(COLUMNS, width - j), place)
        else:
            pack_columns(source + 4 * j, stride, depth, min(COLUMNS, width - j), f32(1.0), place)


@kernel()
def multiply_packed(
    rows: int, columns: int, depth: int, a: int, lda: int, packed: int, c: int, ldc: int, init: int, ldi: int
) -> None:
    """C[rows, columns] = A[rows, depth] B (+ init where it is not 0), B packed; every argument an address or floats."""
    for j in range(0, columns, COLUMNS):
        width, panel = min(COLUMNS, columns - j), packed + 4 * depth * j
        for k in range(0, depth, DEPTH):
            block = min(DEPTH, depth - k)
            for i in range(0, rows, ROWS):
                target = c + 4 * (i * ldc + j)
                start, step, mode = target, ldc, ADD_ROWS
                if k == 0:
                    start, step, mode = init + 4 * (i * ldi + j), ldi, ADD_ROWS if init != 0 else 0
                multiply_rows(
                    min(ROWS, rows - i), width, block, a + 4 * (i * lda + k), lda, 1, panel + 4 * k * COLUMNS,
                    COLUMNS, target, ldc, start, step, mode,
                )  # fmt: skip


@kernel()
def activate(code: int, values: Array, start: int, count: int) -> None:
    """``x = function(x)`` for ``count`` elements from ``start`` on."""
    x = values[start : start + count]
    if code == _SIGMOID:
        for i in range(x.size):
            x[i] = sigmoid_of(x[i])
    elif code == _TANH:
        for i in range(x.size):
            x[i] = tanh_of(x[i])
    elif code == _RELU:
        for i in range(x.size):
            v = x[i]
            x[i] = f32(0.0) if v <= f32(0.0) else v
    elif code == _LEAKY:
        for i in range(x.size):
            v = x[i]
            x[i] = f32(0.01) * v if v < f32(0.0) else v
    elif code == _SOFTPLUS:
        for i in range(x.size):
            x[i] = softplus_of(x[i])
    elif code == _ELU:
        for i in range(x.size):
            v = x[i]
            x[i] = expm1(v) if v < f32(0.0) else v
    elif code == _SELU:
        for i in range(x.size):
            v = x[i]
            x[i] = SELU_NEGATIVE * expm1(v) if v <= f32(0.0) else SELU_SCALE * v


@kernel()
def slope(code: int, results: Array, at: int, values: Array, start: int, count: int) -> None:
    """``values[start:] *= function'``, from the function's results ``results[at : at + count]``."""
    y, g = results[at : at + count], values[start : start + count]
    if code == _SIGMOID:
        for i in range(g.size):
            g[i] *= y[i] * (f32(1.0) - y[i])
    elif code == _TANH:
        for i in range(g.size):
            g[i] *= f32(1.0) - y[i] * y[i]
    elif code == _RELU:
        for i in range(g.size):
            g[i] *= f32(0.0) if y[i] <= f32(0.0) else f32(1.0)
    elif code == _LEAKY:
        for i in range(g.size):
            g[i] *= f32(0.01) if y[i] < f32(0.0) else f32(1.0)
    elif code == _SOFTPLUS:
        for i in range(g.size):
            g[i] *= f32(1.0) - exp(-y[i])
    elif code == _ELU:
        for i in range(g.size):
            g[i] *= y[i] + f32(1.0) if y[i] < f32(0.0) else f32(1.0)
    elif code == _SELU:
        for i in range(g.size):
            g[i] *= y[i] + SELU_NEGATIVE if y[i] <= f32(0.0) else SELU_SCALE


@kernel()
def drop(
    options: Int64, counters: Int64, scale: float, sample: int, element: int, x: Array, at: int, count: int
) -> None:
    """Dropout of ``count`` elements of ``x`` from ``at`` on, which are elements ``element``... of ``sample``.

    The bits are those of the dropout operation over the whole sequence. A dropped element is 0 whatever it was.
    """
    limit, factor = np.uint64(options[LIMIT]), f32(scale)
    key, step = np.uint64(options[KEY]), np.uint64(counters[STEP]) & _LOW
    number, index = np.uint64(options[REVERSE]), np.uint64(counters[OFFSET] + sample) & _LOW
    for group in range(element // 4, (element + count + 3) // 4):
        words = philox(np.uint64(group) & _LOW, index, step, number, key)
        for i in range(max(4 * group, element), min(4 * group + 4, element + count)):
            place = at + i - element
            x[place] = f32(0.0) if words[i - 4 * group] < limit else x[place] * factor


@kernel()
def moment(s: int, steps: int, reverse: int) -> int:
    """The time step that is computed as number ``s``."""
    return steps - 1 - s if reverse else s


@kernel()
def take(target: Array, start: int, source: Array, at: int, count: int) -> None:
    """``target[start:] = source[at : at + count]``."""
    out, x = target[start : start + count], source[at : at + count]
    for i in range(out.size):
        out[i] = x[i]


@kernel()
def clear(target: Array, start: int, count: int) -> None:
    """``target[start : start + count] = 0``."""
    out = target[start : start + count]
    for i in range(out.size):
        out[i] = f32(0.0)


@kernel()
def add(target: Array, start: int, source: Array, at: int, count: int) -> None:
    """``target[start:] += source[at : at + count]``."""
    out, x = target[start : start + count], source[at : at + count]
    for i in range(out.size):
        out[i] += x[i]


@kernel()
def product(target: Array, start: int, a: Array, at: int, b: Array, to: int, count: int) -> None:
    """``target[start:] = a[at:] * b[to:]``."""
    out, x, y = target[start : start + count], a[at : at + count], b[to : to + count]
    for i in range(out.size):
        out[i] = x[i] * y[i]


@kernel()
def add_product(target: Array, start: int, a: Array, at: int, b: Array, to: int, count: int) -> None:
    """``target[start:] += a[at:] * b[to:]``."""
    out, x, y = target[start : start + count], a[at : at + count], b[to : to + count]
    for i in range(out.size):
        out[i] += x[i] * y[i]


@kernel()
def rest_product(target: Array, start: int, a: Array, at: int, b: Array, to: int, count: int) -> None:
    """``target[start:] = (1 - a[at:]) * b[to:]``."""
    out, x, y = target[start : start + count], a[at : at + count], b[to : to + count]
    for i in range(out.size):
        out[i] = (f32(1.0) - x[i]) * y[i]


@kernel()
def negative(target: Array, start: int, source: Array, at: int, count: int) -> None:
    """``target[start:] = -source[at : at + count]``."""
    out, x = target[start : start + count], source[at : at + count]
    for i in range(out.size):
        out[i] = -x[i]


@kernel()
def scaled(target: Array, start: int, source: Array, at: int, count: int, factor: np.float32) -> None:
    """``target[start:] = source[at : at + count] * factor``."""
    out, x = target[start : start + count], source[at : at + count]
    for i in range(out.size):
        out[i] = x[i] * factor


@kernel()
def multiply_by(target: Array, start: int, b: Array, to: int, count: int) -> None:
    """``target[start:] *= b[to : to + count]``."""
    out, y = target[start : start + count], b[to : to + count]
    for i in range(out.size):
        out[i] *= y[i]


@kernel()
def incoming(g: Array, at_step: int, sample: int, t: int, units: int, steps: int, target: Array, start: int) -> None:
    """Add to ``target`` the derivative by the hidden state of a step: ``g`` flat, of all steps or of one."""
    if g.size == 0:
        return
    if at_step < 0:
        add(target, start, g, (sample * steps + t) * units, units)
    elif t == at_step:
        add(target, start, g, sample * units, units)
