"""Chains of operations that are evaluated together, block by block, without a copy of the tensor for each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from nntrainer_py.errors import UsageError
from nntrainer_py.tensor.elementwise import Operand, check_out, loop_dtype, nonzero
from nntrainer_py.tensor.promotion import Array, Scalar, broadcast, operand_of, result_dtype
from nntrainer_py.tensor.storage import Storage

T = TypeVar("T", bound=Storage)

BLOCK = 1 << 14  # elements per block: with two operands and a buffer of float32 within the second-level cache


@dataclass(frozen=True, slots=True)
class _Step:
    """One elementwise operation: ``ufunc(current, alpha * operand)``, or ``function(current)``."""

    name: str
    ufunc: np.ufunc | None
    operand: Array | Scalar | None = None
    alpha: float = 1.0
    function: Callable[[Array], Any] | None = None

    def result(self, current: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any] | None]:
        """The type after the step, and that of the scaled operand (None: it is not scaled)."""
        if self.ufunc is None:
            return current, None
        if self.operand is None:
            return result_dtype(self.ufunc, self.name, current), None
        operand = self.operand
        if self.alpha != 1.0 and isinstance(operand, np.ndarray):
            scaled = result_dtype(np.multiply, self.name, operand, self.alpha)
            return result_dtype(self.ufunc, self.name, current, scaled), scaled
        return result_dtype(self.ufunc, self.name, current, operand), None


@dataclass(frozen=True, slots=True)
class _Whole:
    """An operation that needs all elements at once: the chain before it is evaluated first."""

    name: str
    arguments: tuple[Any, ...]


class LazyTensor(Generic[T]):
    """A tensor and the operations still to be done on it: ``t.lazy().add(x).multiply(2).run()``.

    Each call gives a new chain and computes nothing; ``run`` reads the operands as they are then. Neighbouring
    elementwise operations are done in one pass over the memory: one block goes through all of them before the next is
    fetched, so besides the result only a few blocks of 16384 elements are needed. Operands broadcast. ``dot``,
    ``transpose``, ``sum`` and ``average`` need whole tensors and divide the chain. Elementwise values and types are
    bit by bit those of the same calls on tensors.
    """

    __slots__ = ("_source", "_steps")

    def __init__(self, source: T, steps: tuple[_Step | _Whole, ...] = ()) -> None:
        self._source = source
        self._steps = steps

    def add(self, other: Operand, alpha: float = 1.0) -> LazyTensor[T]:
        """``+ alpha * other``."""
        operand = operand_of(other, "add")
        if alpha != 1.0 and not isinstance(operand, np.ndarray):
            operand, alpha = operand * alpha, 1.0
        return self._then(_Step("add", np.add, operand, alpha))

    def subtract(self, other: Operand) -> LazyTensor[T]:
        """``- other``."""
        return self._then(_Step("subtract", np.subtract, operand_of(other, "subtract")))

    def multiply(self, other: Operand) -> LazyTensor[T]:
        """``* other``."""
        return self._then(_Step("multiply", np.multiply, operand_of(other, "multiply")))

    def divide(self, other: Operand) -> LazyTensor[T]:
        """``/ other``. UsageError for the number 0."""
        return self._then(_Step("divide", np.true_divide, operand_of(nonzero(other, "divide"), "divide")))

    def pow(self, exponent: Operand) -> LazyTensor[T]:
        """``** exponent``."""
        return self._then(_Step("pow", np.power, operand_of(exponent, "pow")))

    def sqrt(self) -> LazyTensor[T]:
        """Square root."""
        return self._then(_Step("sqrt", np.sqrt))

    def abs(self) -> LazyTensor[T]:
        """Absolute value."""
        return self._then(_Step("abs", np.absolute))

    def exp(self) -> LazyTensor[T]:
        """``e **`` the value."""
        return self._then(_Step("exp", np.exp))

    def log(self) -> LazyTensor[T]:
        """Natural logarithm."""
        return self._then(_Step("log", np.log))

    def apply(self, function: Callable[[Array], Any]) -> LazyTensor[T]:
        """``function`` of the elements; it is called with one-dimensional blocks and keeps their shape."""
        return self._then(_Step("apply", None, function=function))

    # NNTrainer's names: there the chain changes a copy of the tensor in place
    add_i = add
    subtract_i = subtract
    multiply_i = multiply
    divide_i = divide

    def dot(self, other: Operand, trans: bool = False, trans_m: bool = False) -> LazyTensor[T]:
        """Matrix product; see ``Tensor.dot``."""
        return self._then(_Whole("dot", (other, None, trans, trans_m)))

    def transpose(self, direction: Any) -> LazyTensor[T]:
        """Exchange axes; see ``Tensor.transpose``."""
        return self._then(_Whole("transpose", (direction,)))

    def sum(self, axis: Any = None) -> LazyTensor[T]:
        """Sum over ``axis``."""
        return self._then(_Whole("sum", (axis,)))

    def sum_by_batch(self) -> LazyTensor[T]:
        """The sum of each sample."""
        return self._then(_Whole("sum_by_batch", ()))

    def average(self, axis: Any = None) -> LazyTensor[T]:
        """Mean over ``axis``."""
        return self._then(_Whole("average", (axis,)))

    def run(self, out: T | None = None) -> T:
        """Evaluate the chain into ``out`` (which may be the tensor itself or an operand) or a new tensor."""
        current, pending = self._source, list[_Step]()
        for step in self._steps:
            if isinstance(step, _Step):
                pending.append(step)
                continue
            current = _evaluate(current, pending, None)
            pending = []
            current = getattr(current, step.name)(*step.arguments)
        if pending or out is not None or current is self._source:
            return _evaluate(current, pending, out)
        return current

    def _then(self, step: _Step | _Whole) -> LazyTensor[T]:
        return LazyTensor(self._source, (*self._steps, step))

    def __repr__(self) -> str:
        names = "".join(f".{step.name}(...)" for step in self._steps)
        return f"LazyTensor of shape {self._source.shape}{names}.run()"


def _evaluate(source: T, steps: list[_Step], out: T | None) -> T:
    """``source`` through elementwise steps, one pass. Without steps: a copy."""
    if not steps and out is None:
        return source.copy()
    dtype = source.dtype
    types: list[tuple[np.dtype[Any], np.dtype[Any] | None]] = []
    shape: tuple[int, ...] = source.shape
    for step in steps:
        if step.operand is not None:
            shape = broadcast(step.name, shape, step.operand)
        dtype, scaled = step.result(dtype)
        types.append((dtype, scaled))
    if out is None:
        out = type(source)._over(_empty_like(source.data, shape, dtype))
    else:
        check_out("run", out, shape, dtype)
    _pass_over(source.data, steps, types, out.data)
    return out


def _empty_like(source: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    return np.empty_like(source, dtype=dtype) if source.shape == shape else np.empty(shape, dtype)


def _pass_over(
    source: Array, steps: list[_Step], types: list[tuple[np.dtype[Any], np.dtype[Any] | None]], out: Array
) -> None:
    arrays = [step.operand for step in steps if isinstance(step.operand, np.ndarray)]
    buffers = {dtype: np.empty(BLOCK, dtype) for dtype, _ in types}
    scaled_buffers = {dtype: np.empty(BLOCK, dtype) for _, dtype in types if dtype is not None}
    # an operand that shares memory with the result is copied first, unless it is the very same elements
    flags: list[Any] = ["external_loop", "buffered", "copy_if_overlap"]
    reading: list[Any] = ["readonly", "overlap_assume_elementwise"]
    writing: list[Any] = ["writeonly", "overlap_assume_elementwise", "no_broadcast"]
    operands = [out, source, *arrays]
    blocks = np.nditer(operands, flags, [writing] + [reading] * (1 + len(arrays)), buffersize=BLOCK)
    try:
        with blocks, np.errstate(all="ignore"):
            for target, block, *others in blocks:
                _run_block(steps, types, block, iter(others), target, buffers, scaled_buffers)
    except (OverflowError, ValueError) as error:  # a number beyond the type; an integer to a negative power
        raise UsageError(f"run: {error}") from error


def _run_block(
    steps: list[_Step],
    types: list[tuple[np.dtype[Any], np.dtype[Any] | None]],
    current: Array,
    others: Any,
    target: Array,
    buffers: dict[np.dtype[Any], Array],
    scaled_buffers: dict[np.dtype[Any], Array],
) -> None:
    count = current.size
    for step, (dtype, scaled) in zip(steps, types, strict=True):
        place = buffers[dtype][:count]
        if step.function is not None:
            place[...] = _applied(step.function, current)
        elif step.ufunc is not None and step.operand is None:
            step.ufunc(current, out=place, dtype=loop_dtype(step.ufunc, dtype), casting="same_kind")
        elif step.ufunc is not None:
            operand: Any = next(others) if isinstance(step.operand, np.ndarray) else step.operand
            if scaled is not None:
                operand = np.multiply(operand, step.alpha, out=scaled_buffers[scaled][:count], casting="same_kind")
            step.ufunc(current, operand, out=place, dtype=loop_dtype(step.ufunc, dtype), casting="same_kind")
        current = place
    np.copyto(target, current, casting="same_kind")


def _applied(function: Callable[[Array], Any], block: Array) -> Array:
    try:
        values = np.asarray(function(block))
    except TypeError as error:
        raise UsageError(f"apply: the function must take an array (see numpy.vectorize): {error}") from error
    if values.shape != block.shape:
        raise UsageError(f"apply: the function made shape {values.shape} of {block.shape}")
    if values.dtype.kind not in "biuf":
        raise UsageError(f"apply: the function made {values.dtype}, no numbers")
    return values
