"""Passes over the operation list that do in one pass over memory what several operations did in more.

They run once, right after lowering: what computes is fixed before what stores, and nothing here looks at the batch, at
memory options or at threads. A pass takes an operation away only where nobody else reads what it makes; values that the
engine or a caller wants are never taken away. Values, and so names and results, stay the same up to rounding:

* ``pool_first``: relu before max_pool becomes relu after it. Exactly the same numbers, on fewer elements, and the
  rectified tensor need not be kept.
* ``rectify_products``: relu in the pass that writes a matrix product or a convolution. Exactly the same numbers.
* ``rectify_normalization``: relu, or addition and relu, in the pass of batch normalization; on the way back the mask is
  taken from the input of the normalization. The same formulas; sums may differ in the last bit.
* ``descend``: plain gradient descent on a weight of a matrix product, without its gradient. Rounds once less.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import replace

from nntrainer_py.tensor.operations.catalogue import kind
from nntrainer_py.tensor.operations.record import Operation, Role, Value


class Uses:
    """Who reads and who writes each value of a list."""

    def __init__(self, operations: Iterable[Operation], wanted: Set[Value]) -> None:
        self.wanted = wanted
        self.readers: dict[Value, list[Operation]] = {}
        self.writers: dict[Value, list[Operation]] = {}
        for operation in operations:
            for value in dict.fromkeys(read.root for read in operation.reads_all):
                self.readers.setdefault(value, []).append(operation)
            for value in dict.fromkeys(write.root for write in operation.writes.values()):
                self.writers.setdefault(value, []).append(operation)

    def private(self, value: Value) -> bool:
        """Made by one operation of the list, whole, and of interest to operations of the list only."""
        return (
            value.base is None
            and not value.persistent
            and value not in self.wanted
            and len(self.writers.get(value, ())) == 1
            and not self.writers[value][0].accumulate
        )

    def only(self, value: Value, name: str, function: str | None = None) -> Operation | None:
        """The one reader of a private value, if it is of this kind (and computes this function)."""
        readers = self.readers.get(value, ())
        if len(readers) != 1 or not self.private(value):
            return None
        return readers[0] if _is(readers[0], name, function) and value in readers[0].reads.values() else None


def _is(operation: Operation, name: str, function: str | None = None) -> bool:
    return operation.kind.name == name and (function is None or operation.attributes.get("function") == function)


class _Edit:
    """Operations to leave out, and what comes in the place of others."""

    def __init__(self) -> None:
        self.instead: dict[int, list[Operation]] = {}

    def drop(self, operation: Operation) -> None:
        self.instead[id(operation)] = []

    def put(self, operation: Operation, *made: Operation) -> None:
        self.instead[id(operation)] = list(made)

    def touches(self, *operations: Operation) -> bool:
        return any(id(operation) in self.instead for operation in operations)

    def apply(self, operations: Sequence[Operation]) -> list[Operation]:
        made: list[Operation] = []
        for operation in operations:
            made.extend(self.instead.get(id(operation), (operation,)))
        return made


def pool_first(operations: Sequence[Operation], wanted: Set[Value]) -> list[Operation]:
    """relu, max_pool -> max_pool, relu; and the way back in the other order.

    A window without a positive element passes nothing back either way, so that its place does not matter.
    """
    uses, edit = Uses(operations, wanted), _Edit()
    for relu in operations:
        if not _is(relu, "activation", "relu") or not uses.private(relu.writes["out"]):
            continue
        x, y = relu.reads["x"], relu.writes["out"]
        readers = uses.readers.get(y, [])
        pools = [reader for reader in readers if _is(reader, "max_pool") and reader.reads["x"] is y]
        backs = [reader for reader in readers if _is(reader, "activation_derivative", "relu")]
        if len(pools) != 1 or len(pools) + len(backs) != len(readers) or len(backs) > 1:
            continue
        pool = pools[0]
        pooled = pool.writes["out"]
        way_back = _pool_back(uses, backs[0], y) if backs else None
        if pooled.base is not None or (backs and way_back is None):
            continue
        raw = Value(f"{pooled.name}/raw", pooled.shape, pooled.role, pooled.dtype)
        edit.drop(relu)
        edit.put(
            pool,
            replace(pool, reads={"x": x}, writes={**pool.writes, "out": raw}),
            replace(relu, reads={"x": raw}, writes={"out": pooled}),
        )
        if way_back is not None:
            unpool, back = way_back, backs[0]
            g = unpool.reads["g"]
            masked = Value(f"{g.name}/masked", g.shape, Role.DERIVATIVE, g.dtype)
            edit.drop(unpool)
            edit.put(
                back,
                replace(back, reads={"g": g, "y": pooled}, writes={"out": masked}),
                replace(unpool, reads={**unpool.reads, "g": masked}, writes=dict(back.writes)),
            )
    return edit.apply(operations)


def _pool_back(uses: Uses, back: Operation, y: Value) -> Operation | None:
    """The derivative of the pooling, if the derivative of the relu is all that reads it."""
    g = back.reads["g"]
    if back.reads.get("y") is not y or uses.only(g, "activation_derivative") is not back:
        return None
    unpool = uses.writers[g][0]
    return unpool if _is(unpool, "max_pool_derivative") and unpool.reads["g"].shape == back_shape(unpool) else None


def back_shape(unpool: Operation) -> tuple[int, ...]:
    """Shape of the pooled tensor that a derivative of max_pool belongs to."""
    return unpool.reads["places"].shape


def rectify_products(operations: Sequence[Operation], wanted: Set[Value]) -> list[Operation]:
    """matmul or conv2d, then relu -> one operation."""
    uses, edit = Uses(operations, wanted), _Edit()
    for operation in operations:
        if (
            operation.kind.name not in ("matmul", "conv2d")
            or operation.accumulate
            or "activation" in operation.attributes
        ):
            continue
        relu = uses.only(operation.writes["out"], "activation", "relu")
        if relu is None or relu.phase is not operation.phase:
            continue
        edit.put(
            operation,
            replace(operation, attributes={**operation.attributes, "activation": "relu"}, writes=dict(relu.writes)),
        )
        edit.drop(relu)
    return edit.apply(operations)


def rectify_normalization(operations: Sequence[Operation], wanted: Set[Value]) -> list[Operation]:
    """batch_normalize, (add_n of two,) relu -> one operation; masks of the way back into sums and derivative."""
    uses, edit = Uses(operations, wanted), _Edit()
    position = {id(operation): place for place, operation in enumerate(operations)}
    for operation in operations:
        if not _is(operation, "batch_normalize") or operation.phase.backward or not _has_planes(operation):
            continue
        made = operation.writes["out"]
        relu, addition = uses.only(made, "activation", "relu"), uses.only(made, "add_n")
        if relu is not None:
            edit.drop(operation)
            edit.put(relu, _rectified(operation, relu.writes["out"], None))
            _mask_way_back(uses, edit, operation, relu.writes["out"])
        elif addition is not None and len(addition.reads) == 2 and not edit.touches(addition):
            relu = uses.only(addition.writes["out"], "activation", "relu")
            addend = next((value for value in addition.reads.values() if value is not made), None)
            if relu is None or addend is None or addend.shape != made.shape:  # None: added to itself
                continue
            last = max(position[id(operation)], position[id(addition)])
            if last > position[id(relu)]:
                continue
            edit.drop(operation)
            edit.drop(addition)
            edit.put(relu, _rectified(operation, relu.writes["out"], addend))
    return edit.apply(operations)


def _has_planes(operation: Operation) -> bool:
    """More than one element stands together for each channel: what the fused kernels are written for."""
    return math.prod(operation.reads["x"].shape[operation.attributes["axis"] + 1 :]) > 1


def _rectified(operation: Operation, out: Value, addend: Value | None) -> Operation:
    reads = dict(operation.reads) if addend is None else {**operation.reads, "addend": addend}
    return replace(operation, kind=kind("batch_normalize_relu"), reads=reads, writes={"out": out})


def _mask_way_back(uses: Uses, edit: _Edit, forward: Operation, y: Value) -> None:
    """Let sums and derivative read the incoming gradient itself, where they are all that reads the masked one."""
    x, extra = forward.reads["x"], {name: forward.reads[name] for name in ("gamma", "beta")}
    for mask in uses.readers.get(y, ()):
        if not _is(mask, "activation_derivative", "relu") or mask.reads.get("y") is not y:
            continue
        masked = mask.writes["out"]
        if not uses.private(masked):
            continue
        readers = uses.readers.get(masked, [])
        names = {"batch_normalize_sums": "batch_normalize_relu_sums"}
        names["batch_normalize_derivative"] = "batch_normalize_relu_derivative"
        if not readers or any(
            reader.kind.name not in names or reader.reads["x"] is not x or reader.reads["g"] is not masked
            or reader.reads["mean"] is not forward.reads["mean"] for reader in readers
        ):  # fmt: skip
            continue
        edit.drop(mask)
        for reader in readers:
            reads = {**reader.reads, **extra, "g": mask.reads["g"]}
            edit.put(reader, replace(reader, kind=kind(names[reader.kind.name]), reads=reads))


def descend(operations: Sequence[Operation], wanted: Set[Value]) -> list[Operation]:
    """matmul_gradient, sgd -> ``weight -= rate * x^T g``, where the gradient is for nothing else.

    Not with weight decay, nor where gradients are clipped, shared or collected over several batches.
    """
    uses, edit = Uses(operations, wanted), _Edit()
    for operation in operations:
        if not _is(operation, "matmul_gradient"):
            continue
        update = uses.only(operation.writes["out"], "sgd")
        if update is None or "scale" in update.reads or float(update.attributes.get("decay", 0.0)) != 0.0:
            continue
        weight = update.writes["weight"]
        if weight.dtype != "float32" or weight in (value.root for value in operation.reads.values()):
            continue
        edit.drop(operation)
        edit.put(
            update,
            replace(
                update, kind=kind("matmul_descent"), reads=dict(operation.reads), writes={"weight": weight},
                attributes={}, layer=operation.layer, origin=operation.origin,
            ),
        )  # fmt: skip
    return edit.apply(operations)


Pass = Callable[[Sequence[Operation], Set[Value]], list[Operation]]

#: in this order: a relu that moved behind its pooling is no longer beside a product or a normalization
PASSES: tuple[Pass, ...] = (pool_first, rectify_products, rectify_normalization, descend)


def fuse(operations: Sequence[Operation], wanted: Iterable[Value], passes: Iterable[Pass] = PASSES) -> list[Operation]:
    """The list after all passes; ``wanted`` are the values that must still be made."""
    roots = frozenset(value.root for value in wanted)
    made = list(operations)
    for rewrite in passes:
        made = rewrite(made, roots)
    return made
