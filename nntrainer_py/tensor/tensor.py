"""The public tensor: four named axes, NNTrainer's operations, NumPy's feel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np

from nntrainer_py.errors import PropertyError, UsageError
from nntrainer_py.tensor import initializers
from nntrainer_py.tensor.elementwise import Operand, check_out
from nntrainer_py.tensor.lazy import LazyTensor
from nntrainer_py.tensor.promotion import Array, operand_of
from nntrainer_py.tensor.reduction import Reduction
from nntrainer_py.tensor.rng import Stream
from nntrainer_py.tensor.storage import dim_of

Random = Stream | int  # a stream to continue, or the seed of a new one


class Tensor(Reduction):
    """A tensor of shape (batch, channel, height, width), float32 unless told otherwise.

    ``np.asarray(t)`` and ``t.data`` are views; arithmetic operators and NumPy's functions work and give tensors. Where
    NNTrainer has a method it has the same name in snake case; ``_i`` means in place. ::

        x = Tensor(np.arange(6, dtype=np.float32).reshape(2, 3))  # height 2, width 3, shares the array
        y = (x * 2 + 1).dot(x, trans_m=True)
        z = x.lazy().multiply(2).add(1).sqrt().run()              # one pass, no copies in between
    """

    __slots__ = ()

    @classmethod
    def zeros(cls, *shape: Any, dtype: Any = None, layout: str = "NCHW") -> Self:
        """Zeros; ``shape`` is a TensorDim, a tuple or up to four numbers, aligned to the right."""
        return cls(dim_of(*shape), dtype, layout=layout)

    @classmethod
    def ones(cls, *shape: Any, dtype: Any = None, layout: str = "NCHW") -> Self:
        """Ones; see :meth:`zeros`."""
        return cls.zeros(*shape, dtype=dtype, layout=layout).fill(1)

    @classmethod
    def full(cls, shape: Any, value: float, dtype: Any = None, layout: str = "NCHW") -> Self:
        """One value everywhere."""
        return cls.zeros(shape, dtype=dtype, layout=layout).fill(value)

    def fill(self, value: float) -> Self:
        """Set every element; the number must fit the type."""
        number = operand_of(value, "fill")
        if isinstance(number, np.ndarray):
            raise UsageError(f"fill: expected a number, got shape {number.shape}")
        if self.dtype.kind in "iu" and number != int(number):
            raise UsageError(f"fill: {number} does not fit in a tensor of type {self.dtype}")
        try:
            self._array.fill(number)
        except OverflowError as error:
            raise UsageError(f"fill: {error}") from error
        return self

    def set_zero(self) -> Self:
        """Set every element to 0."""
        return self.fill(0)

    def get_value(self, batch: int, channel: int, height: int, width: int) -> Any:
        """One element as a number."""
        return self[batch, channel, height, width]

    def set_value(self, batch: int, channel: int, height: int, width: int, value: float) -> Self:
        """Set one element."""
        self[batch, channel, height, width] = value
        return self

    def add_value(self, batch: int, channel: int, height: int, width: int, value: float, beta: float = 1.0) -> Self:
        """One element becomes ``beta * element + value``."""
        self[batch, channel, height, width] = self[batch, channel, height, width] * beta + value
        return self

    def set_rand_uniform(self, low: float = -0.05, high: float = 0.05, random: Random = 0) -> Self:
        """Fill from [low, high) with NNTrainer's stream, in NCHW order."""
        _stream(random).uniform(self._floating("set_rand_uniform"), low, high)
        return self

    def set_rand_normal(self, mean: float = 0.0, deviation: float = 0.05, random: Random = 0) -> Self:
        """Fill from the normal distribution with NNTrainer's stream, in NCHW order."""
        _stream(random).normal(self._floating("set_rand_normal"), mean, deviation)
        return self

    def set_rand_bernoulli(self, probability: float = 0.5, random: Random = 0) -> Self:
        """Fill with 1 (with this probability) and 0 with NNTrainer's stream, in NCHW order."""
        _stream(random).bernoulli(self._array, probability)
        return self

    def initialize(self, name: str, random: Random = 0) -> Self:
        """Fill by one of NNTrainer's initializers (``xavier_uniform`` ...) for the own shape."""
        initializers.fill(name, self.dim, _stream(random), self._floating("initialize"))
        return self

    def dot(
        self, other: Operand, out: Self | None = None, trans: bool = False, trans_m: bool = False, beta: float = 0.0
    ) -> Self:
        """Matrix product as in NNTrainer: both tensors are matrices ``[batch * channel * height, width]``.

        ``trans`` and ``trans_m`` transpose the first and the second. The result has shape (batch, channel, height, n),
        and (1, 1, width, n) with ``trans``. With ``out``: ``product + beta * out``. float16 is multiplied in float32.
        """
        second = _matrices(_four_axes(other, "dot"), whole=True)
        leading = (1, 1, self.width) if trans else self.shape[:3]
        return self._product("dot", _matrices(self._array, whole=True), second, leading, out, trans, trans_m, beta)

    def dot_batched(
        self, other: Operand, out: Self | None = None, trans: bool = False, trans_m: bool = False, beta: float = 0.0
    ) -> Self:
        """``dot`` of each sample with that of ``other``; one batch may be a multiple of the other, as in NNTrainer.

        Samples are matrices ``[channel * height, width]``; result (batch, channel, height, n), or (batch, 1, width, n).
        """
        first, second = self._array, _four_axes(other, "dot_batched")
        batch = max(self.batch, second.shape[0])
        if batch % self.batch or batch % second.shape[0]:
            raise UsageError(
                f"dot_batched: batches {self.batch} and {second.shape[0]}, one must be a multiple of the other"
            )
        matrices = [
            np.repeat(_matrices(array, whole=False), batch // array.shape[0], axis=0)
            if array.shape[0] not in (1, batch)
            else _matrices(array, whole=False)
            for array in (first, second)
        ]
        leading = (batch, 1, self.width) if trans else (batch, self.channel, self.height)
        return self._product("dot_batched", matrices[0], matrices[1], leading, out, trans, trans_m, beta)

    def __matmul__(self, other: Any) -> Self:
        """NumPy's product of the last two axes; batch and channel broadcast."""
        second = _four_axes(other, "@")
        lead = self.shape[:3]
        if self.shape[:2] != second.shape[:2]:
            try:
                lead = (*np.broadcast_shapes(self.shape[:2], second.shape[:2]), self.height)
            except ValueError:
                raise UsageError(f"@: shapes {self.shape} and {second.shape} do not fit together") from None
        return self._product("@", self._array, second, lead, None, False, False, 0.0)

    def transpose(self, direction: str | Sequence[int], out: Self | None = None) -> Self:
        """Exchange axes into new memory.

        ``"0:2:1"`` or three numbers order channel (0), height (1) and width (2), as in NNTrainer; four numbers order
        all four axes. :meth:`permute` gives a view instead.
        """
        view = self.permute(direction)
        if out is None:
            return self._over(np.ascontiguousarray(view._array))
        check_out("transpose", out, view.shape, view.dtype)
        if np.shares_memory(out._array, self._array):
            view = view.copy()
        return out.copy_from(view)

    def permute(self, direction: str | Sequence[int]) -> Self:
        """Exchange axes: a view. ``direction`` as in :meth:`transpose`."""
        return self._over(self._array.transpose(_order(direction)))

    @classmethod
    def concat(cls, tensors: Iterable[Any], axis: int | str = 0) -> Self:
        """Join tensors along one axis; the other axes must agree."""
        parts = [cls(item) for item in tensors]
        if not parts:
            raise UsageError("concat: no tensor to join")
        (along,) = parts[0].axes(axis)
        for part in parts[1:]:
            if part.dim.with_axis(along, 1) != parts[0].dim.with_axis(along, 1):
                raise UsageError(f"concat: shapes {parts[0].shape} and {part.shape} differ beside axis {along}")
        return cls(np.concatenate([part._array for part in parts], axis=along))

    cat = concat

    def split(self, parts: int | Sequence[int], axis: int | str = 0) -> list[Self]:
        """Cut along one axis into ``parts`` equal pieces, or pieces of the given sizes: views."""
        (along,) = self.axes(axis)
        size = self.shape[along]
        if isinstance(parts, (int, np.integer)):
            if parts < 1 or size % parts:
                raise UsageError(f"split: axis {along} of shape {self.shape} cannot be cut into {parts} equal pieces")
            parts = [size // int(parts)] * int(parts)
        sizes = [int(item) for item in parts]
        if not sizes or min(sizes) < 1 or sum(sizes) != size:
            raise UsageError(f"split: pieces {sizes} do not add up to axis {along} of shape {self.shape}")
        edges = np.cumsum([0, *sizes])
        before = (slice(None),) * along
        pieces = [(*before, slice(int(a), int(b))) for a, b in pairwise(edges)]
        return [self._over(self._array[piece]) for piece in pieces]

    def lazy(self) -> LazyTensor[Self]:
        """A chain of operations to be evaluated in one pass by ``run()``."""
        return LazyTensor(self)

    chain = lazy  # NNTrainer's name

    def _floating(self, name: str) -> Array:
        if self.dtype.kind != "f":
            raise UsageError(f"{name}: needs a floating type, this tensor has {self.dtype}")
        return self._array

    def _product(
        self,
        name: str,
        first: Array,
        second: Array,
        leading: tuple[int, ...],
        out: Self | None,
        trans: bool,
        trans_m: bool,
        beta: float,
    ) -> Self:
        a = first.swapaxes(-1, -2) if trans else first
        b = second.swapaxes(-1, -2) if trans_m else second
        if a.shape[-1] != b.shape[-2]:
            marks = " (transposed)" * trans, " (transposed)" * trans_m
            raise UsageError(f"{name}: {first.shape[-2:]}{marks[0]} and {second.shape[-2:]}{marks[1]} do not multiply")
        kept = np.result_type(a, b)
        wide = np.dtype(np.float32) if kept == np.dtype(np.float16) else kept
        shape = (*leading, b.shape[-1])
        with np.errstate(all="ignore"):
            product = np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False)).reshape(shape)
            if out is not None and beta != 0.0:
                check_out(name, out, shape, kept)
                product = product + beta * out._array
            return self._deliver(name, product.astype(kept, copy=False), out)


def _stream(random: Random) -> Stream:
    return random if isinstance(random, Stream) else Stream(random)


def _four_axes(other: Operand, name: str) -> Array:
    array = operand_of(other, name)
    if not isinstance(array, np.ndarray):
        raise UsageError(f"{name}: expected a tensor or an array, got the number {array}")
    return array.reshape((1,) * (4 - array.ndim) + array.shape)


def _matrices(array: Array, *, whole: bool) -> Array:
    """``[rows, width]`` of the whole tensor, or one matrix for each sample."""
    return array.reshape(-1, array.shape[3]) if whole else array.reshape(array.shape[0], -1, array.shape[3])


def _order(direction: str | Sequence[int]) -> tuple[int, ...]:
    parts: Sequence[Any] = direction.split(":") if isinstance(direction, str) else direction
    try:
        numbers = [int(part) for part in parts]
    except (TypeError, ValueError):
        numbers = []
    if sorted(numbers) == [0, 1, 2]:
        return (0, *(number + 1 for number in numbers))
    if sorted(numbers) == [0, 1, 2, 3]:
        return tuple(numbers)
    raise PropertyError(
        "an order such as 0:2:1 (of channel, height, width) or of all four axes", direction, key="direction"
    )
