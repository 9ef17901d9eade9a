"""Copies and sums of short runs of floats between strided places, emitted as LLVM IR with masks.

Addresses are integers, strides count floats.  A run is at most LANES long; lanes that are masked off are neither read
nor written, so a run may begin before or end behind its array.  A grid is ``n1`` x ``n2`` runs under the same masks.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from nntrainer_py.tensor.kernels.compile import intrinsic
from nntrainer_py.tensor.kernels.micro_kernel import F32, I1, I32, LANES, Masked, const, in_bytes, load, splat, store

cgutils: Any = importlib.import_module("numba.core.cgutils")  # typed in some versions of Numba only

_INT = types.int64


def _grid(builder: Any, args: Any, body: Callable[[Any, Any], None]) -> None:
    """Call ``body(source, target)`` for the n1 x n2 runs; ``args`` begins as those of the grid intrinsics."""
    source, source1, source2, target, target1, target2, n1, n2 = args[:8]
    source1, source2, target1, target2 = (in_bytes(builder, step) for step in (source1, source2, target1, target2))
    with cgutils.for_range(builder, n1) as outer:
        from1 = builder.add(source, builder.mul(source1, outer.index))
        to1 = builder.add(target, builder.mul(target1, outer.index))
        with cgutils.for_range(builder, n2) as inner:
            from2 = builder.add(from1, builder.mul(source2, inner.index))
            body(from2, builder.add(to1, builder.mul(target2, inner.index)))


@intrinsic
def copy_run(  # type: ignore[no-untyped-def]
    context, source, source_stride, target, target_stride, count, low, high, width, scale
):
    """``count`` runs: target[l] = scale source[l] where low <= l < high, zero elsewhere, for l < width."""
    signature = types.void(*[_INT] * 8, types.float32)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, source_stride, target, target_stride, count, low, high, width, scale = args
        masked = Masked(builder.module, LANES)
        written = masked.between(builder, const(0), width)
        inside = builder.and_(masked.between(builder, low, high), written)
        factor = splat(builder, scale, LANES)

        def body(source: Any, target: Any) -> None:
            masked.store(builder, builder.fmul(masked.load(builder, source, inside), factor), target, written)

        once = const(1)
        _grid(builder, (source, source_stride, once, target, target_stride, once, count, once), body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def copy_grid(  # type: ignore[no-untyped-def]
    context, source, source1, source2, target, target1, target2, n1, n2, low, high, width
):
    """Each run: target[l] = source[l] where low <= l < high, zero elsewhere, for l < width."""
    signature = types.void(*[_INT] * 11)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        low, high, width = args[8:]
        masked = Masked(builder.module, LANES)
        written = masked.between(builder, const(0), width)
        inside = builder.and_(masked.between(builder, low, high), written)

        def body(source: Any, target: Any) -> None:
            masked.store(builder, masked.load(builder, source, inside), target, written)

        _grid(builder, args, body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def copy_grid_of_seconds(  # type: ignore[no-untyped-def]
    context, source, source1, source2, target, target1, target2, n1, n2, low, high, width
):
    """Each run: target[l] = source[2 l] where low <= l < high, zero elsewhere, for l < width."""
    signature = types.void(*[_INT] * 11)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        low, high, width = args[8:]
        wide, narrow = Masked(builder.module, 2 * LANES), Masked(builder.module, LANES)
        end = builder.sub(builder.shl(high, const(1)), const(1))  # the last lane may not read past its own element
        inside = wide.between(builder, builder.shl(low, const(1)), end)
        written = narrow.between(builder, const(0), width)
        even = ir.Constant(ir.VectorType(I32, LANES), list(range(0, 2 * LANES, 2)))

        def body(source: Any, target: Any) -> None:
            value = wide.load(builder, source, inside)
            value = builder.shuffle_vector(value, ir.Constant(wide.kind, ir.Undefined), even)
            narrow.store(builder, value, target, written)

        _grid(builder, args, body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def add_grid(  # type: ignore[no-untyped-def]
    context, source, source1, source2, target, target1, target2, n1, n2, low, high
):
    """Each run: target[l] += source[l] for low <= l < high."""
    signature = types.void(*[_INT] * 10)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        masked = Masked(builder.module, LANES)
        inside = masked.between(builder, *args[8:])

        def body(source: Any, target: Any) -> None:
            value = builder.fadd(masked.load(builder, target, inside), masked.load(builder, source, inside))
            masked.store(builder, value, target, inside)

        _grid(builder, args, body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def rectify_runs(context, target, count):  # type: ignore[no-untyped-def]
    """``count`` whole vectors in a row: target[l] = max(target[l], 0), NaN kept."""
    signature = types.void(_INT, _INT)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target, count = args
        kind = ir.VectorType(F32, LANES)
        zero = ir.Constant(kind, [0.0] * LANES)
        with cgutils.for_range(builder, count) as loop:
            address = builder.add(target, in_bytes(builder, builder.mul(loop.index, const(LANES))))
            value = load(builder, address, kind)
            store(builder, builder.select(builder.fcmp_ordered("<", value, zero), zero, value), address)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def add_grid_to_seconds(  # type: ignore[no-untyped-def]
    context, source, source1, source2, target, target1, target2, n1, n2, low, high
):
    """Each run: target[2 l] += source[l] for low <= l < high."""
    signature = types.void(*[_INT] * 10)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        low, high = args[8:]
        wide, narrow = Masked(builder.module, 2 * LANES), Masked(builder.module, LANES)
        inside = narrow.between(builder, low, high)
        spread = ir.Constant(ir.VectorType(I32, 2 * LANES), [i // 2 for i in range(2 * LANES)])
        even = ir.Constant(ir.VectorType(I1, 2 * LANES), [1 - i % 2 for i in range(2 * LANES)])
        touched = builder.and_(wide.between(builder, builder.shl(low, const(1)), builder.shl(high, const(1))), even)

        def body(source: Any, target: Any) -> None:
            value = narrow.load(builder, source, inside)
            value = builder.shuffle_vector(value, ir.Constant(narrow.kind, ir.Undefined), spread)
            wide.store(builder, builder.fadd(wide.load(builder, target, touched), value), target, touched)

        _grid(builder, args, body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def average_pairs(context, source, line, target, target_line, count, width):  # type: ignore[no-untyped-def]
    """``count`` rows: target[l] = mean of the 2 x 2 floats at source[2 l] and source[line + 2 l], l < width <= LANES.

    The next row of the source lies 2 ``line`` floats on, that of the target ``target_line``.
    """
    signature = types.void(*[_INT] * 6)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, line, target, target_line, count, width = args
        wide, narrow = Masked(builder.module, 2 * LANES), Masked(builder.module, LANES)
        inside = wide.between(builder, const(0), builder.shl(width, const(1)))
        written = narrow.between(builder, const(0), width)
        halves = [ir.Constant(ir.VectorType(I32, LANES), list(range(first, 2 * LANES, 2))) for first in (0, 1)]
        quarter = ir.Constant(narrow.kind, [0.25] * LANES)

        def body(source: Any, target: Any) -> None:
            total = None
            for address in (source, builder.add(source, in_bytes(builder, line))):
                value = wide.load(builder, address, inside)
                for half in halves:
                    part = builder.shuffle_vector(value, ir.Constant(wide.kind, ir.Undefined), half)
                    total = part if total is None else builder.fadd(total, part)
            narrow.store(builder, builder.fmul(total, quarter), target, written)

        one = const(1)
        _grid(builder, (source, builder.shl(line, one), one, target, target_line, one, count, one), body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def largest_of_pairs(  # type: ignore[no-untyped-def]
    context, source, line, target, places, target_line, count, width
):
    """``count`` rows, laid out as in ``average_pairs``: the largest of 2 x 2 floats and, as a byte, which it was.

    The first of equal ones wins, NaN wins over all.
    """
    signature = types.void(*[_INT] * 7)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, line, target, places, target_line, count, width = args
        module = builder.module
        wide, narrow = Masked(module, 2 * LANES), Masked(module, LANES)
        inside = wide.between(builder, const(0), builder.shl(width, const(1)))
        written = narrow.between(builder, const(0), width)
        halves = [ir.Constant(ir.VectorType(I32, LANES), list(range(first, 2 * LANES, 2))) for first in (0, 1)]
        marks = ir.VectorType(ir.IntType(8), LANES)
        kind = ir.FunctionType(ir.VoidType(), [marks, marks.as_pointer(), I32, ir.VectorType(I1, LANES)])
        store_marks = cgutils.get_or_insert_function(module, kind, f"llvm.masked.store.v{LANES}i8.p0")

        def body(source: Any, target: Any) -> None:
            best, mark, cell = None, ir.Constant(marks, [0] * LANES), 0
            for address in (source, builder.add(source, in_bytes(builder, line))):
                value = wide.load(builder, address, inside)
                for half in halves:
                    one = builder.shuffle_vector(value, ir.Constant(wide.kind, ir.Undefined), half)
                    if best is None:
                        best = one
                    else:
                        larger = builder.or_(
                            builder.fcmp_ordered(">", one, best), builder.fcmp_unordered("uno", one, one)
                        )
                        best = builder.select(larger, one, best)
                        mark = builder.select(larger, ir.Constant(marks, [cell] * LANES), mark)
                    cell += 1
            narrow.store(builder, best, target, written)
            # as many bytes into the places as floats into the target
            floats = builder.lshr(builder.sub(target, args[2]), const(2))
            pointer = builder.inttoptr(builder.add(places, floats), marks.as_pointer())
            builder.call(store_marks, [mark, pointer, ir.Constant(I32, 1), written])

        one = const(1)
        _grid(builder, (source, builder.shl(line, one), one, target, target_line, one, count, one), body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def share_among_pairs(context, source, source_line, target, line, count, width):  # type: ignore[no-untyped-def]
    """The way back of ``average_pairs``: a quarter of source[l] to each of the four places of ``target``."""
    signature = types.void(*[_INT] * 6)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        source, source_line, target, line, count, width = args
        wide, narrow = Masked(builder.module, 2 * LANES), Masked(builder.module, LANES)
        inside = narrow.between(builder, const(0), width)
        written = wide.between(builder, const(0), builder.shl(width, const(1)))
        spread = ir.Constant(ir.VectorType(I32, 2 * LANES), [i // 2 for i in range(2 * LANES)])
        quarter = ir.Constant(narrow.kind, [0.25] * LANES)

        def body(source: Any, target: Any) -> None:
            value = builder.fmul(narrow.load(builder, source, inside), quarter)
            value = builder.shuffle_vector(value, ir.Constant(narrow.kind, ir.Undefined), spread)
            for address in (target, builder.add(target, in_bytes(builder, line))):
                wide.store(builder, value, address, written)

        one = const(1)
        _grid(builder, (source, source_line, one, target, builder.shl(line, one), one, count, one), body)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def peek(context, address):  # type: ignore[no-untyped-def]
    """The float at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return load(builder, args[0], F32)

    return types.float32(_INT), generate


@intrinsic
def poke(context, address, value):  # type: ignore[no-untyped-def]
    """Store a float at an address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        store(builder, args[1], args[0])
        return context.get_dummy_value()

    return types.void(_INT, types.float32), generate
