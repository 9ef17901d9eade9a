"""Many dot products of long rows at once, emitted as LLVM IR: the weight gradient of convolutions with few channels.

``dot`` forms ROWS x taps sums of products of two vectors in registers; the other micro-kernel broadcasts one side
instead.
"""

from __future__ import annotations

import importlib
from typing import Any

from llvmlite import ir
from numba import types

from nntrainer_py.tensor.kernels.compile import intrinsic
from nntrainer_py.tensor.kernels.micro_kernel import F32, I64, LANES, VECTORS, const, in_bytes, load, store

cgutils: Any = importlib.import_module("numba.core.cgutils")  # typed in some versions of Numba only

# (rows, taps) of the two register tiles: with 32 vector registers, or with 16
WIDE, NARROW = ((6, 5), (8, 3)) if LANES == 16 or VECTORS == 4 else ((2, 5), (3, 3))


def _sum(builder: Any, value: Any) -> Any:
    """Sum of the lanes, pairwise: a fixed order."""
    lanes = LANES
    while lanes > 1:
        lanes //= 2
        half = ir.VectorType(ir.IntType(32), lanes)
        undefined = ir.Constant(value.type, ir.Undefined)
        low = builder.shuffle_vector(value, undefined, ir.Constant(half, list(range(lanes))))
        high = builder.shuffle_vector(value, undefined, ir.Constant(half, list(range(lanes, 2 * lanes))))
        value = builder.fadd(low, high)
    return builder.extract_element(value, ir.Constant(ir.IntType(32), 0))


def _function(module: Any, rows: int, taps: int) -> Any:
    name = f"nntrainer_dot_{rows}x{taps}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 13), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    some_rows, some_taps, images, vectors, a, a_row, a_image, b, b_tap, b_image, c, c_row, add = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    kind = ir.VectorType(F32, LANES)
    multiply_add = cgutils.get_or_insert_function(
        module, ir.FunctionType(kind, [kind] * 3), f"llvm.fmuladd.v{LANES}f32"
    )

    def offsets(count: int, some: Any, step: Any) -> list[Any]:
        """Row i's offset in bytes; rows beyond ``some`` repeat the last one, and their sums are not stored."""
        last = builder.sub(some, const(1))
        bounded = [builder.select(builder.icmp_signed("<", const(i), last), const(i), last) for i in range(count)]
        return [builder.mul(i, in_bytes(builder, step)) for i in bounded]

    from_a, from_b = offsets(rows, some_rows, a_row), offsets(taps, some_taps, b_tap)
    sums = [[builder.alloca(kind) for _ in range(taps)] for _ in range(rows)]
    for line in sums:
        for place in line:
            builder.store(ir.Constant(kind, [0.0] * LANES), place)
    with cgutils.for_range(builder, images) as outer:
        image_a = builder.add(a, builder.mul(in_bytes(builder, a_image), outer.index))
        image_b = builder.add(b, builder.mul(in_bytes(builder, b_image), outer.index))
        with cgutils.for_range(builder, vectors) as inner:
            at = builder.mul(inner.index, const(4 * LANES))
            left = [load(builder, builder.add(builder.add(image_a, place), at), kind) for place in from_a]
            for j in range(taps):
                right = load(builder, builder.add(builder.add(image_b, from_b[j]), at), kind)
                for i in range(rows):
                    value = builder.call(multiply_add, [left[i], right, builder.load(sums[i][j])])
                    builder.store(value, sums[i][j])
    with builder.if_then(builder.icmp_signed("==", add, const(0))):
        for i in range(rows):
            for j in range(taps):
                with builder.if_then(_both(builder, some_rows, i, some_taps, j)):
                    store(builder, ir.Constant(F32, 0.0), _cell(builder, c, c_row, i, j))
    for i in range(rows):
        for j in range(taps):
            with builder.if_then(_both(builder, some_rows, i, some_taps, j)):
                place = _cell(builder, c, c_row, i, j)
                store(builder, builder.fadd(load(builder, place, F32), _sum(builder, builder.load(sums[i][j]))), place)
    builder.ret_void()
    return function


def _both(builder: Any, some_rows: Any, i: int, some_taps: Any, j: int) -> Any:
    return builder.and_(builder.icmp_signed("<", const(i), some_rows), builder.icmp_signed("<", const(j), some_taps))


def _cell(builder: Any, c: Any, c_row: Any, i: int, j: int) -> Any:
    return builder.add(c, builder.add(builder.mul(in_bytes(builder, c_row), const(i)), const(4 * j)))


def _emitter(rows: int, taps: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.call(_function(builder.module, rows, taps), args)
        return context.get_dummy_value()

    return types.void(*[types.int64] * 13), generate


@intrinsic
def dot_wide(  # type: ignore[no-untyped-def]
    context, rows, taps, images, vectors, a, a_row, a_image, b, b_tap, b_image, c, c_row, add
):
    """c[i, j] (+)= sum over ``images`` and ``vectors`` * LANES elements l of a[image, i, l] b[image, j + l].

    i < rows <= WIDE[0], j < taps <= WIDE[1]; a, b and c are addresses, steps count floats, c's columns are adjacent.
    """
    return _emitter(*WIDE)


@intrinsic
def dot_narrow(  # type: ignore[no-untyped-def]
    context, rows, taps, images, vectors, a, a_row, a_image, b, b_tap, b_image, c, c_row, add
):
    """As ``dot_wide`` for NARROW: more rows, fewer taps."""
    return _emitter(*NARROW)
