"""The six transforms of Winograd's convolutions F(4x4, 3x3) and F(2x2, 3x3), on vectors of LANES channels.

For input tile d, weight w, output tile y, their gradients dy and dw (Lavin and Gray 2016, arXiv:1509.09308, and its
transposes):  y = A^T [(G w G^T) * (B^T d B)] A  and  dw = G^T [(B^T d B) * (A dy A^T)] G.
Each is emitted as one function that applies a one-dimensional transform to the columns and then to the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from nntrainer_py.tensor.kernels.compile import intrinsic
from nntrainer_py.tensor.kernels.micro_kernel import F32, I64, LANES


class _Vector:
    """A vector expression: + and - between vectors, * by a Python number."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def __add__(self, other: _Vector) -> _Vector:
        return _Vector(self.builder, self.builder.fadd(self.value, other.value, flags=("contract",)))

    def __sub__(self, other: _Vector) -> _Vector:
        return _Vector(self.builder, self.builder.fsub(self.value, other.value, flags=("contract",)))

    def __mul__(self, factor: float) -> _Vector:
        constant = ir.Constant(self.value.type, [float(factor)] * LANES)
        return _Vector(self.builder, self.builder.fmul(self.value, constant, flags=("contract",)))


_Row = tuple[_Vector, ...]


# F(4x4, 3x3) interpolates at 0, +-5/8, +-11/8 and infinity.  Against the customary 0, +-1, +-2 this halves the root
# mean square error and divides the largest by four, at the same cost; squares and their product are exact in float32.
_A, _B = 5 / 8, 11 / 8
_AA, _BB = _A * _A, _B * _B
_SUM, _PRODUCT = _AA + _BB, _AA * _BB
_SCALE_A, _SCALE_B = 1 / (2 * _AA * (_AA - _BB)), 1 / (2 * _BB * (_BB - _AA))


def _input4(d0: _Vector, d1: _Vector, d2: _Vector, d3: _Vector, d4: _Vector, d5: _Vector) -> _Row:
    even_a, odd_a = d4 - d2 * _BB, (d3 - d1 * _BB) * _A
    even_b, odd_b = d4 - d2 * _AA, (d3 - d1 * _AA) * _B
    first, last = d0 * _PRODUCT - d2 * _SUM + d4, d1 * _PRODUCT - d3 * _SUM + d5
    return first, even_a + odd_a, even_a - odd_a, even_b + odd_b, even_b - odd_b, last


def _output4(m0: _Vector, m1: _Vector, m2: _Vector, m3: _Vector, m4: _Vector, m5: _Vector) -> _Row:
    even_a, odd_a, even_b, odd_b = m1 + m2, m1 - m2, m3 + m4, m3 - m4
    last = odd_a * (_A * _AA) + odd_b * (_B * _BB) + m5
    return m0 + even_a + even_b, odd_a * _A + odd_b * _B, even_a * _AA + even_b * _BB, last


def _output4_transposed(y0: _Vector, y1: _Vector, y2: _Vector, y3: _Vector) -> _Row:
    even_a, odd_a = y0 + y2 * _AA, y1 * _A + y3 * (_A * _AA)
    even_b, odd_b = y0 + y2 * _BB, y1 * _B + y3 * (_B * _BB)
    return y0, even_a + odd_a, even_a - odd_a, even_b + odd_b, even_b - odd_b, y3


def _weight4(w0: _Vector, w1: _Vector, w2: _Vector) -> _Row:
    even_a, odd_a = w0 * _SCALE_A + w2 * (_AA * _SCALE_A), w1 * (_A * _SCALE_A)
    even_b, odd_b = w0 * _SCALE_B + w2 * (_BB * _SCALE_B), w1 * (_B * _SCALE_B)
    return w0 * (1 / _PRODUCT), even_a + odd_a, even_a - odd_a, even_b + odd_b, even_b - odd_b, w2


def _weight4_transposed(u0: _Vector, u1: _Vector, u2: _Vector, u3: _Vector, u4: _Vector, u5: _Vector) -> _Row:
    even_a, odd_a, even_b, odd_b = u1 + u2, u1 - u2, u3 + u4, u3 - u4
    first = u0 * (1 / _PRODUCT) + even_a * _SCALE_A + even_b * _SCALE_B
    last = even_a * (_AA * _SCALE_A) + even_b * (_BB * _SCALE_B) + u5
    return first, odd_a * (_A * _SCALE_A) + odd_b * (_B * _SCALE_B), last


def _input2(d0: _Vector, d1: _Vector, d2: _Vector, d3: _Vector) -> _Row:
    return d0 - d2, d1 + d2, d2 - d1, d1 - d3


def _output2(m0: _Vector, m1: _Vector, m2: _Vector, m3: _Vector) -> _Row:
    return m0 + m1 + m2, m1 - m2 - m3


def _output2_transposed(y0: _Vector, y1: _Vector) -> _Row:
    return y0, y0 + y1, y0 - y1, y1 * -1


def _weight2(w0: _Vector, w1: _Vector, w2: _Vector) -> _Row:
    s = (w0 + w2) * 0.5
    return w0, s + w1 * 0.5, s - w1 * 0.5, w2


def _weight2_transposed(u0: _Vector, u1: _Vector, u2: _Vector, u3: _Vector) -> _Row:
    p, q = (u1 + u2) * 0.5, (u1 - u2) * 0.5
    return u0 + p, q, p + u3


def _function(module: Any, name: str, transform: Callable[..., _Row], taken: int, given: int) -> Any:
    name = f"nntrainer_winograd_{name}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 6), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    source, source_row, source_column, target, target_row, target_column = function.args
    kind = ir.VectorType(F32, LANES)

    def place(base: Any, row_step: Any, column_step: Any, row: int, column: int) -> Any:
        floats = builder.add(
            builder.mul(row_step, ir.Constant(I64, row)), builder.mul(column_step, ir.Constant(I64, column))
        )
        return builder.inttoptr(builder.add(base, builder.shl(floats, ir.Constant(I64, 2))), kind.as_pointer())

    columns = []
    for j in range(taken):
        vectors = []
        for i in range(taken):
            loaded = builder.load(place(source, source_row, source_column, i, j))
            loaded.align = 4
            vectors.append(_Vector(builder, loaded))
        columns.append(transform(*vectors))
    for i in range(given):
        for j, value in enumerate(transform(*(column[i] for column in columns))):
            builder.store(value.value, place(target, target_row, target_column, i, j)).align = 4
    builder.ret_void()
    return function


def _emitter(name: str, transform: Callable[..., _Row], taken: int, given: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.call(_function(builder.module, name, transform, taken, given), args)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 6), generate


# Each: (source, its row step, its column step, target, its row step, its column step); addresses, steps in floats.


@intrinsic
def input4(context, source, sr, sc, target, tr, tc):  # type: ignore[no-untyped-def]
    """B^T d B for F(4x4, 3x3): 6 x 6 to 6 x 6."""
    return _emitter("input4", _input4, 6, 6)


@intrinsic
def output4(context, source, sr, sc, target, tr, tc):  # type: ignore[no-untyped-def]
    """A^T m A for F(4x4, 3x3): 6 x 6 to 4 x 4."""
    return _emitter("output4", _output4, 6, 4)


@intrinsic
def output4_transposed(context, source, sr, sc, target, tr, tc):  # type: ignore[no-untyped-def]
    """A dy A^T for F(4x4, 3x3): 4 x 4 to 6 x 6."""
    return _emitter("output4_transposed", _output4_transposed, 4, 6)


@intrinsic
def weight4(context, source, sr, sc, target, tr, tc):  # type: ignore[no-untyped-def]
    """G w G^T for F(4x4, 3x3): 3 x 3 to 6 x 6."""
    return _emitter("weight4", _weight4, 3, 6)


@intrinsic
def weight4_transposed(context, source, sr, sc, target, tr, tc):  # type: ignore[no-untyped-def]
    """G^T u G for F(4x4, 3x3): 6 x 6 to 3 x 3."""
    return _emitter("weight4_transposed", _weight4_transposed, 6, 3)


@intrinsic
def input2(context, source, sr, sc, target, tr, tc):  # type: ignore[no-untyped-def]
    """B^T d B for F(2x2, 3x3): 4 x 4 to 4 x 4."""
    return _emitter("input2", _input2, 4, 4)


@intrinsic
def output2(context, source, sr, sc, target, tr, tc):  # type: ignore[no-untyped-def]
    """A^T m A for F(2x2, 3x3): 4 x 4 to 2 x 2."""
    return _emitter("output2", _output2, 4, 2)


@intrinsic
def output2_transposed(context, source, sr, sc, target, tr, tc):  # type: ignore[no-untyped-def]
    """A dy A^T for F(2x2, 3x3): 2 x 2 to 4 x 4."""
    return _emitter("output2_transposed", _output2_transposed, 2, 4)


@intrinsic
def weight2(context, source, sr, sc, target, tr, tc):  # type: ignore[no-untyped-def]
    """G w G^T for F(2x2, 3x3): 3 x 3 to 4 x 4."""
    return _emitter("weight2", _weight2, 3, 4)


@intrinsic
def weight2_transposed(context, source, sr, sc, target, tr, tc):  # type: ignore[no-untyped-def]
    """G^T u G for F(2x2, 3x3): 4 x 4 to 3 x 3."""
    return _emitter("weight2_transposed", _weight2_transposed, 4, 3)
