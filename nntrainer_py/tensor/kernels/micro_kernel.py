"""The register-tiled matrix product and its helpers, emitted as LLVM IR (Numba alone does not keep a tile in
registers).

Everything takes addresses (integers) and strides counted in floats.  A tile of ``ROWS`` x ``COLUMNS`` sums fits the
vector registers of the processor: 8 x 32 with AVX-512, 6 x 16 with AVX2 and with NEON, 4 x 8 otherwise.  Each sum is
formed over k in ascending order by multiply-add, whatever the tile it lies in: a row's result depends on neither its
neighbours nor its position.
"""

from __future__ import annotations

import importlib
from typing import Any

from llvmlite import ir
from numba import types

from nntrainer_py.tensor.kernels.cache_location import cpu
from nntrainer_py.tensor.kernels.compile import intrinsic

cgutils: Any = importlib.import_module("numba.core.cgutils")  # typed in some versions of Numba only

I64, I32, I1, F32 = ir.IntType(64), ir.IntType(32), ir.IntType(1), ir.FloatType()
_INT = types.int64


def tile_shape(features: str, architecture: str) -> tuple[int, int, int]:
    """(rows, vectors per row, lanes per vector) of the register tile for a processor."""
    enabled = set(features.split(","))
    if {"+avx512f", "+avx512vl"} <= enabled:
        return 8, 2, 16
    if {"+avx2", "+fma"} <= enabled:
        return 6, 2, 8
    if architecture in ("aarch64", "arm64"):
        return 6, 4, 4
    return 4, 2, 4


def _host_tile() -> tuple[int, int, int]:
    import llvmlite.binding

    return tile_shape(cpu()[1], llvmlite.binding.get_process_triple().partition("-")[0])


ROWS, VECTORS, LANES = _host_tile()
COLUMNS = VECTORS * LANES

# Epilogue of the product, bits of its ``mode`` argument.
ADD_ROWS = 1  # add init[i, j]: C itself (accumulate), or a bias row with a row stride of 0
ADD_COLUMN = 2  # add init[i] to the whole row i: a bias per output channel
RELU = 4  # max(x, 0), NaN kept


def const(value: int) -> Any:
    return ir.Constant(I64, value)


def load(builder: Any, address: Any, kind: Any) -> Any:
    made = builder.load(builder.inttoptr(address, kind.as_pointer()))
    made.align = 4
    return made


def store(builder: Any, value: Any, address: Any) -> None:
    builder.store(value, builder.inttoptr(address, value.type.as_pointer())).align = 4


def splat(builder: Any, scalar: Any, lanes: int) -> Any:
    kind = ir.VectorType(scalar.type, lanes)
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
    return builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)


def in_bytes(builder: Any, floats: Any) -> Any:
    return builder.shl(floats, const(2))


class Masked:
    """Masked vector loads and stores of one vector type."""

    def __init__(self, module: Any, lanes: int) -> None:
        self.lanes = lanes
        self.kind = ir.VectorType(F32, lanes)
        mask = ir.VectorType(I1, lanes)
        pointer = self.kind.as_pointer()
        name = f"v{lanes}f32.p0"
        self._load = cgutils.get_or_insert_function(
            module, ir.FunctionType(self.kind, [pointer, I32, mask, self.kind]), f"llvm.masked.load.{name}"
        )
        self._store = cgutils.get_or_insert_function(
            module, ir.FunctionType(ir.VoidType(), [self.kind, pointer, I32, mask]), f"llvm.masked.store.{name}"
        )

    def between(self, builder: Any, low: Any, high: Any) -> Any:
        """Mask of the lanes l with low <= l < high (both int64)."""
        lane = ir.Constant(ir.VectorType(I32, self.lanes), list(range(self.lanes)))
        first = splat(builder, builder.trunc(low, I32), self.lanes)
        last = splat(builder, builder.trunc(high, I32), self.lanes)
        above = builder.icmp_signed(">=", lane, first)
        return builder.and_(above, builder.icmp_signed("<", lane, last))

    def load(self, builder: Any, address: Any, mask: Any) -> Any:
        pointer = builder.inttoptr(address, self.kind.as_pointer())
        zero = ir.Constant(self.kind, [0.0] * self.lanes)
        return builder.call(self._load, [pointer, ir.Constant(I32, 4), mask, zero])

    def store(self, builder: Any, value: Any, address: Any, mask: Any) -> None:
        pointer = builder.inttoptr(address, self.kind.as_pointer())
        builder.call(self._store, [value, pointer, ir.Constant(I32, 4), mask])


def _row_loop(builder: Any, rows: int, args: Any, sums: Any, indexed: bool, packing: Any = None) -> None:
    """sums[i][j] = sum over k of A(i, k) B(k, j); at least one k. ``indexed``: ``sbk`` is a table of row offsets.

    ``packing`` is (factor, address): B is multiplied by ``factor`` and stored at ``address``, row after row.
    """
    _, _, k, a, sai, sak, b, sbk = args[:8]
    kind = ir.VectorType(F32, LANES)
    multiply_add = cgutils.get_or_insert_function(
        builder.module, ir.FunctionType(kind, [kind] * 3), f"llvm.fmuladd.v{LANES}f32"
    )
    step_a = in_bytes(builder, sak)
    step_b = const(8) if indexed else in_bytes(builder, sbk)
    offsets = [builder.mul(in_bytes(builder, sai), const(i)) for i in range(rows)]
    entry = builder.block
    loop, done = builder.append_basic_block("k"), builder.append_basic_block("k.done")
    builder.branch(loop)
    builder.position_at_end(loop)
    at_k, at_a, at_b, at_packed = (builder.phi(I64) for _ in range(4))
    running = [[builder.phi(kind) for _ in range(VECTORS)] for _ in range(rows)]
    row = builder.add(b, in_bytes(builder, load(builder, at_b, I64))) if indexed else at_b
    vectors = [load(builder, builder.add(row, const(4 * LANES * j)), kind) for j in range(VECTORS)]
    if packing is not None:
        vectors = [builder.fmul(vector, packing[0]) for vector in vectors]
        for j in range(VECTORS):
            store(builder, vectors[j], builder.add(at_packed, const(4 * LANES * j)))
    after = []
    for i in range(rows):
        scalar = splat(builder, load(builder, builder.add(at_a, offsets[i]), F32), LANES)
        after.append([builder.call(multiply_add, [scalar, vectors[j], running[i][j]]) for j in range(VECTORS)])
    next_k = builder.add(at_k, const(1))
    first_b = sbk if indexed else b
    packed = const(0) if packing is None else packing[1]
    steps = (
        (at_k, const(0), next_k),
        (at_a, a, builder.add(at_a, step_a)),
        (at_b, first_b, builder.add(at_b, step_b)),
        (at_packed, packed, builder.add(at_packed, const(4 * COLUMNS))),
    )
    for phi, first, following in steps:
        phi.add_incoming(first, entry)
        phi.add_incoming(following, loop)
    zero = ir.Constant(kind, [0.0] * LANES)
    for i in range(rows):
        for j in range(VECTORS):
            running[i][j].add_incoming(zero, entry)
            running[i][j].add_incoming(after[i][j], loop)
    builder.cbranch(builder.icmp_signed("<", next_k, k), loop, done)
    builder.position_at_end(done)
    for i in range(rows):
        for j in range(VECTORS):
            builder.store(after[i][j], sums[i][j])


def _epilogue(builder: Any, rows: int, args: Any, sums: Any) -> None:
    """Add what ``mode`` says, rectify if it says so, store ``columns`` columns."""
    columns, (c, ldc, init, ldi, mode) = args[1], args[8:]
    kind = ir.VectorType(F32, LANES)
    masked = Masked(builder.module, LANES)
    masks = [masked.between(builder, const(0), builder.sub(columns, const(LANES * j))) for j in range(VECTORS)]
    whole = builder.icmp_signed("==", columns, const(COLUMNS))
    cells = [(i, j) for i in range(rows) for j in range(VECTORS)]
    row_c = [builder.add(c, builder.mul(in_bytes(builder, ldc), const(i))) for i in range(rows)]
    row_init = [builder.add(init, builder.mul(in_bytes(builder, ldi), const(i))) for i in range(rows)]

    def wants(bit: int) -> Any:
        return builder.icmp_signed("!=", builder.and_(mode, const(bit)), const(0))

    def change(cell: Any, value: Any) -> None:
        builder.store(builder.fadd(builder.load(cell), value), cell)

    with builder.if_then(wants(ADD_ROWS)), builder.if_else(whole) as (full, part):
        with full:
            for i, j in cells:
                change(sums[i][j], load(builder, builder.add(row_init[i], const(4 * LANES * j)), kind))
        with part:
            for i, j in cells:
                change(sums[i][j], masked.load(builder, builder.add(row_init[i], const(4 * LANES * j)), masks[j]))
    with builder.if_then(wants(ADD_COLUMN)):
        for i in range(rows):
            value = splat(builder, load(builder, row_init[i], F32), LANES)
            for j in range(VECTORS):
                change(sums[i][j], value)
    with builder.if_then(wants(RELU)):
        zero = ir.Constant(kind, [0.0] * LANES)
        for i, j in cells:
            value = builder.load(sums[i][j])
            builder.store(builder.select(builder.fcmp_ordered("<", value, zero), zero, value), sums[i][j])
    with builder.if_else(whole) as (full, part):
        with full:
            for i, j in cells:
                store(builder, builder.load(sums[i][j]), builder.add(row_c[i], const(4 * LANES * j)))
        with part:
            for i, j in cells:
                masked.store(builder, builder.load(sums[i][j]), builder.add(row_c[i], const(4 * LANES * j)), masks[j])


def _row_counts() -> list[int]:
    return [rows for rows in (8, 6, 4, 2, 1) if rows <= ROWS]


def _product_function(module: Any, indexed: bool = False) -> Any:
    """The product as one function per LLVM module, never inlined: its code is large and called from many places."""
    name = f"nntrainer_product_{ROWS}x{COLUMNS}{'_indexed' if indexed else ''}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 13), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    kind = ir.VectorType(F32, LANES)
    sums = [[builder.alloca(kind) for _ in range(VECTORS)] for _ in range(ROWS)]
    for rows in _row_counts():
        matches = builder.icmp_signed("==", function.args[0], const(rows))
        with builder.if_then(matches):
            _row_loop(builder, rows, function.args, sums, indexed)
            _epilogue(builder, rows, function.args, sums)
            builder.ret_void()
            builder.position_at_end(builder.append_basic_block("unreachable"))
    builder.ret_void()
    return function


@intrinsic
def product(  # type: ignore[no-untyped-def]
    context, rows, columns, k, a, sai, sak, b, sbk, c, ldc, init, ldi, mode
):
    """C[rows, columns] = A[rows, k] B[k, COLUMNS], then the epilogue of ``mode``.

    ``rows`` is 8, 6, 4, 2 or 1, at most ROWS; A(i, k) lies at a + 4 (i sai + k sak), B(k, j) at b + 4 (k sbk + j)
    with COLUMNS readable floats in each row, C(i, j) at c + 4 (i ldc + j), init at init + 4 (i ldi + j); only
    ``columns`` columns of C and init are touched.
    """
    signature = types.void(*[_INT] * 13)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.call(_product_function(builder.module), args)
        return context.get_dummy_value()

    return signature, generate


def _packing_function(module: Any) -> Any:
    """The product of ROWS rows that packs B on its way."""
    name = f"nntrainer_product_packing_{ROWS}x{COLUMNS}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 13 + [F32, I64]), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    sums = [[builder.alloca(ir.VectorType(F32, LANES)) for _ in range(VECTORS)] for _ in range(ROWS)]
    *args, factor, packed = function.args
    _row_loop(builder, ROWS, args, sums, False, (splat(builder, factor, LANES), packed))
    _epilogue(builder, ROWS, args, sums)
    builder.ret_void()
    return function


@intrinsic
def product_packing(  # type: ignore[no-untyped-def]
    context, columns, k, a, sai, sak, b, sbk, c, ldc, init, ldi, mode, factor, packed
):
    """``product`` of ROWS rows with B times ``factor``, which is also stored as the panel [k, COLUMNS] at ``packed``.

    The first rows of a product pack its B for the rows that follow while the arithmetic units are busy.
    """
    signature = types.void(*[_INT] * 12, types.float32, _INT)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.call(_packing_function(builder.module), [const(ROWS), *args])
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def product_indexed(  # type: ignore[no-untyped-def]
    context, rows, columns, k, a, sai, sak, b, table, c, ldc, init, ldi, mode
):
    """As ``product``, with B(k, j) at b + 4 (table[k] + j); ``table`` is the address of k int64."""
    signature = types.void(*[_INT] * 13)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.call(_product_function(builder.module, indexed=True), args)
        return context.get_dummy_value()

    return signature, generate


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose of a square of vectors: log2(n) perfect shuffles."""
    count = len(rows)
    wide = ir.VectorType(I32, count)
    low = ir.Constant(wide, [i // 2 + (count if i % 2 else 0) for i in range(count)])
    high = ir.Constant(wide, [i // 2 + count // 2 + (count if i % 2 else 0) for i in range(count)])
    for _ in range(count.bit_length() - 1):
        half = count // 2
        mixed = []
        for i in range(half):
            mixed.append(builder.shuffle_vector(rows[i], rows[i + half], low))
            mixed.append(builder.shuffle_vector(rows[i], rows[i + half], high))
        rows = mixed
    return rows


def _transpose_function(module: Any) -> Any:
    name = f"nntrainer_transpose_{LANES}"
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I64] * 7), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    function.attributes.add("nounwind")
    source, source_stride, target, target_stride, rows, columns, written = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))
    kind = ir.VectorType(F32, LANES)
    from_step, to_step = in_bytes(builder, source_stride), in_bytes(builder, target_stride)
    whole = builder.and_(
        builder.icmp_signed(">=", rows, const(LANES)), builder.icmp_signed(">=", columns, const(LANES))
    )
    with builder.if_else(whole) as (full, part):
        with full:
            vectors = [load(builder, builder.add(source, builder.mul(from_step, const(i))), kind) for i in range(LANES)]
            for i, value in enumerate(_transposed(builder, vectors)):
                store(builder, value, builder.add(target, builder.mul(to_step, const(i))))
        with part:
            masked = Masked(module, LANES)
            across = masked.between(builder, const(0), columns)
            none = masked.between(builder, const(0), const(0))
            vectors = []
            for i in range(LANES):
                mask = builder.select(builder.icmp_signed(">", rows, const(i)), across, none)
                vectors.append(masked.load(builder, builder.add(source, builder.mul(from_step, const(i))), mask))
            lanes = masked.between(builder, const(0), written)
            for i, value in enumerate(_transposed(builder, vectors)):
                with builder.if_then(builder.icmp_signed(">", columns, const(i))):
                    masked.store(builder, value, builder.add(target, builder.mul(to_step, const(i))), lanes)
    builder.ret_void()
    return function


@intrinsic
def transpose(  # type: ignore[no-untyped-def]
    context, source, source_stride, target, target_stride, rows, columns, written
):
    """target[j, 0:written] = source[0:written, j] for j < min(columns, LANES); rows from ``rows`` on read as zero.

    ``written`` counts only where ``rows`` or ``columns`` is below LANES.
    """
    signature = types.void(*[_INT] * 7)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.call(_transpose_function(builder.module), args)
        return context.get_dummy_value()

    return signature, generate
