"""Sharing the parts of a kernel among the threads of the pool.

``fork_join(body, parts, (a, b, ...))`` calls ``body(part, parts, a, b, ...)`` for every part, on as many threads as
are set, and returns when all are done; one part runs on the calling thread at once. The body's machine code is used
as it is, where Numba's ``prange`` would compile it several times over. Bodies return nothing that is looked at and
cannot fail.
"""

from __future__ import annotations

import importlib
from typing import Any

from llvmlite import ir
from numba import types

from nntrainer_py.tensor.kernels.compile import intrinsic, kernel
from nntrainer_py.tensor.kernels.threads import start_threads

cgutils: Any = importlib.import_module("numba.core.cgutils")  # typed in some versions of Numba only

_I64 = ir.IntType(64)
_BYTES = ir.IntType(8).as_pointer()


def _trampoline(context: Any, builder: Any, name: str, compiled: Any, packed: Any, kinds: Any) -> Any:
    """A function of the pool's calling convention: (pointers, counts, steps, data); pointers[0] is the first part."""
    module = builder.module
    pointers, counts = _BYTES.as_pointer(), _I64.as_pointer()
    made = ir.Function(module, ir.FunctionType(ir.VoidType(), [pointers, counts, counts, _BYTES]), name)
    made.linkage = "internal"
    made.attributes.add(
        "noinline"
    )  # one copy of the body's code, whoever runs it: no bit depends on the number of parts
    inner = ir.IRBuilder(made.append_basic_block("entry"))
    data = inner.bitcast(made.args[3], packed.as_pointer())
    parts = inner.load(cgutils.gep_inbounds(inner, data, 0, 0))
    values = cgutils.unpack_tuple(inner, inner.load(cgutils.gep_inbounds(inner, data, 0, 1)), len(kinds))
    descriptor = compiled.fndesc
    wanted = zip(values, kinds, descriptor.argtypes[2:], strict=True)
    casts = [context.cast(inner, value, kind, to) for value, kind, to in wanted]
    function = context.declare_function(module, descriptor)
    first = inner.ptrtoint(inner.load(made.args[0]), _I64)
    with cgutils.for_range(inner, inner.load(made.args[1])) as loop:
        part = inner.add(first, loop.index)
        arguments = [part, parts, *casts]
        context.call_conv.call_function(inner, function, descriptor.restype, descriptor.argtypes, arguments)
    inner.ret_void()
    # one copy of the code, in one place: rounding depends neither on the number of parts nor on who calls
    for block in made.blocks:
        for instruction in block.instructions:
            if isinstance(instruction, ir.CallInstr) and instruction.callee is function:
                instruction.attributes.add("alwaysinline")
    return made


@intrinsic
def fork_join(context, body, parts, arguments):  # type: ignore[no-untyped-def]
    """Call ``body(part, parts, *arguments)`` for each part; ``arguments`` is a tuple."""
    start_threads()
    kinds = tuple(arguments.types)
    call = body.get_call_type(context, (types.int64, types.int64, *kinds), {})

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        parts = context.cast(builder, args[1], signature.args[1], types.int64)
        compiled = body.dispatcher.overloads[call.args]
        context.active_code_library.add_linking_library(compiled.library)
        packed = ir.LiteralStructType([_I64, args[2].type])
        name = f"{builder.function.name}.fork{len(builder.module.functions)}"
        function = _trampoline(context, builder, name, compiled, packed, kinds)
        data = cgutils.alloca_once(builder, packed)
        builder.store(parts, cgutils.gep_inbounds(builder, data, 0, 0))
        builder.store(args[2], cgutils.gep_inbounds(builder, data, 0, 1))
        pointers, counts, steps = (cgutils.alloca_once(builder, kind) for kind in (_BYTES, _I64, _I64))
        builder.store(ir.Constant(_BYTES, None), pointers)
        builder.store(parts, counts)
        builder.store(ir.Constant(_I64, 1), steps)
        with builder.if_else(builder.icmp_signed(">", parts, ir.Constant(_I64, 1))) as (many, one):
            with many:
                threads = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_I64, []), "get_num_threads")
                kind = ir.FunctionType(ir.VoidType(), [_BYTES] * 5 + [_I64] * 3)
                pool = cgutils.get_or_insert_function(builder.module, kind, "numba_parallel_for")
                places = [builder.bitcast(value, _BYTES) for value in (function, pointers, counts, steps, data)]
                zero, single = ir.Constant(_I64, 0), ir.Constant(_I64, 1)
                builder.call(pool, [*places, zero, single, builder.call(threads, [])])
            with one:
                builder.call(function, [pointers, counts, steps, builder.bitcast(data, _BYTES)])
        return context.get_dummy_value()

    return types.void(body, parts, arguments), generate


@kernel()
def _nothing(part: int, parts: int) -> None:
    pass


@kernel(forks=True)
def touch(parts: int) -> None:
    """Fork and join once over ``parts`` empty parts: starts the pool and measures what that costs."""
    fork_join(_nothing, parts, ())
