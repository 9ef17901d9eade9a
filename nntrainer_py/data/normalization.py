"""Scaling of inputs: measured once on the training set, kept with the model, applied the same ever after."""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from nntrainer_py.errors import DataError, printable

Float32 = npt.NDArray[np.float32]
Float64 = npt.NDArray[np.float64]
Shape = tuple[int, int, int]

METHODS = ("standard", "minmax", "pixel")
SCOPES = ("whole", "channel", "feature")
_PIECE = 1 << 16  # values looked at together


@dataclass(frozen=True)
class Normalization:
    """``y = (x - shift) / scale`` for each input of a sample, in float32.

    Attributes:
        method: "standard" (mean 0, deviation 1), "minmax" (0..1) or "pixel" (x / 255, nothing to measure).
        scope: one number for the "whole" input, one for each "channel", or one for each "feature".
        shift, scale: one array per input, of the sample's shape or of shape that broadcasts to it.
    """

    method: str
    scope: str
    shift: tuple[Float32, ...] = field(compare=False)
    scale: tuple[Float32, ...] = field(compare=False)

    def __post_init__(self) -> None:
        if self.method not in METHODS or self.scope not in SCOPES:
            raise ValueError(f"expected a method of {METHODS} and a scope of {SCOPES}, got {self.method}, {self.scope}")
        if len(self.shift) != len(self.scale) or any(
            a.shape != b.shape for a, b in zip(self.shift, self.scale, strict=True)
        ):
            raise ValueError("shift and scale must have the same shapes")
        for array in (*self.shift, *self.scale):
            if array.ndim != 3 or not np.isfinite(array).all():
                raise ValueError("shift and scale must be finite and have three axes")
        if any((scale <= 0).any() for scale in self.scale):
            raise ValueError("a scale must be greater than 0")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Normalization):
            return NotImplemented
        mine, theirs = (*self.shift, *self.scale), (*other.shift, *other.scale)
        return (
            (self.method, self.scope, len(mine)) == (other.method, other.scope, len(theirs))
            and all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]  # holds arrays

    @property
    def nbytes(self) -> int:
        """Memory of shifts and scales."""
        return sum(array.nbytes for array in (*self.shift, *self.scale))

    def check(self, input_dims: Sequence[Shape], name: str) -> None:
        """DataError unless it fits inputs of these shapes."""
        fits = len(input_dims) == len(self.shift) and all(
            all(have in (1, want) for have, want in zip(shift.shape, shape, strict=True))
            for shift, shape in zip(self.shift, input_dims, strict=True)
        )
        if not fits:
            have = ", ".join(":".join(map(str, s.shape)) for s in self.shift)
            want = ", ".join(":".join(map(str, s)) for s in input_dims)
            raise DataError(f"{printable(name)}: the stored normalization is for inputs {have}, the model takes {want}")

    def apply(self, inputs: Sequence[Float32]) -> None:
        """Scale batches (batch, channel, height, width) in place."""
        for x, shift, scale in zip(inputs, self.shift, self.scale, strict=True):
            np.subtract(x, shift, out=x)
            np.divide(x, scale, out=x)

    @classmethod
    def pixel(cls, input_dims: Sequence[Shape]) -> Normalization:
        """Divide by 255."""
        count = len(input_dims)
        zero, full = np.zeros((1, 1, 1), np.float32), np.full((1, 1, 1), 255, np.float32)
        return cls("pixel", "whole", (zero,) * count, (full,) * count)

    @classmethod
    def measure(
        cls, batches: Iterable[Sequence[Float32]], input_dims: Sequence[Shape], *, method: str, scope: str = "whole"
    ) -> Normalization:
        """Measure on batches of raw inputs; each batch is the list of its inputs (count, channel, height, width).

        Mean and variance (over the population) are gathered in float64 and merged batch by batch (Chan, Golub and
        LeVeque 1979). A feature that never changes gets scale 1.

        Raises:
            DataError: no sample, or a value that is not finite.
        """
        if method == "pixel":
            return cls.pixel(input_dims)
        found = [_Measure(shape, scope, method) for shape in input_dims]
        samples = 0
        for batch in batches:
            for one, x in zip(found, batch, strict=True):
                if not np.isfinite(x).all():
                    row = int(np.argwhere(~np.isfinite(x))[0][0])
                    raise DataError(f"sample {samples + row} of the pass has an input value that is not finite")
                one.add(x)
            samples += len(batch[0])
        if not samples:
            raise DataError("there is no sample to measure the normalization on")
        pairs = []
        while found:  # each is let go when it has given its result
            pairs.append(found.pop(0).result())
        return cls(method, scope, tuple(shift for shift, _ in pairs), tuple(scale for _, scale in pairs))


class _Measure:
    """Running mean, squared deviations and extremes of one input, for each of its groups of values.

    Means and deviations are kept in float64 and taken from pieces of `_PIECE` values, so that measuring takes little
    besides them however large a sample is; extremes are float32, as the values are.
    """

    def __init__(self, shape: Shape, scope: str, method: str) -> None:
        if method not in METHODS:
            raise ValueError(f"normalization: expected one of {', '.join(METHODS)}, got {method!r}")
        self._shape = _scaled_shape(shape, scope)
        self._groups = int(np.prod(self._shape))
        self._count = 0  # values of each group
        self._spread = method == "standard"
        self._mean = _own_pages(self._groups if self._spread else 0, np.float64)
        self._squares = _own_pages(self._groups if self._spread else 0, np.float64)
        self._low = _own_pages(self._groups, np.float32)
        self._high = _own_pages(self._groups, np.float32)
        self._low.fill(np.inf)
        self._high.fill(-np.inf)

    def add(self, x: Float32) -> None:
        """Take in samples (count, channel, height, width)."""
        if not len(x):
            return
        values = x.reshape(len(x), self._groups, -1)
        step = max(1, _PIECE // values.shape[2])
        for first in range(0, self._groups, step):
            groups = slice(first, first + step)
            count = self._count
            for piece in _pieces(values[:, groups]):
                np.minimum(self._low[groups], piece.min(axis=(0, 2)), out=self._low[groups])
                np.maximum(self._high[groups], piece.max(axis=(0, 2)), out=self._high[groups])
                if self._spread:
                    self._merge(groups, piece, count)
                count += piece.shape[0] * piece.shape[2]
        self._count += values.shape[0] * values.shape[2]

    def _merge(self, groups: slice, piece: Float32, before: int) -> None:
        """Merge the values of a piece with the ``before`` ones of each of its groups."""
        wide = piece.astype(np.float64)
        mean = wide.mean(axis=(0, 2), keepdims=True)
        wide -= mean
        np.multiply(wide, wide, out=wide)
        squares = wide.sum(axis=(0, 2))
        count = wide.shape[0] * wide.shape[2]
        total = before + count
        delta = mean[0, :, 0] - self._mean[groups]
        self._squares[groups] += squares + delta**2 * (before * count / total)
        self._mean[groups] += delta * (count / total)

    def result(self) -> tuple[Float32, Float32]:
        """Shift and scale."""
        if self._spread:
            self._squares /= self._count
            shift, scale = self._mean.astype(np.float32), np.sqrt(self._squares, out=self._squares).astype(np.float32)
        else:
            shift, scale = self._low.copy(), (self._high.astype(np.float64) - self._low).astype(np.float32)
        # A constant feature measures as rounding noise around 0; dividing by it would blow the noise up.
        still = (self._low == self._high) | (scale <= np.finfo(np.float32).tiny)
        scale[still] = 1.0
        return shift.reshape(self._shape), scale.reshape(self._shape)


def _own_pages(count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Zeros that go back to the system when they are let go, not to the allocator, which might keep them."""
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer(mmap.mmap(-1, max(1, size)), dtype=dtype, count=count)


def _scaled_shape(shape: Shape, scope: str) -> Shape:
    """Of the shifts and scales of an input."""
    kept = {"whole": (1, 1, 1), "channel": (shape[0], 1, 1), "feature": shape}
    if scope not in kept:
        raise ValueError(f"normalization scope: expected one of {', '.join(SCOPES)}, got {scope!r}")
    return kept[scope]


def normalization_bytes(method: str, scope: str, input_dims: Sequence[Shape]) -> int:
    """`Normalization.nbytes` of one that is not measured yet; none for the method "none"."""
    if method == "none":
        return 0
    shapes = [_scaled_shape(shape, "whole" if method == "pixel" else scope) for shape in input_dims]
    return sum(2 * 4 * channel * height * width for channel, height, width in shapes)


def _pieces(values: Float32) -> Iterator[Float32]:
    """Pieces (samples, groups, values) of an array of so many axes, of about `_PIECE` numbers."""
    count, groups, size = values.shape
    rows = max(1, _PIECE // (groups * size))
    columns = min(size, max(1, _PIECE // groups))
    for first in range(0, count, rows):
        for start in range(0, size, columns):
            yield values[first : first + rows, :, start : start + columns]
