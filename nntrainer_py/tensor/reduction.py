"""From many elements to fewer: sums, averages, extremes, norms, and what is made of them."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from nntrainer_py.errors import PropertyError
from nntrainer_py.tensor.elementwise import Elementwise, check_out
from nntrainer_py.tensor.promotion import Array

Axis = int | str | tuple[int | str, ...] | list[int | str] | None
_BLOCK = 1 << 14  # elements converted to float64 at a time


class Reduction(Elementwise):
    """Reductions of a tensor.

    ``axis`` is a number, a name (``"channel"``), several of them, or None for all; reduced axes stay with size 1, so
    that results broadcast against the tensor. Sums of float16 are taken in float32 and rounded once.
    """

    __slots__ = ()

    def sum(self, axis: Axis = None, out: Self | None = None, alpha: float = 1.0, beta: float = 0.0) -> Self:
        """``alpha * sum over axis + beta * out``; integers give int64."""
        return self._weighted_sum("sum", self.axes(axis), out, alpha, beta)

    def sum_by_batch(self) -> Self:
        """The sum of each sample: shape (batch, 1, 1, 1)."""
        return self.sum((1, 2, 3))

    def average(self, axis: Axis = None, out: Self | None = None) -> Self:
        """The mean over ``axis``; integers give float32."""
        axes = self.axes(axis)
        count = int(np.prod([self.shape[item] for item in axes]))
        if self.dtype.kind == "f":
            return self._weighted_sum("average", axes, out, 1.0 / count, 0.0)
        mean = np.asarray(np.mean(self._array, axis=axes, dtype=np.float64, keepdims=True), dtype=np.float32)
        return self._deliver("average", mean, out)

    def max(self, axis: Axis = None, out: Self | None = None) -> Self:
        """The largest element over ``axis``; not a number where one is."""
        return self._deliver("max", self._array.max(axis=self.axes(axis), keepdims=True), out)

    def min(self, axis: Axis = None, out: Self | None = None) -> Self:
        """The smallest element over ``axis``; not a number where one is."""
        return self._deliver("min", self._array.min(axis=self.axes(axis), keepdims=True), out)

    def max_value(self) -> float:
        """The largest element."""
        return float(self._array.max())

    def min_value(self) -> float:
        """The smallest element."""
        return float(self._array.min())

    def max_abs(self) -> float:
        """The largest absolute value."""
        return max(abs(self.max_value()), abs(self.min_value()))

    def argmax(self, axis: int | str | None = None) -> Any:
        """Where the largest element is, the first of equals.

        Without ``axis`` as in NNTrainer: an array int64 ``[batch]`` of positions within each sample (NCHW order). With
        one axis: a tensor int64 of positions along it.
        """
        return self._position(np.argmax, axis)

    def argmin(self, axis: int | str | None = None) -> Any:
        """Where the smallest element is; see :meth:`argmax`."""
        return self._position(np.argmin, axis)

    def top_k(self, k: int) -> tuple[Self, Self]:
        """The ``k`` largest elements of each row (along width) in falling order, and their positions (int64)."""
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 1 <= k <= self.width:
            raise PropertyError(f"an integer from 1 to the width {self.width}", k, key="k")
        # negated positions after a stable ascending sort of the reversed row: equal elements keep their order
        backward = np.argsort(self._array[..., ::-1], axis=3, kind="stable")[..., ::-1][..., :k]
        positions = (self.width - 1 - backward).astype(np.int64)
        return self._over(np.take_along_axis(self._array, positions, axis=3)), self._over(positions)

    def l2norm(self) -> float:
        """The root of the sum of squares of all elements, summed in float64."""
        total = 0.0
        for block in self._float64_blocks():
            total += float(np.dot(block, block))
        return float(np.sqrt(total))

    def is_valid(self) -> bool:
        """Whether every element is finite."""
        return self.dtype.kind != "f" or bool(np.isfinite(self._array).all())

    def normalization(self, out: Self | None = None) -> Self:
        """``(x - min) / (max - min)`` over the whole tensor: 0 to 1; all zeros if every element is the same."""
        low, high = self.min_value(), self.max_value()
        if out is None and self.dtype.kind != "f":
            return self.astype(np.float32).normalization_i()
        shifted = self.subtract(low, out)
        return shifted if high == low else shifted.divide_i(high - low)

    def normalization_i(self) -> Self:
        """``normalization`` in place."""
        return self.normalization(self)

    def standardization(self, out: Self | None = None) -> Self:
        """Each sample minus its mean, divided by its *norm / number of features*: NNTrainer's definition.

        That divisor is not the standard deviation (norm / root of the number). A constant sample becomes zeros.
        """
        features = self.size // self.batch
        centred = self.subtract(self.average((1, 2, 3)), out)
        norms = np.array([centred.get_batch_slice(sample, 1).l2norm() for sample in range(self.batch)])
        divisor = np.where(norms == 0.0, 1.0, norms / features).reshape(-1, 1, 1, 1)
        return centred.divide_i(divisor.astype(centred.dtype))

    def standardization_i(self) -> Self:
        """``standardization`` in place."""
        return self.standardization(self)

    def _weighted_sum(self, name: str, axes: tuple[int, ...], out: Self | None, alpha: float, beta: float) -> Self:
        wide = np.float32 if self.dtype == np.dtype(np.float16) else None
        total = self._array.sum(axis=axes, keepdims=True, dtype=wide)
        if alpha != 1.0:
            total = total * alpha
        if beta != 0.0 and out is not None:
            check_out(name, out, total.shape, total.dtype)
            total = total + beta * out.data.astype(total.dtype, copy=False)
        if wide is not None:
            with np.errstate(over="ignore"):
                total = total.astype(self.dtype)
        return self._deliver(name, total, out)

    def _deliver(self, name: str, result: Array, out: Self | None) -> Self:
        if out is None:
            return self._over(result)
        check_out(name, out, result.shape, result.dtype)
        out._array[...] = result
        return out

    def _position(self, find: Any, axis: int | str | None) -> Any:
        if axis is None:
            found: npt.NDArray[np.int64] = find(self._array.reshape(self.batch, -1), axis=1).astype(np.int64)
            return found
        (single,) = self.axes(axis)
        return self._over(find(self._array, axis=single, keepdims=True).astype(np.int64))

    def _float64_blocks(self) -> Any:
        """The elements as short float64 arrays, without a full copy of a large tensor."""
        if self.size <= _BLOCK:
            yield self._array.astype(np.float64).reshape(-1)
            return
        flags: list[Any] = ["external_loop", "buffered"]
        with np.nditer(
            self._array,
            flags,
            ["readonly"],
            op_dtypes=[np.dtype(np.float64)],
            order="C",
            buffersize=_BLOCK,
            casting="safe" if self.dtype.kind == "f" else "same_kind",
        ) as blocks:
            yield from blocks
